"""Books whose workers are killed: in every chapter, between answer and save, while files are written and read.

The bill of the provider says what was paid, the rows say what is there; nobody asks the program that was killed.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from books_app import PayingEditor, TextExtractor
from fleet import Fleet, until
from oracle import Oracle
from sample_books import book_text

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.pipelines.books import transfer
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.ports import Editor
from retoma.providers import BlobStore, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.testing.billing import Biller

CHAPTERS = 3
WHERE = ("during", "ask", "chapter")
"""In the chapter before it asks, between the answer and the save, and after the save."""

PLACES = [f"{where}/{number}" for number in range(1, CHAPTERS + 1) for where in WHERE]
"""Every chapter, at every place where it can die."""

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


async def pieces(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


@pytest.fixture
async def books(fleet: Fleet) -> AsyncIterator[Books]:
    providers = {BlobStore: FolderBlobs(fleet.folder / "blobs"), Extractor: TextExtractor(), Editor: PayingEditor()}
    async with Retoma(fleet.url, extensions=[BOOKS], providers=providers) as app:
        yield Books(app)


@pytest.fixture
def biller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Biller]:
    with Biller(tmp_path / "bill.jsonl") as biller:
        monkeypatch.setenv("PAID_URL", biller.base_url)
        yield biller


async def finished(fleet: Fleet, oracle: Oracle, label: str = "last") -> None:
    """A worker that is left alone ends the work."""
    member = fleet.start(label, app="books_app:app", at_once=1, queues=["books"])
    await until(
        lambda: oracle.one("select count(*) from books.sessions where finished_at is null") == 0,
        what="every book is done",
    )
    member.send(signal.SIGTERM)
    await member.exit_code()


async def stopped(books: Books, oracle: Oracle, id: str, place: str | None) -> None:
    """The worker has come to *place*, or to the end. A job that kills its workers is given up; its book is resumed."""
    async with asyncio.timeout(120):
        while place not in {mark.step for mark in oracle.marks("waits")}:
            session = await books.get(id)
            if session.state == "done" and place is None:
                return
            if session.state == "failed":
                await books.resume(id)
            await asyncio.sleep(0.1)


def each_once(oracle: Oracle, biller: Biller, chapters: int) -> None:
    """Every chapter has one checkpoint, which is valid; the provider was paid once for each."""
    rows = oracle.rows("select chapter_number, version, verdict from books.checkpoints order by chapter_number")
    assert rows == [(str(number), 1, "valid") for number in range(1, chapters + 1)]
    assert len(biller.bill.calls) == chapters
    assert set(biller.bill.by_request.values()) == {1}
    saves = Counter(mark.step for mark in oracle.marks("done") if mark.step.startswith("chapter/"))
    assert saves == {f"chapter/{number}/1": 1 for number in range(1, chapters + 1)}
    none_again(oracle)


def none_again(oracle: Oracle) -> None:
    """The diary, which is only ever added to, begins no chapter after it says that the chapter was saved."""
    saved: set[str] = set()
    for mark in oracle.marks():
        if mark.what == "done" and mark.step.startswith("chapter/"):
            saved.add(mark.step.split("/")[1])
        assert mark.what != "asks" or mark.step not in saved, f"chapter {mark.step} was saved, and done again"


async def test_a_kill_in_every_chapter_and_between_answer_and_save_repeats_no_chapter_and_pays_none_twice(
    fleet: Fleet, oracle: Oracle, books: Books, biller: Biller
) -> None:
    id = (await books.summarise("livro.md", pieces(book_text(CHAPTERS)))).session.id
    for place in PLACES:
        member = fleet.start(
            place.replace("/", "-"), app="books_app:app", at_once=1, queues=["books"], crash_after=place
        )
        await stopped(books, oracle, id, place)
        member.send(signal.SIGKILL, executors=True)
        await member.exit_code()
        done = oracle.one("select count(*) from books.checkpoints where verdict = 'valid'")
        where, _, number = place.partition("/")
        assert done == int(number) - (where != "chapter"), "what was saved before the kill is there after it"
        await until(
            lambda: not oracle.open_transactions(),
            what="the server has noticed that the worker is gone",
        )

    member = fleet.start("last", app="books_app:app", at_once=1, queues=["books"])
    await stopped(books, oracle, id, None)
    member.send(signal.SIGTERM)
    await member.exit_code()

    each_once(oracle, biller, CHAPTERS)
    # Asked again is what died before it was saved, and nothing else; the answer was on record, and the bill shows it.
    asked = Counter(mark.step for mark in oracle.marks("asks"))
    assert asked == {
        str(number): 1 + sum(place == f"ask/{number}" for place in PLACES) for number in range(1, CHAPTERS + 1)
    }
    assert (await books.get(id)).state == "done"
    assert list(await books.results(id)) == [str(number) for number in range(1, CHAPTERS + 1)]


async def test_an_export_that_is_killed_leaves_whole_files_and_the_next_one_ends_it(
    fleet: Fleet, oracle: Oracle, books: Books, biller: Biller
) -> None:
    id = (await books.summarise("livro.md", pieces(book_text(CHAPTERS)))).session.id
    await finished(fleet, oracle)
    for stop in range(1, 2 * CHAPTERS + 1):
        place = fleet.folder / f"out-{stop}"
        member = fleet.call(f"export-{stop}", "books_mover.py", "export", id, place, stop)
        await until(lambda member=member: "here" in member.words(), what="it stops between part and name, or after")
        member.send(signal.SIGKILL)
        await member.exit_code()

        named = [each for found in transfer.check_folder(place) for each in found.judged]
        assert len(named) == stop // 2
        assert all(each.verdict.valid for each in named)
        await transfer.export(books, id, place)
        assert [each.verdict.valid for each in transfer.check_folder(place)[0].judged] == [True] * CHAPTERS
    each_once(oracle, biller, CHAPTERS)


async def test_an_import_that_is_killed_leaves_nothing_by_halves_and_the_next_one_ends_it(
    fleet: Fleet, oracle: Oracle, books: Books, biller: Biller
) -> None:
    id = (await books.summarise("livro.md", pieces(book_text(CHAPTERS)))).session.id
    await finished(fleet, oracle)
    place = fleet.folder / "out"
    await transfer.export(books, id, place)
    (place / f"{id}_checkpoint_2.json").unlink()
    paid = len(biller.bill.calls)
    assert await books.remove(id)
    for stop in (1, 2):
        member = fleet.call(f"import-{stop}", "books_mover.py", "import", id, place, stop)
        await until(lambda member=member: "here" in member.words(), what="it stops in its transaction")
        member.send(signal.SIGKILL)
        await member.exit_code()
        await until(
            lambda: not oracle.open_transactions(),
            what="the server has noticed that it is gone",
        )
        assert oracle.one("select count(*) from books.sessions") == 0
        assert oracle.one("select count(*) from books.checkpoints") == 0

    (came,) = await transfer.import_folder(books, place)
    assert (came.count("imported"), came.has_input) == (2, True)
    await books.resume(id)
    await finished(fleet, oracle, "again")

    # The chapter that was not in the folder is made again; its answer is on record, so not even that is paid for.
    assert len(biller.bill.calls) == paid
    assert (await books.get(id)).done == CHAPTERS
    origins = oracle.rows("select chapter_number, origin from books.checkpoints order by chapter_number")
    assert origins == [("1", "import"), ("2", "run"), ("3", "import")]
