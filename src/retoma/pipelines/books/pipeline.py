"""The pipeline: a book is read once, its chapters are found once, and each of them is one recorded step.

At the start of every attempt the checkpoints are judged anew. A chapter that has a valid one is never done again; every
other one is, also where it leaves a gap. A checkpoint and the engine's own note of the step commit together.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from retoma.app.fetch import fetch
from retoma.errors import NotFound
from retoma.model.endings import Reject, Review
from retoma.model.retry import Retry
from retoma.pipelines.books import chapters, checkpoints, sessions
from retoma.pipelines.books.compose import Progress, composed, taken_over
from retoma.pipelines.books.editor import editor_for
from retoma.pipelines.books.model import Held, NewBook, StoredChapter, configuration_of, stored
from retoma.pipelines.books.ports import Ask, ChapterPlan, Editor
from retoma.pipelines.books.remarks import all_said, of_values, to_values
from retoma.pipelines.books.rows import judged_rows
from retoma.pipelines.books.text.language import language_of
from retoma.pipelines.books.verdicts import Expected, Verdict, hash_of, judge
from retoma.pipelines.files.ingest import hash_of as hash_of_file
from retoma.pipelines.files.ingest import local_file
from retoma.providers import BlobStore, Chat, Extraction, Extractor, Prompt, ProviderError
from retoma.providers.local.errors import ContentChanged
from retoma.run.pipeline import Pipeline, pipeline
from retoma.run.run import Run

T = TypeVar("T")
Connection = psycopg.AsyncConnection[Any]

NAME = "books"
CHAPTER_SECONDS = 900.0
"""For the summary of one chapter, all its requests together."""
READ_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run came to."""

    chapters: int
    restored: int
    """Chapters that were done before this attempt."""
    processed: int
    passed: bool


@dataclass(frozen=True, slots=True)
class Opened:
    """What an attempt finds: whether the chapters are known, and those that are not done. Their texts stay where they
    are, and are in no checkpoint of the engine.
    """

    planned: bool
    chapters: int
    open: list[int]
    doubts: list[str] = field(default_factory=list)
    title: str | None = None


@pipeline(NAME, internal=True, retry=Retry(attempts=5, wait=5.0, factor=2.0), timeout=21_600.0, stall_seconds=1_800.0)
async def summarise_book(
    book: NewBook,
    run: Run,
    *,
    extractor: Extractor,
    blobs: BlobStore,
    chat: Chat | None = None,
    editor: Editor | None = None,
) -> Finished:
    """Sum up every chapter of a book that has no valid checkpoint."""
    work = _Work(book, run, editor or editor_for(chat), chat)
    work.must_be_configured()
    opened = await work.open("open")
    if not opened.planned:
        await work.plan(await _read(book, run, extractor, blobs))
        opened = await work.open("reopen")
    if opened.doubts:
        raise Review({"doubts": opened.doubts}, "The list of chapters is in doubt.", title=opened.title)
    failed = [each for chapter in work.unprocessed for each in await work.process(chapter)]
    passed = await work.finish()
    if failed:
        raise Reject(f"chapters_failed: {len(failed)} of {opened.chapters} chapters: " + " ".join(failed)[:1500])
    return Finished(opened.chapters, opened.chapters - len(opened.open), len(opened.open), passed)


class _Work:
    """One attempt at a book."""

    def __init__(self, book: NewBook, run: Run, editor: Editor, chat: Chat | None) -> None:
        self.book, self.run, self.editor, self.chat = book, run, editor, chat
        self.configuration = configuration_of(editor)
        self.unprocessed: list[StoredChapter] = []
        self._known: list[StoredChapter] = []
        self._versions: dict[str, int] = {}
        # A name for each claim of the job: what was true in the one before may not be any more.
        self._claim = run.token.rpartition(":")[2]

    def must_be_configured(self) -> None:
        """Refuse to go on in another way than the session was begun."""
        if hash_of(self.configuration) != self.book.configuration_hash:
            raise Reject(
                "configuration_differs: this session was begun with another model or other settings than this worker "
                f"has ({self.editor.provider}/{self.editor.model}). Nothing was paid. Start a worker with the former, "
                "or send the book again: what still holds is reused."
            )

    async def _own(self, connection: Connection) -> Held:
        rows = await fetch(connection, sessions.owned(self.book.session_id, self.run.job))
        if not rows or rows[0].input_sha256 != self.book.sha256:
            raise Reject(
                f"input_mismatch: job {self.run.job} is not the one that works on session {self.book.session_id}, or "
                "names another input. Nothing was changed. Resume the session."
            )
        return rows[0]

    async def open(self, name: str) -> Opened:
        """Judge what is there, and load what is to be done."""

        async def opened(connection: Connection) -> Opened:
            held = await self._own(connection)
            self._known = await fetch(connection, chapters.of(held.id))
            if held.planned_at is None:
                return Opened(planned=False, chapters=0, open=[])
            found = await judged_rows(connection, self._expected(), self._numbers())
            self._versions = found.versions
            self.unprocessed = [each for each in self._known if each.number not in found.search.usable]
            doubts = _doubts(held) if self.unprocessed else []
            return Opened(True, len(self._known), [each.place for each in self.unprocessed], doubts, held.title)

        return await self.run.transact(f"{name}/{self._claim}", opened)

    def _numbers(self) -> list[str]:
        return [each.number for each in self._known]

    def _expected(self) -> Expected:
        return Expected(
            session_id=self.book.session_id,
            input_sha256=self.book.sha256,
            configuration_hash=self.book.configuration_hash,
            chapters={each.number: (each.sha256, each.words) for each in self._known},
        )

    # — the list of chapters —

    async def plan(self, extraction: Extraction) -> None:
        """Find the chapters, keep them, and take over what was made of the same texts before."""
        found = await asyncio.to_thread(self.editor.detect, extraction)
        if not any(chapter.text.strip() for chapter in found.chapters):
            raise Reject(
                f"no_text: {self.book.filename} was read by {extraction.reader}, and there is no text in it. "
                "If a person can read something in it, print it to a PDF and send that."
            )

        async def planned(connection: Connection) -> int:
            held = await self._own(connection)
            if held.planned_at is None:
                await self._put(connection, held, found, extraction)
            return len(found.chapters)

        await self.run.transact("plan", planned)

    async def _put(self, connection: Connection, held: Held, found: ChapterPlan, extraction: Extraction) -> None:
        kept = [stored(place, chapter) for place, chapter in enumerate(found.chapters, start=1)]
        for chapter in kept:
            await fetch(connection, chapters.put(held.id, chapter))
        said = sessions.planned(
            held.id,
            detector=found.detector,
            left_out=[asdict(each) for each in found.left_out],
            doubts=to_values(found.doubts),
            pages=len(extraction.pages),
            reader=extraction.reader,
        )
        await fetch(connection, said)
        self._known = kept
        there = {row.chapter_number for row in await fetch(connection, checkpoints.valid(held.id))}
        await self._take_over(connection, held, [each for each in kept if each.number not in there])

    async def _take_over(self, connection: Connection, held: Held, wanted: Sequence[StoredChapter]) -> None:
        """Chapters whose text was summed up in the same way in another session are not summed up again."""
        hashes = [chapter.sha256 for chapter in wanted]
        known = {
            sha256: (session, body)
            for sha256, session, body in await fetch(
                connection, checkpoints.reusable(held.id, hashes, held.configuration_hash)
            )
            if judge(body).valid
        }
        for chapter in wanted:
            if chapter.sha256 not in known:
                continue
            session, body = known[chapter.sha256]
            progress = await self._progress(connection, held)
            own = taken_over(body, chapter, progress, input_sha256=self.book.sha256)
            verdict = judge(own, self._expected())
            if verdict.valid:
                put = checkpoints.save(held.id, chapter.number, own, verdict, origin="reuse", source=session)
                await fetch(connection, put)

    async def _progress(self, connection: Connection, held: Held) -> Progress:
        rows = await fetch(connection, checkpoints.valid(held.id))
        return Progress(
            session_id=held.id,
            started_at=held.started_at,
            now=datetime.now(UTC),
            chunks={row.chapter_number: (row.processed_chunks, row.total_chunks) for row in rows},
            order=self._numbers(),
        )

    # — chapters —

    async def process(self, chapter: StoredChapter) -> list[str]:
        """Sum up one chapter and save its checkpoint; why that failed, when it did and the others may go on."""
        try:
            digest = await self.editor.summarise(chapter.as_chapter(), ask=self._ask(chapter), timeout=CHAPTER_SECONDS)
        except ProviderError as error:
            if error.retryable:
                raise
            return [f"chapter {chapter.number}: {error.message}"]

        async def saved(connection: Connection) -> str:
            held = await self._own(connection)
            progress = await self._progress(connection, held)
            if chapter.number in progress.chunks:
                return ""
            body = composed(
                digest,
                chapter,
                progress,
                input_sha256=self.book.sha256,
                configuration=self.configuration,
                language=language_of(chapter.content),
            )
            verdict = judge(body, self._expected())
            await fetch(connection, checkpoints.save(held.id, chapter.number, body, verdict, origin="run"))
            return _said(verdict)

        # By its version: a chapter whose checkpoint was set aside is done again, in the same job too.
        version = self._versions.get(chapter.number, 0) + 1
        wrong = await self.run.transact(f"chapter/{chapter.place}/{version}", saved)
        return [f"chapter {chapter.number}: {wrong}"] if wrong else []

    def _ask(self, chapter: StoredChapter) -> Ask | None:
        chat, run = self.chat, self.run
        if chat is None or not self.editor.bills:
            return None

        async def ask(name: str, prompt: Prompt, into: type[T]) -> T:
            return await run.ask(f"ask/{chapter.place}/{name}", chat, prompt, into=into, timeout=CHAPTER_SECONDS / 3)

        return ask

    async def finish(self) -> bool:
        """Say that all is done, if it is; whether every chapter passed."""

        async def finished(connection: Connection) -> bool:
            held = await self._own(connection)
            rows = {row.chapter_number: row for row in await fetch(connection, checkpoints.valid(held.id))}
            done = all(number in rows for number in self._numbers())
            await fetch(connection, sessions.finish(held.id, done=done))
            return done and all(rows[number].passed for number in self._numbers())

        return await self.run.transact(f"finish/{self._claim}", finished)


def _said(verdict: Verdict) -> str:
    return "" if verdict.valid else f"its summary breaks the contract: {verdict.faults[0]}."


def _doubts(held: Held) -> list[str]:
    return all_said(of_values(json.loads(held.doubts)), "en") if held.doubtful else []


async def _read(book: NewBook, run: Run, extractor: Extractor, blobs: BlobStore) -> Extraction:
    """What the book says; paid once."""
    try:
        return await run.extract(
            "read",
            _Stored(extractor, blobs, book),
            Path(book.blob),
            kind=book.kind,
            sha256=book.sha256,
            timeout=READ_SECONDS,
        )
    except NotFound:
        raise Reject(f"input_missing: {book.filename} is not in the store any more. Send it again.") from None
    except ProviderError as error:
        if error.retryable:
            raise
        code = getattr(error, "code", "provider_refused")
        raise Reject(f"{code}: {str(error).replace(Path(book.blob).name, book.filename)}") from error


class _Stored:
    """An extractor that reads the input from the blob store."""

    def __init__(self, extractor: Extractor, blobs: BlobStore, book: NewBook) -> None:
        self._extractor, self._blobs, self._book = extractor, blobs, book
        self.provider = extractor.provider

    def __getattr__(self, name: str) -> Any:
        # Its model and its parameters are the extractor's: they tell one paid answer from another.
        return getattr(self._extractor, name)

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        """What the blob of that name says, if it is still the one that was received."""
        async with local_file(self._blobs, str(file), kind) as path:
            if await hash_of_file(path) != self._book.sha256:
                raise ContentChanged(
                    f"The content of {file.name} is not the one that was received.",
                    next="Find out who changed it in the store, and send the book again.",
                )
            return await self._extractor.extract(path, kind=kind, timeout=timeout)


PIPELINES: tuple[Pipeline[Any, Any], ...] = (summarise_book,)
