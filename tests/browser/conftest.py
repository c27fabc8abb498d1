"""Pages as people meet them: a real Chromium, a real server, a real worker."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))  # where the nursery is

from retoma import Retoma, Settings
from retoma.app.extension import Extension
from retoma.pipelines import DOCUMENTS
from retoma.testing import drain

from ..web.archive import providers  # noqa: TID252 - the house is that of the API's own tests
from ..web.conftest import House, Open, open_house  # noqa: TID252

__all__ = ["open_house"]

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--no-first-run"]

PATIENCE = 240_000

Visit = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for each in items:
        if Path(__file__).parent in each.path.parents:
            each.add_marker(pytest.mark.browser)
            if each.get_closest_marker("timeout") is None:
                each.add_marker(pytest.mark.timeout(1200))  # it only ends what hangs


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each module: while it is there, its loop runs in this thread and no test can have one of its own."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium here; apt-get install chromium")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE)  # for a machine that is busy: what comes, comes at once
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A page of a visitor of their own; what its scripts complain about fails the test."""
    complaints: list[str] = []
    with ExitStack() as stack:

        def make(url: str, **options: Any) -> Page:
            context: BrowserContext = browser.new_context(**{"locale": "pt-BR", **options})
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
            page.goto(url)
            return page

        yield make
    assert complaints == []


def keep(page: Page, name: str) -> None:
    """A picture for whoever wants to look: PICTURES names the folder."""
    if folder := os.environ.get("PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def choose_before(page: Page, script: str, url: str, files: Sequence[Path]) -> None:
    """Go to *url* and choose *files* before *script* has come, as over a slow line."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(f"**/{script}*", hold)
    page.goto(url, wait_until="commit")
    page.set_input_files("#files", files)
    page.wait_for_function("document.querySelector('#files').files.length > 0")
    while not held:
        page.wait_for_timeout(10)
    for each in held:
        each.continue_()


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return providers(tmp_path / "blobs")


@pytest.fixture
def house(open_house: Open, given: dict[type, object]) -> House:
    return open_house(extensions=[DOCUMENTS], providers=given)


@contextmanager
def working(
    settings: Settings, given: dict[type, object], extensions: Iterable[Extension] = (DOCUMENTS,)
) -> Iterator[None]:
    """A worker that does what there is to do, again and again."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.2):
            asyncio.run(drain(Retoma(settings=settings, extensions=extensions, providers=given)))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
