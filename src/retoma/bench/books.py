"""The figures of books: words summed up in a second, how soon a killed book goes on, and many books at once."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from retoma import Retoma
from retoma.bench import book_figures
from retoma.bench.book_program import DIARY, HALTS, Diary
from retoma.bench.evaluation import labelled
from retoma.bench.machine import WorkerProcess, worker
from retoma.bench.pipelines import AT_ONCE, House, house, pieces
from retoma.bench.trouble import kill_whole
from retoma.model.ids import JobId
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import Session
from retoma.pipelines.books.text.editors import LocalEditor
from retoma.providers import Extraction, Page

Figures = dict[str, Any]

PROGRAM = "retoma.bench.book_program:app"
WORKERS = 2
_SENTENCE = re.compile(r"[A-ZÁÉÍÓÚÂÊÔÃÕÇ][^.!?\n]{20,300}[.!?]")
_PAGE = 350  # words
_LONGEST = 3600.0


@cache
def _sentences() -> tuple[str, ...]:
    texts = [labelled.book("pt"), *(each.text for each in labelled.documents() if each.language == "pt")]
    return tuple(dict.fromkeys(each for text in texts for each in _SENTENCE.findall(text)))


def book(number: int, *, chapters: int, words: int) -> str:
    """An invented book; each number has another. Its chapters have about *words* words each."""
    chance = Random(f"book {number}")  # noqa: S311 - an invented book needs no secrecy
    parts = [f"O livro número {number}"]
    for chapter in range(1, chapters + 1):
        paragraphs, count = [], 0
        while count < words:
            said = [f"No dia {chance.randrange(1, 9_999)} do ano.", *chance.sample(_sentences(), 6)]
            paragraphs.append(" ".join(said))
            count += len(paragraphs[-1].split())
        parts.append(f"Capítulo {chapter}\n\n" + "\n\n".join(paragraphs))
    return "\n\n\n".join(parts) + "\n"


def read(text: str) -> Extraction:
    """A book as a reader gives it, in pages."""
    lines = text.splitlines()
    pages, held, count = [], [], 0
    for line in lines:
        held.append(line)
        count += len(line.split())
        if count >= _PAGE:
            pages.append("\n".join(held))
            held, count = [], 0
    pages.append("\n".join(held))
    return Extraction(
        pages=[Page(number=number, text=each) for number, each in enumerate(pages, start=1)], reader="bench"
    )


async def words(chapters: int, *, words: int) -> Figures:
    """Words a second, offline, in one process: chapters found, each summed up, audited and measured."""
    editor = LocalEditor()
    small = editor.detect(read(book(0, chapters=3, words=200)))
    await editor.summarise(small.chapters[0], ask=None, timeout=_LONGEST)  # the model is loaded once per process
    text = book(1, chapters=chapters, words=words)
    began, used = time.perf_counter(), time.process_time()
    plan = editor.detect(read(text))
    found = time.perf_counter()
    passed = 0
    for chapter in plan.chapters:
        passed += (await editor.summarise(chapter, ask=None, timeout=_LONGEST)).passed
    ended, used = time.perf_counter(), time.process_time() - used
    number = sum(len(each.text.split()) for each in plan.chapters)
    return {
        "model": editor.model,
        "chapters": chapters,
        "chapters_found": len(plan.chapters),
        "passed": passed,
        "words": number,
        "detect_seconds": round(found - began, 2),
        "words_per_second": round(number / (ended - began)),
        "words_per_cpu_second": round(number / used),
    }


# — resume —


async def resumed(chapters: int, *, words: int, shares: Sequence[float] = (0.5, 0.98)) -> Figures:
    """Seconds until a book goes on at its first chapter without a checkpoint: its worker is killed whole when these
    *shares* of its chapters are done, and each time another worker waits with nothing to do. The second time it runs
    alone, in an executor that is started for it; a third would be its quarantine.
    """
    places = [int(share * chapters) for share in shares]
    async with house() as here:
        diary = Diary(Path(here.environment["RETOMA_HOME"], "diary"))
        halts = ",".join(str(place + 1) for place in places)
        environment = {**here.environment, DIARY: str(diary.file), HALTS: halts}
        text = book(2, chapters=chapters, words=words)
        from_claim, from_kill = [], []
        with ExitStack() as stack:
            working = await _started(here, stack, environment)
            session = (await Books(here.app).summarise("bench.txt", pieces(text.encode()))).session
            job = _job_of(session)
            for place in places:
                await _begun(diary, str(place + 1), times=1)
                idle = await _started(here, stack, environment)
                killed = time.time()
                kill_whole(working)
                again = await _begun(diary, str(place + 1), times=2)
                claimed = (await here.app.fetch(book_figures.claimed_at(job)))[0].timestamp()
                from_claim.append(round(again - claimed, 3))
                from_kill.append(round(again - killed, 2))
                working = idle
            await here.app.jobs.wait(job, timeout=_LONGEST)
        return {
            **await _once(here.app, [session]),
            "done_when_killed": places,
            "from_claim_seconds": from_claim,
            "from_kill_seconds": from_kill,
            "begun": len(diary.lines()),
        }


async def _started(here: House, stack: ExitStack, environment: dict[str, str]) -> WorkerProcess:
    """One more worker, which is ready and has nothing to do."""
    before = {each.id for each in await here.app.workers.all()}
    begun = stack.enter_context(
        worker(here.app.database.url, at_once=AT_ONCE, program=PROGRAM, environment=environment)
    )
    async with asyncio.timeout(180):
        while not {each.id for each in await here.app.workers.all()} - before:
            await asyncio.sleep(0.05)
    return begun


async def _begun(diary: Diary, number: str, *, times: int) -> float:
    """When a chapter was begun for the so manieth time, once it was."""
    async with asyncio.timeout(_LONGEST):
        while len(found := [each.at for each in diary.lines() if each.number == number]) < times:
            await asyncio.sleep(0.02)
    return found[times - 1]


def _job_of(session: Session) -> JobId:
    assert session.job_id is not None
    return session.job_id


async def _present(app: Retoma, number: int) -> None:
    async with asyncio.timeout(180):
        while len(await app.workers.all()) < number:
            await asyncio.sleep(0.05)


# — many —


async def at_once(number: int, *, chapters: int, words: int) -> Figures:
    """So many books, each another, on two workers of the ready app: read, cut into chapters, summed up, saved."""
    async with house() as here:
        with ExitStack() as stack:
            for _ in range(WORKERS):
                stack.enter_context(here.worker())
            await _present(here.app, WORKERS)
            library = Books(here.app)
            started = []
            since = time.perf_counter()
            for which in range(number):
                text = book(100 + which, chapters=chapters, words=words)
                started.append((await library.summarise(f"{which}.txt", pieces(text.encode()))).session)
            sent = time.perf_counter() - since
            for session in started:
                await here.app.jobs.wait(_job_of(session), timeout=_LONGEST)
            seconds = time.perf_counter() - since
        found = await _once(here.app, started)
    return {
        "books": number,
        "workers": WORKERS,
        "sent_seconds": round(sent, 1),
        "seconds": round(seconds, 1),
        "words_per_second": round(found["words"] / seconds),
        **found,
    }


async def _once(app: Retoma, sessions: list[Session]) -> Figures:
    """What became of the chapters: each has one checkpoint, and no more."""
    (made,) = await app.fetch(book_figures.made([each.id for each in sessions]))
    return made._asdict()
