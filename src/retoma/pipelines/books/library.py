"""The library: books come in, are summed up, looked at, resumed, and taken away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import PurePath
from typing import Any, TypeVar
from uuid import uuid4

from retoma.app.fetch import fetch
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.ids import JobId
from retoma.pipelines.books import chapters, checkpoints, feedback, sessions
from retoma.pipelines.books.contract import Checkpoint
from retoma.pipelines.books.cost import cost_of
from retoma.pipelines.books.editor import editor_for
from retoma.pipelines.books.model import (
    FEEDBACK,
    KINDS,
    Feedback,
    Held,
    Input,
    NewBook,
    Plan,
    PlannedChapter,
    Row,
    Session,
    Standing,
    Started,
    StoredChapter,
    configuration_of,
    stored,
)
from retoma.pipelines.books.pipeline import summarise_book
from retoma.pipelines.books.ports import Chapter, ChapterPlan, Editor, LeftOut
from retoma.pipelines.books.reading import book_of
from retoma.pipelines.books.remarks import of_values
from retoma.pipelines.books.rows import Found, judged_rows
from retoma.pipelines.books.text.exports import FORMATS
from retoma.pipelines.books.text.finished import FinishedBook
from retoma.pipelines.books.verdicts import Expected, hash_of, judge
from retoma.pipelines.files.ingest import File, Files, StoreDown
from retoma.providers import Chat

T = TypeVar("T")
Also = Callable[..., Awaitable[None]]
"""What is done in the transaction of a change: it is given the connection, and the id of what came into being."""


class Books:
    """The books of an app. One of it serves many callers at once."""

    def __init__(self, app: Retoma) -> None:
        self.app = app
        self.files = Files(app)

    @property
    def editor(self) -> Editor:
        """Who sums up chapters here."""
        if self.app.provides(Editor):
            return self.app.provider(Editor)
        return editor_for(self.app.provider(Chat) if self.app.provides(Chat) else None)

    @property
    def configuration(self) -> dict[str, Any]:
        """What new sessions are begun with."""
        return configuration_of(self.editor)

    # — coming in —

    async def summarise(
        self,
        filename: str,
        content: AsyncIterable[bytes],
        *,
        title: str | None = None,
        created_by: str | None = None,
        correlation_id: str | None = None,
        also: Also | None = None,
    ) -> Started:
        """Take a book in and have it summed up. The same content in the same configuration finds its session, which
        goes on if it stands still. *also* is done in the transaction of that.

        Raises FileRefused when the file is at fault, StoreFull or StoreDown when we are.
        """
        file = await self.files.take(filename, content, kinds=KINDS, opens=True)
        configuration = self.configuration
        async with self.app.transaction() as connection:
            kept = await self.keep(connection, file)
            begun = sessions.begin(
                str(uuid4()),
                title=title or PurePath(file.filename).stem or file.filename,
                input_sha256=file.sha256,
                configuration=configuration,
                configuration_hash=hash_of(configuration),
                correlation_id=correlation_id,
                created_by=created_by,
            )
            new = await fetch(connection, begun)
            if new:
                await self._queue(connection, (await fetch(connection, sessions.hold(new[0])))[0])
                if also is not None:
                    await also(connection, new[0])
        if not kept:
            await self.files.drop(file.blob)
        if new:
            return Started(session=await self.get(new[0]), found=False)
        (id,) = await self.app.fetch(sessions.same(file.sha256, hash_of(configuration)))
        return Started(session=await self.resume(id, also=also), found=True)

    async def keep(self, connection: object, file: File) -> bool:
        """Keep an input; False when the same content is kept already."""
        given = Input(file.sha256, file.filename, file.kind, file.size, file.blob)
        if not await fetch(connection, sessions.keep_input(given)):
            return False
        if not await fetch(connection, self.files.keep(file)):
            raise StoreDown(f"{file.filename} took so long that it was swept away.", next="Send it again.")
        return True

    async def attach(self, id: str, filename: str, content: AsyncIterable[bytes]) -> Session:
        """Give a session its input, which came from a folder of checkpoints without one."""
        file = await self.files.take(filename, content, kinds=KINDS, opens=True)
        async with self.app.transaction() as connection:
            held = only(await fetch(connection, sessions.hold(id)), id)
            kept = await self.keep(connection, file)
            if held.input_sha256 is None:
                if other := await fetch(connection, sessions.same(file.sha256, held.configuration_hash)):
                    raise Conflict(
                        f"{file.filename} is the input of session {other[0]}.", next=f"Resume session {other[0]}."
                    )
                await fetch(connection, sessions.attach(id, file.sha256))
            elif held.input_sha256 != file.sha256:
                raise Conflict(
                    f"{file.filename} is not the input of session {id}.", next="Leave it out, or name the right file."
                )
        if not kept:
            await self.files.drop(file.blob)
        return await self.get(id)

    async def _queue(self, connection: object, held: Held) -> None:
        """A job for the session, in the transaction of *connection*."""
        if held.input_sha256 is None:
            raise Conflict(
                f"Session {held.id} has no input: it came from a folder of checkpoints.",
                next=f"retoma books resume {held.id} --file BOOK",
            )
        (given,) = await fetch(connection, sessions.input(held.input_sha256))
        book = NewBook(held.id, given.filename, given.kind, given.sha256, given.blob, held.configuration_hash)
        receipt = await self.app.enqueue(
            summarise_book, book, key=f"book:{held.number}:{held.runs + 1}", conn=connection
        )
        await fetch(connection, sessions.queue(held.id, receipt.id))

    # — looking —

    async def get(self, id: str) -> Session:
        """The session, and how far it is."""
        return only(await self.app.fetch(sessions.one(id)), id)

    async def page(self, *, before: int | None = None, limit: int = 50) -> list[Session]:
        """Sessions, the newest first, *before* a session's number for the next page."""
        return await self.app.fetch(sessions.page(before=before, limit=limit))

    async def chapters(self, id: str) -> list[Standing]:
        """Every chapter: done, saved, reusable, or not."""
        return await self.app.fetch(chapters.standing(id))

    async def texts(self, id: str) -> list[StoredChapter]:
        """Every chapter with its text."""
        return await self.app.fetch(chapters.of(id))

    async def checkpoints(self, id: str) -> list[Row]:
        """Every checkpoint that was ever made, with its verdict; the newest first."""
        return await self.app.fetch(checkpoints.of(id))

    async def results(self, id: str) -> dict[str, Checkpoint]:
        """What was made of each chapter that is done, in the order of the book."""
        rows = {row.chapter_number: row for row in await self.app.fetch(checkpoints.valid(id))}
        order = [each.number for each in await self.chapters(id)] or list(rows)
        judged = {number: judge(bytes(rows[number].body)).checkpoint for number in order if number in rows}
        return {number: each for number, each in judged.items() if each is not None}

    async def result(self, id: str, number: str) -> Checkpoint:
        """What was made of one chapter."""
        found = (await self.results(id)).get(number)
        if found is None:
            raise NotFound(f"Chapter {number} of session {id} is not done.", next=f"retoma books show {id}")
        return found

    async def finished(self, id: str, *, site: str = "") -> FinishedBook:
        """The whole book, once it is done: what exports and the executive summary are made from. Quotations open their
        page of the source at *site*, where that is known.
        """
        session = await self.get(id)
        if session.state != "done":
            raise Conflict(
                f"Session {id} is not done: {session.done} of {session.chapters} chapters are.",
                next=f"retoma books resume {id}",
            )
        return book_of(session, await self.results(id), site=site)

    async def export(self, id: str, format: str, *, site: str = "") -> bytes:
        """The finished book as one file; *format* is one of FORMATS, *site* the address under which it is read."""
        _, write = FORMATS[format]
        return await asyncio.to_thread(write, await self.finished(id, site=site))

    async def plan(self, id: str) -> Plan:
        """What the configuration of this app would reuse of a book, what it would do again, and what that costs."""
        session = await self.get(id)
        configuration = self.configuration
        wanted = hash_of(configuration)
        there = (
            [] if session.input_sha256 is None else await self.app.fetch(sessions.same(session.input_sha256, wanted))
        )
        known = await self.app.fetch(chapters.of(id))
        held = {
            sha256: other
            for sha256, other, _ in await self.app.fetch(
                checkpoints.reusable("", [each.sha256 for each in known], wanted)
            )
        }
        planned = tuple(
            PlannedChapter(number=each.number, title=each.title, words=each.words, reused_from=held.get(each.sha256))
            for each in known
        )
        again = [each.words for each in planned if each.reused_from is None]
        cost = await cost_of(self.app, self.editor, wanted, again)
        return Plan(configuration=configuration, session_id=there[0] if there else None, chapters=planned, cost=cost)

    # — acting —

    async def resume(self, id: str, *, also: Also | None = None) -> Session:
        """Go on where the session stands; once, however often this is asked. What waits or runs goes on as it is, and
        what is done stays as it is. *also* is done in the transaction of that.
        """
        async with self.app.transaction() as connection:
            await self._go_on(connection, only(await fetch(connection, sessions.hold(id)), id))
            if also is not None:
                await also(connection, id)
        return await self.get(id)

    async def _go_on(self, connection: object, held: Held) -> None:
        now = (await fetch(connection, sessions.one(held.id)))[0]
        if now.job_id is None or now.state != "in_progress":
            found, known = await self._judged(connection, held)
            done = bool(known) and not found.search.unprocessed and held.planned_at is not None
            await fetch(connection, sessions.finish(held.id, done=done))
            if not done:
                await self._queue(connection, held)

    async def check(self, id: str) -> Found:
        """Judge every checkpoint of a session anew. One that is not valid any more is marked and kept."""
        async with self.app.transaction() as connection:
            held = only(await fetch(connection, sessions.hold(id)), id)
            found, known = await self._judged(connection, held)
            if held.finished_at is not None and (found.search.unprocessed or not known):
                await fetch(connection, sessions.finish(id, done=False))
        return found

    async def _judged(self, connection: object, held: Held) -> tuple[Found, list[StoredChapter]]:
        known = await fetch(connection, chapters.of(held.id))
        return await judged_rows(connection, expected_of(held, known), [each.number for each in known]), known

    async def pause(self, id: str, *, also: Also | None = None) -> Session:
        """Stop the work after the step it is in; what is saved stays, and ``resume`` goes on. *also* is done in the
        transaction of that.
        """
        async with self.app.transaction() as connection:
            session = only(await fetch(connection, sessions.one(id)), id)
            if session.job_id is not None and session.state == "in_progress":
                with suppress(Conflict, NotFound):  # it has just ended
                    await self.app.jobs.cancel(session.job_id, reason="paused", conn=connection)
            if also is not None:
                await also(connection, id)
        return await self.get(id)

    async def approve(self, id: str, edited: Sequence[Chapter] = (), *, also: Also | None = None) -> Session:
        """Accept the list of chapters that was in doubt; or another one, in which a person merged, split or renamed
        some. Nothing was paid so far, and once a chapter is done the list stays as it is. *also* is done in the
        transaction of that.
        """
        async with self.app.transaction() as connection:
            held = only(await fetch(connection, sessions.hold(id)), id)
            if held.planned_at is None:
                raise Conflict(f"The chapters of session {id} are not known yet.", next="Wait until it was read.")
            if edited:
                await self._replace(connection, id, edited)
            await fetch(connection, sessions.approve(id))
            await self._go_on(connection, held)
            if also is not None:
                await also(connection, id)
        return await self.get(id)

    async def proposed(self, id: str) -> ChapterPlan:
        """The list of chapters as it stands, for a person who looks at it."""
        return plan_of(await self.get(id), await self.texts(id))

    async def edit(
        self, id: str, change: Callable[[ChapterPlan], ChapterPlan], *, also: Also | None = None
    ) -> ChapterPlan:
        """Change the list of chapters of a session that stands still and has none done; it is not accepted by that.
        *also* is done in the transaction of that.
        """
        async with self.app.transaction() as connection:
            held = only(await fetch(connection, sessions.hold(id)), id)
            now = (await fetch(connection, sessions.one(id)))[0]
            if now.done:
                raise Conflict(f"Chapters of session {id} are done already.", next="Send the book anew.")
            if held.planned_at is None or now.state not in {"paused", "failed"}:
                raise Conflict(f"Session {id} does not wait for anybody.", next="Pause it first.")
            plan = change(plan_of(now, await fetch(connection, chapters.of(id))))
            await self._replace(connection, id, plan.chapters)
            left_out = [asdict(each) for each in plan.left_out]
            await fetch(connection, sessions.arranged(id, detector=plan.detector, left_out=left_out))
            if also is not None:
                await also(connection, id)
        return plan

    async def _replace(self, connection: object, id: str, edited: Sequence[Chapter]) -> None:
        """Another list of chapters, as long as none is done."""
        if await fetch(connection, checkpoints.valid(id)):
            raise Conflict(f"Chapters of session {id} are done already.", next="Send the book anew.")
        await fetch(connection, chapters.clear(id))
        for place, chapter in enumerate(edited, start=1):
            await fetch(connection, chapters.put(id, stored(place, chapter)))

    async def remove(self, id: str) -> bool:
        """Take a session away for good, with its checkpoints; and its input, if no other session has it."""
        blob = None
        async with self.app.transaction() as connection:
            gone = await fetch(connection, sessions.remove(id))
            if not gone:
                return False
            sha256, job_id = gone[0]
            if sha256 is not None and (left := await fetch(connection, sessions.remove_input(sha256))):
                blob = left[0]
                await fetch(connection, self.files.release(blob))
            if job_id is not None:
                with suppress(Conflict, NotFound):  # it has ended, or was pruned
                    await self.app.jobs.cancel(JobId(job_id), reason="the book was removed", conn=connection)
        if blob is not None:
            await self.files.drop(blob)
        return True

    @asynccontextmanager
    async def _within(self, conn: object) -> AsyncIterator[object]:
        """The transaction of the caller, or one of our own."""
        if conn is not None:
            yield conn
            return
        async with self.app.transaction() as connection:
            yield connection

    # — readers —

    async def say(
        self,
        id: str,
        kind: str,
        message: str,
        *,
        chapter: str | None = None,
        created_by: str | None = None,
        also: Also | None = None,
        conn: object = None,
    ) -> Feedback:
        """Keep what a reader says of a summary. *also* is done in the transaction of that."""
        if kind not in FEEDBACK:
            raise ConfigurationError(f"There is no feedback of kind {kind!r}.", next=f"One of {', '.join(FEEDBACK)}.")
        if not message.strip() or "\0" in message:
            raise ConfigurationError("The feedback says nothing.", next="Write a sentence.")
        await self.get(id)
        put = feedback.add(id, kind=kind, message=message, chapter_number=chapter, created_by=created_by)
        async with self._within(conn) as connection:
            kept = (await fetch(connection, put))[0]
            if also is not None:
                await also(connection, id)
        return kept

    async def feedback(self, id: str) -> list[Feedback]:
        """What readers said, and were answered."""
        return await self.app.fetch(feedback.of(id))

    async def answer(
        self, id: str, number: int, answer: str, *, answered_by: str | None = None, conn: object = None
    ) -> Feedback:
        """Answer a reader."""
        found = await self.app.fetch(feedback.answer(id, number, answer=answer, answered_by=answered_by), conn=conn)
        if not found:
            raise NotFound(f"Session {id} has no feedback {number}.", next=f"retoma books show {id}")
        return found[0]


def plan_of(session: Session, known: Sequence[StoredChapter]) -> ChapterPlan:
    """What is kept of a session, as the list of chapters that was found."""
    return ChapterPlan(
        chapters=tuple(each.as_chapter() for each in known),
        left_out=tuple(
            LeftOut(kind=each["kind"], title=each["title"], pages=tuple(each["pages"]), words=each["words"])
            for each in json.loads(session.left_out)
        ),
        doubts=of_values(json.loads(session.doubts)),
        detector=session.detector or "",
    )


def expected_of(held: Held, known: Sequence[StoredChapter]) -> Expected:
    """What a session's checkpoints must say."""
    return Expected(
        session_id=held.id,
        input_sha256=held.input_sha256,
        configuration_hash=held.configuration_hash,
        chapters={each.number: (each.sha256, each.words) for each in known} if held.planned_at else None,
    )


def only(rows: Sequence[T], id: str) -> T:
    """The one row, or words for who asked for it."""
    if not rows:
        raise NotFound(f"There is no session {id}.", next="'retoma books list' shows those that are there.")
    return rows[0]
