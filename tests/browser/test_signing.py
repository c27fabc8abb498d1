"""Signing in as people meet it first: the form, a key that is refused, the link that a server without keys prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from retoma.app.access import local_token
from retoma.pipelines import DOCUMENTS

from ..web.conftest import House, Open  # noqa: TID252 - the house is that of the API's own tests
from .conftest import Visit

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
WORDS = {
    "en-US": ("Sign in", "This link does not sign you in any more"),
    "pt-BR": ("Entrar", "Este link não serve mais para entrar"),
}


@pytest.fixture
def keyless(open_house: Open, given: dict[type, object], tmp_path: Path) -> House:
    return open_house(extensions=[DOCUMENTS], providers=given, token="on", home=tmp_path / "home")


def link(house: House) -> str:
    return f"{house.url}/login?token={local_token.link_of(local_token.token_of(house.settings.home))}"


def fits(page: Page) -> None:
    """Nothing is wider than the page, and a command is not cut in two."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    lines = page.locator("code.command").evaluate_all("found => found.map(each => each.getClientRects().length)")
    assert lines == [1, 1]


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("locale", WORDS)
def test_the_form_fits_and_says_what_was_wrong(keyless: House, visit: Visit, locale: str, size: dict[str, int]) -> None:
    title, used = WORDS[locale]
    page = visit(f"{keyless.url}/login", locale=locale, viewport=size)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page.locator("#key")).to_be_focused()
    expect(page.get_by_role("navigation")).to_have_count(0)
    fits(page)

    page.goto(link(keyless)[:-20])
    expect(page.get_by_role("alert")).to_contain_text(used)
    fits(page)


def test_the_printed_link_signs_in_once_and_then_says_so(keyless: House, visit: Visit) -> None:
    address = link(keyless)
    page = visit(address)
    page.wait_for_url(f"{keyless.url}/console/")
    expect(page.get_by_role("navigation", name="Páginas")).to_be_visible()

    other = visit(address)

    expect(other.get_by_role("alert")).to_contain_text("Este link não serve mais para entrar")
    other.get_by_label("Chave de API").fill(local_token.token_of(keyless.settings.home))
    other.get_by_role("button", name="Entrar").click()
    other.wait_for_url(f"{keyless.url}/console/")
