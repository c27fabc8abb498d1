"""The page beside the proposal, in a real browser: seen in both languages, and where it cannot be, that is said."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Page, expect

from retoma.pipelines import CLASSIFICATION
from retoma.providers import BlobStore

from ..local.test_pictures import book  # noqa: TID252 - a PDF of several pages
from ..web.conftest import House, Open  # noqa: TID252 - the house is that of the API's own tests
from ..web.doubtful_stage import PAGES, QUOTE, judge, unsure  # noqa: TID252
from .conftest import Visit
from .test_accessibility import PHONE, Check, axe, check

__all__ = ["axe", "check"]

pytestmark = pytest.mark.timeout(1200)

WORDS = {"en-GB": "Open the page in its own tab", "pt-BR": "Abrir a página em outra aba"}
WHY = {
    "en-GB": "The page is not shown: the file in the store is not the one that was received.",
    "pt-BR": "A página não é mostrada: o arquivo guardado não é o que foi recebido.",
}


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return unsure(tmp_path / "blobs")


@pytest.fixture
def house(open_house: Open, given: dict[type, object]) -> House:
    return open_house(extensions=[CLASSIFICATION], providers=given)


def sit_down(house: House, visit: Visit, **options: object) -> Page:
    page = visit(f"{house.url}/console/review", **options)
    page.locator(".page-head form button").click()
    page.wait_for_selector("#desk[data-open=yes]")
    return page


@pytest.mark.parametrize("locale", ["en-GB", "pt-BR"])
def test_the_page_is_seen_beside_the_proposal(
    locale: str, house: House, given: dict[type, object], visit: Visit, check: Check
) -> None:
    judge(house, given, ("autos.pdf", book(*PAGES)))

    page = sit_down(house, visit, locale=locale)
    page.wait_for_function("() => document.querySelector('.review-image').naturalWidth > 0")

    expect(page.locator("#passage")).to_have_text(QUOTE)
    expect(page.locator("#desk figcaption")).to_have_text(WORDS[locale])
    box, decide = page.locator(".review-sheet").bounding_box(), page.locator(".review-decide").bounding_box()
    assert box
    assert decide
    assert box["x"] + box["width"] <= decide["x"], "the page is beside what is decided"
    check(page, "a page at the desk")
    page.set_viewport_size(PHONE)
    check(page, "a page at the desk on a phone")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("locale", ["en-GB", "pt-BR"])
def test_a_page_that_cannot_be_drawn_leaves_its_text_and_says_why(
    locale: str, house: House, given: dict[type, object], visit: Visit, psql: psycopg.Connection
) -> None:
    judge(house, given, ("autos.pdf", book(*PAGES)))
    [[blob]] = psql.execute("select blob from retoma.project_documents").fetchall()
    path: Path = given[BlobStore].path(blob)  # type: ignore[attr-defined]
    path.chmod(0o600)
    path.write_bytes(b"%PDF-1.7 another")

    page = sit_down(house, visit, locale=locale)

    expect(page.locator(".review-no-image")).to_have_text(WHY[locale])
    expect(page.locator("#passage")).to_have_text(QUOTE)
    expect(page.locator(".review-image")).to_have_count(0)


def test_the_next_thing_has_its_page_too(house: House, given: dict[type, object], visit: Visit) -> None:
    judge(house, given, ("um.pdf", book(*PAGES)), ("dois.pdf", book(*PAGES, "Verso em branco, mas não tanto assim.")))
    page = sit_down(house, visit)
    first = page.locator("#desk").get_attribute("data-review")

    page.keyboard.press("Enter")

    page.wait_for_function("before => document.getElementById('desk').dataset.review !== before", arg=first)
    page.wait_for_function("() => document.querySelector('.review-image').naturalWidth > 0")
