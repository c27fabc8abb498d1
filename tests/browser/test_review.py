"""The review desk in a real browser: a sitting by keyboard, a server that is killed in it, two people at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from nursery import Begun, begin
from playwright.sync_api import Page, expect

from retoma import Settings
from retoma.testing import drain

from ..web.archive import apart  # noqa: TID252 - the house is that of the API's own tests
from .conftest import Visit
from .review_app import KINDS, Letter, app_of, sort_letters
from .test_accessibility import PHONE, Check, axe, check

__all__ = ["axe", "check"]

HERE = Path(__file__).parent
SITTING = 100
KILLED_AFTER = 40

pytestmark = pytest.mark.timeout(1200)


class Desk:
    """A server in a process of its own, and the database behind it."""

    def __init__(self, settings: Settings, database_url: str, home: Path) -> None:
        self.settings = settings
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        others = {name: value for name, value in os.environ.items() if not name.startswith("RETOMA_")}
        self._environment = {
            **others,
            "DATABASE_URL": database_url,
            "RETOMA_HOME": str(home),
            "PYTHONPATH": str(HERE),
        }
        self._process: Begun | None = None

    def start(self) -> None:
        words = ["-m", "retoma", "serve", "--port", str(self.port), "--app", "review_app:app"]
        with Path(os.devnull).open("ab") as log:
            self._process = begin(words, environment=self._environment, folder=HERE, log=log)
        give_up = time.monotonic() + 240
        while time.monotonic() < give_up:
            with suppress(httpx2.TransportError):
                if httpx2.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            assert self._process.poll() is None, "the server ended"
            time.sleep(0.05)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(240)

    def letters(self, number: int) -> int:
        """A batch of letters, each of which waits for a person."""

        async def made() -> int:
            async with app_of(self.settings) as app:
                letters = [Letter(each, KINDS[(each + each % 3) % len(KINDS)]) for each in range(1, number + 1)]
                batch = await app.batch(sort_letters, letters, name="Letters")
                await drain(app)
                return int(batch.id)

        return apart(lambda: asyncio.run(made()))

    def key(self, name: str) -> str:
        async def made() -> str:
            async with app_of(self.settings) as app:
                return (await app.access.create(name, ["read", "review", "content:read"]))[0]

        return apart(lambda: asyncio.run(made()))


@pytest.fixture
def desk(settings: Settings, database_url: str, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(settings, database_url, tmp_path / "home")
    made.letters(SITTING + 10)
    made.keys = {name: made.key(name) for name in ("ana", "bia")}  # type: ignore[attr-defined]
    made.start()
    yield made
    made.stop()


def sit_down(desk: Desk, visit: Visit, name: str, **options: Any) -> Page:
    """Somebody signs in and takes the first one."""
    page = visit(f"{desk.url}/login?next=/console/review", **options)
    page.locator("#key").fill(desk.keys[name])  # type: ignore[attr-defined]
    page.locator("#key").press("Enter")
    page.wait_for_url(f"{desk.url}/console/review")
    page.locator(".page-head form button").click()
    page.wait_for_selector("#desk[data-open=yes]")
    return page


def at(page: Page) -> str:
    return str(page.locator("#desk").get_attribute("data-review"))


def press(page: Page, key: str) -> None:
    """Press a key, and come back when another thing is shown or all is over."""
    before = at(page)
    page.keyboard.press(key)
    page.wait_for_function(
        "before => { const desk = document.getElementById('desk');"
        " return !desk || (desk.dataset.review !== before && !desk.dataset.sent); }",
        arg=before,
    )


def saved(page: Page) -> None:
    page.wait_for_function("() => JSON.parse(sessionStorage.getItem('retoma_review_outbox') || '[]').length === 0")


def test_a_sitting_of_a_hundred_loses_and_doubles_nothing_when_the_server_is_killed(
    desk: Desk, visit: Visit, psql: psycopg.Connection
) -> None:
    page = sit_down(desk, visit, "ana", locale="en-GB")
    decided: dict[str, str] = {}
    began = time.monotonic()
    restarted = 0.0
    for number in range(SITTING):
        id = at(page)
        assert id not in decided, "nothing is shown twice"
        key = str(1 + number % 4) if number % 3 else "Enter"
        if number == KILLED_AFTER:
            # In the middle of a decision: it is in the outbox, and nobody answers.
            desk.kill()
            page.keyboard.press(key)
            decided[id] = key
            page.wait_for_function(
                "() => JSON.parse(sessionStorage.getItem('retoma_review_outbox') || '[]').length > 0"
            )
            begin = time.monotonic()
            desk.start()
            restarted = time.monotonic() - begin
            saved(page)
            page.wait_for_function("before => document.getElementById('desk').dataset.review !== before", arg=id)
            continue
        press(page, key)
        decided[id] = key
    saved(page)
    seconds = time.monotonic() - began - restarted

    rows = psql.execute(
        "select review_id::text, kind, decided::text, who, seconds from retoma.decisions order by id"
    ).fetchall()
    assert len(rows) == SITTING
    assert {row[0] for row in rows} == set(decided)
    outputs = psql.execute(
        "select review.id::text, job.state, job.output::text, review.proposal::text, decision.kind"
        "  from retoma.reviews as review join retoma.jobs as job on job.id = review.job_id"
        "  join retoma.decisions as decision on decision.review_id = review.id"
    ).fetchall()
    wrong = []
    for id, state, output, proposal, kind in outputs:
        label = json.loads(output)["label"]
        key = decided[id]
        wanted = json.loads(proposal)["label"] if key == "Enter" else KINDS[int(key) - 1]
        if state != "completed" or label != wanted or (kind == "accept") != (output == proposal):
            wrong.append((id, key, state, output))
    assert wrong == []
    assert psql.execute("select count(*) from retoma.jobs where state = 'review'").fetchone() == (10,)
    each = seconds / SITTING
    told = f"{each:.3f} s each, {3600 / (2 + each):.0f} an hour with 2 s of thought"
    print(f"\n{SITTING} decisions by keyboard: {told}")  # noqa: T201 - the figure; nothing depends on it


def test_two_people_never_get_the_same_one(desk: Desk, visit: Visit, psql: psycopg.Connection) -> None:
    ana, bia = sit_down(desk, visit, "ana"), sit_down(desk, visit, "bia")
    seen: list[str] = []
    for _ in range(12):
        for page in (ana, bia):
            seen.append(at(page))
            press(page, "Enter")
    saved(ana), saved(bia)

    assert len(seen) == len(set(seen)) == 24
    counted = psql.execute("select who, count(*) from retoma.decisions group by who order by 2").fetchall()
    assert [row[1] for row in counted] == [12, 12]


def test_every_key_does_what_its_help_says(desk: Desk, visit: Visit, psql: psycopg.Connection) -> None:
    page = sit_down(desk, visit, "ana", locale="en-GB")
    first = at(page)
    expect(page.locator("#passage")).to_contain_text("hereby submit this")

    page.keyboard.press("?")
    expect(page.locator("#review-keys")).to_be_visible()
    page.keyboard.press("Escape")
    press(page, "s")
    second = at(page)
    page.keyboard.press("e")
    page.locator("#value").fill('{"label": 7}')
    page.get_by_role("button", name="Save this value").click()
    expect(page.locator("#notices")).to_contain_text("not an output of 'sort-letters'")
    expect(page.locator(f"#desk[data-review='{second}']:not([data-sent])")).to_be_visible()
    page.keyboard.press("e")
    page.locator("#value").fill('{"label": "will"}')
    page.get_by_role("button", name="Save this value").click()
    page.wait_for_function("before => document.getElementById('desk').dataset.review !== before", arg=second)
    third = at(page)
    page.keyboard.press("r")
    page.keyboard.type("illegible")
    press(page, "Enter")
    saved(page)
    page.keyboard.press("u")
    page.wait_for_selector(f"#desk[data-review='{third}']")

    kinds = psql.execute("select review_id::text, kind, note from retoma.decisions order by id").fetchall()
    assert kinds == [(second, "correct", None), (third, "reject", "illegible"), (third, "undo", None)]
    assert first not in {row[0] for row in kinds}
    assert psql.execute(
        "select job.output::text from retoma.jobs as job join retoma.reviews as review on review.job_id = job.id"
        f" where review.id = {second}"
    ).fetchone() == ('{"label":"will"}',)


def test_forms_alone_are_enough(desk: Desk, visit: Visit, psql: psycopg.Connection) -> None:
    page = sit_down(desk, visit, "ana", java_script_enabled=False, locale="pt-BR")
    first = at(page)
    page.get_by_role("button", name="ruling").click()
    expect(page.locator("#review-n")).to_have_text("um decidido nesta sessão")
    second = at(page)
    page.get_by_role("button", name="Desfazer minha última decisão").click()
    expect(page.locator("#desk")).to_have_attribute("data-review", first)

    assert second != first
    assert [row[0] for row in psql.execute("select kind from retoma.decisions order by id").fetchall()] in (
        ["correct", "undo"],
        ["accept", "undo"],
    )


def test_everybody_can_use_the_desk(desk: Desk, visit: Visit, check: Check) -> None:
    page = sit_down(desk, visit, "ana", locale="en-GB")
    for _ in range(6):
        press(page, "Enter")
    press(page, "2")
    check(page, "an item")
    page.set_viewport_size(PHONE)
    check(page, "an item on a phone")
    page.goto(f"{desk.url}/console/review")
    check(page, "the desk on a phone")
    narrow = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert narrow
    page.set_viewport_size({"width": 1280, "height": 900})
    check(page, "the desk")
