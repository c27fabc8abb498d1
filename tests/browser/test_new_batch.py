"""A new batch in a real browser: tested with some of it, looked at, and released with one click."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from retoma import Retoma, Run, pipeline
from retoma.providers import Chat, Message, Prompt
from retoma.providers.factory import close
from retoma.providers.openai import OpenAIChat
from retoma.testing import drain
from retoma.testing.billing import Biller

from ..web.conftest import House, Open  # noqa: TID252 - the house is that of the API's own tests
from .conftest import Visit, keep

PHONE = {"width": 390, "height": 844}


@dataclass(frozen=True)
class Letter:
    kind: str
    """What sort of letter it is."""
    text: str
    pages: int = 1
    urgent: bool = False
    tags: list[str] | None = None


@pipeline("read-letters")
async def letters(letter: Letter, run: Run, *, chat: Chat) -> str:
    """Reads a letter, and says in one sentence what it wants."""
    said = [Message(role="user", content=letter.text)]
    return await run.ask("read", chat, Prompt(messages=said, max_tokens=200))


@pipeline("count-words")
async def words(text: str, run: Run) -> int:
    """Counts the words of a text."""
    return await run.step("count", lambda: len(text.split()))


@pytest.fixture
def desk(open_house: Open, tmp_path: Path) -> Any:
    with Biller(tmp_path / "bill.jsonl") as biller:
        chat = OpenAIChat(key="no-secret", model="clerk", base_url=biller.base_url, provider="biller")
        house = open_house(pipelines=(letters, words), providers={Chat: chat})
        yield Desk(house, chat)


class Desk:
    """A house, and somebody who works in it."""

    def __init__(self, house: House, chat: object) -> None:
        self.house, self.chat = house, chat

    def ask(self, question: Any) -> Any:
        async def asked() -> Any:
            app = Retoma(settings=self.house.settings, pipelines=(letters, words), providers={Chat: self.chat})
            try:
                async with app:
                    return await question(app)
            finally:
                await close({Chat: self.chat})

        with ThreadPoolExecutor(1) as apart:  # the browser's loop runs in this thread
            return apart.submit(asyncio.run, asked()).result()


def rows(number: int) -> str:
    kinds = ("invoice", "contract", "complaint")
    return "kind,text,pages\n" + "\n".join(
        f"{kinds[n % 3]},{'please read this ' * (1 + n % 40)},{n % 7 + 1}" for n in range(number)
    )


def in_both(page: Page, name: str) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, PHONE["width"]):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide at {width}"
            keep(page, f"{name}-{scheme}-{width}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 844})


def test_a_batch_is_tested_with_twenty_and_released_with_one_click(desk: Desk, visit: Visit) -> None:
    page = visit(f"{desk.house.url}/console/new")
    expect(page.get_by_role("heading", name="Novo lote")).to_be_visible()
    in_both(page, "choose")
    page.get_by_role("link", name="read-letters").click()
    expect(page.get_by_label("Cole aqui")).to_be_visible()
    in_both(page, "form")
    page.get_by_label("Cole aqui").fill(rows(200) + "\ninvoice,no number,many")
    page.get_by_label("Nome", exact=True).fill("Cartas de maio")
    page.get_by_role("button", name="Testar com 20").click()
    expect(page.get_by_role("heading", name="1 linha não serve; 200 servem")).to_be_visible()
    in_both(page, "bad-row")
    page.get_by_label("Cole aqui").fill(rows(200))
    page.get_by_role("button", name="Testar com 20").click()
    expect(page.get_by_role("heading", name="Piloto do lote 1")).to_be_visible()
    expect(page.locator("#pilot_now")).to_contain_text("0 de 20 tarefas terminaram")
    in_both(page, "pilot-begins")

    desk.ask(lambda app: app.calls.set_price("biller", "clerk", input=150, output=600))
    desk.ask(drain)
    assert desk.ask(lambda app: app.batches.pilot(1)).over

    expect(page.locator("#pilot_now")).to_contain_text("20 de 20 tarefas terminaram")  # by itself
    expect(page.locator(".figure", has_text="Custo")).to_contain_text("US$")
    in_both(page, "pilot-over")
    page.get_by_role("button", name="Liberar as outras 180").click()
    expect(page.get_by_text("Liberado: o resto segue.")).to_be_visible()
    in_both(page, "released")
    desk.ask(drain)
    assert desk.ask(lambda app: app.batches.progress(1)).completed == 200


def test_the_form_works_without_javascript(desk: Desk, visit: Visit) -> None:
    page = visit(f"{desk.house.url}/console/new?pipeline=count-words&lang=en", java_script_enabled=False)
    page.get_by_role("textbox", name="Input", exact=True).fill("three little words")
    page.get_by_label("Name", exact=True).fill("one text")
    page.get_by_role("button", name="Start all").click()

    (batch,) = desk.ask(lambda app: app.batches.find())
    assert (batch.name, batch.total) == ("one text", 1)
