"""Sessions as folders of files, and back. The rows are the truth; a folder is enough to make them again.

An import is one transaction for each session, and an export replaces one file after the other: whoever is killed
half-way does it again, and nothing is there twice or by halves.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retoma.app.fetch import fetch
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.pipelines.books import chapters, checkpoints, folder, sessions
from retoma.pipelines.books.library import Books, expected_of, only
from retoma.pipelines.books.model import KINDS, Held, Input, Row
from retoma.pipelines.books.rows import judged_rows
from retoma.pipelines.books.search import Candidate, Judged, Search, search
from retoma.pipelines.books.verdicts import Expected, hash_of
from retoma.pipelines.files.ingest import File, read_from
from retoma.pipelines.files.ingest import hash_of as hash_of_file

_INPUT = "_input."


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written."""

    session_id: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a file: ``imported``, ``there`` when the chapter is done already, or ``invalid``."""

    judged: Judged
    became: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of the files of one session."""

    session_id: str
    new: bool
    """Whether the session was not there before."""
    has_input: bool
    taken: tuple[Taken, ...]
    outcome: str

    def count(self, became: str) -> int:
        """How many files became that."""
        return sum(each.became == became for each in self.taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What a folder says of its session beside the checkpoints."""

    title: str
    configuration: dict[str, Any] | None
    started_at: datetime | None
    filename: str | None = None
    sha256: str | None = None


# — out —


async def export(books: Books, id: str, target: Path) -> Exported:
    """Write every valid checkpoint of a session to *target*, its input, and a note on it. What is invalid is not."""
    async with books.app.transaction() as connection:
        held = only(await fetch(connection, sessions.hold(id)), id)
        known = await fetch(connection, chapters.of(id))
        await judged_rows(connection, expected_of(held, known), [each.number for each in known])
        rows = await fetch(connection, checkpoints.valid(id))
    session = await books.get(id)
    try:
        await asyncio.to_thread(target.mkdir, parents=True, exist_ok=True)
        written = [await _written(target, row) for row in rows]
        if session.input_sha256 is not None:
            (given,) = await books.app.fetch(sessions.input(session.input_sha256))
            written.append(await _input_written(books, id, target, given))
        note = {
            "session_id": id,
            "title": session.title,
            "configuration": json.loads(session.configuration),
            "timestamp_inicio": session.started_at.isoformat(),
            "input": {"filename": session.filename, "kind": session.kind, "sha256": session.input_sha256},
        }
        body = json.dumps(note, ensure_ascii=False, indent=2).encode()
        # Last: a folder with a note has all that it speaks of.
        path = await asyncio.to_thread(folder.write, target, f"{folder.session_name(id)}{folder.NOTE}", body)
    except OSError as error:
        raise ConfigurationError(
            f"{target} cannot be written to: {error.strerror}.",
            next="Name a folder that is yours, on a disk with room.",
        ) from None
    return Exported(session_id=id, files=(*written, path.name))


async def _written(target: Path, row: Row) -> str:
    name = folder.file_name(row.session_id, row.chapter_number)
    return (await asyncio.to_thread(folder.write, target, name, bytes(row.body))).name


async def _input_written(books: Books, id: str, target: Path, given: Input) -> str:
    name = f"{folder.session_name(id)}{_INPUT}{given.kind}"
    try:
        async with books.files.blobs.open(given.blob) as pieces:
            body = b"".join([piece async for piece in pieces])
    except NotFound:
        raise NotFound(
            f"The input of session {id} is not in the store any more.", next="What was exported so far is whole."
        ) from None
    return (await asyncio.to_thread(folder.write, target, name, body)).name


# — looking —


def check_folder(place: Path, session_id: str | None = None) -> list[Search]:
    """The verdict on every checkpoint of a folder, session by session."""
    wanted = [session_id] if session_id is not None else folder.sessions(place)
    return [search(folder.candidates(place, each), expected=Expected(session_id=each)) for each in wanted]


# — in —


async def import_folder(books: Books, place: Path, session_id: str | None = None) -> list[Imported]:
    """Take the checkpoints of a folder over: of one session, or of all in it. It may be done as often as one likes."""
    wanted = [session_id] if session_id is not None else await asyncio.to_thread(folder.sessions, place)
    if not wanted:
        raise NotFound(f"There is no checkpoint in {place}.", next="Name the folder they are in.")
    return [await _imported(books, place, each) for each in wanted]


async def _imported(books: Books, place: Path, id: str) -> Imported:
    found = await asyncio.to_thread(folder.candidates, place, id)
    note = await asyncio.to_thread(_noted, place, id, search(found, expected=Expected(session_id=id)))
    if not found and note.started_at is None:
        raise NotFound(f"There is no checkpoint of session {id} in {place}.", next="Name the folder they are in.")
    file = await _input_taken(books, place, id, note)
    kept = False
    async with books.app.transaction() as connection:
        kept = file is not None and await books.keep(connection, file)
        new = await _begun(books, connection, id, note, file)
        held = only(await fetch(connection, sessions.hold(id)), id)
        taken, outcome = await _put(connection, held, found)
    if file is not None and not kept:
        await books.files.drop(file.blob)
    return Imported(
        session_id=id, new=new, has_input=held.input_sha256 is not None, taken=tuple(taken), outcome=outcome
    )


async def _begun(books: Books, connection: object, id: str, note: _Note, file: File | None) -> bool:
    """Make the session, unless it is there."""
    there = await fetch(connection, sessions.hold(id))
    if there:
        if there[0].input_sha256 is None and file is not None:
            await fetch(connection, sessions.attach(id, file.sha256))
        return False
    configuration = note.configuration if note.configuration is not None else books.configuration
    wanted = hash_of(configuration)
    sha256 = None if file is None else file.sha256
    begun = sessions.begin(
        id,
        title=note.title,
        input_sha256=sha256,
        configuration=configuration,
        configuration_hash=wanted,
        started_at=note.started_at,
    )
    if await fetch(connection, begun):
        return True
    other = await fetch(connection, sessions.same(sha256 or "", wanted))
    raise Conflict(
        f"This book is session {other[0] if other else '?'} in the same configuration already.",
        next="Resume that one; or remove it first.",
    )


async def _put(connection: object, held: Held, found: Sequence[Candidate]) -> tuple[list[Taken], str]:
    """Save what the files say: the valid ones for chapters that have none, the others for whoever wants to know why."""
    known = await fetch(connection, chapters.of(held.id))
    numbers = [each.number for each in known]
    expected = expected_of(held, known)
    await judged_rows(connection, expected, numbers)
    rows = await fetch(connection, checkpoints.of(held.id))
    done = {row.chapter_number for row in rows if row.verdict == "valid"}
    bodies = {(row.chapter_number, bytes(row.body)) for row in rows}
    looked = search(found, chapters=numbers, expected=expected)
    taken = []
    for each in looked.judged:
        number = _number(each)
        if each.verdict.valid and number in done:
            taken.append(Taken(each, "there"))
            continue
        taken.append(Taken(each, "imported" if each.verdict.valid else "invalid"))
        if each.verdict.valid:
            done.add(number)
        elif (number, each.candidate.body) in bodies:
            continue  # it was set aside before
        put = checkpoints.save(
            held.id, number, each.candidate.body, each.verdict, origin="import", source=each.candidate.name
        )
        await fetch(connection, put)
    after = [Candidate(name="", body=bytes(row.body)) for row in await fetch(connection, checkpoints.valid(held.id))]
    return taken, search(after, chapters=numbers, expected=expected).outcome if after else looked.outcome


def _number(judged: Judged) -> str:
    checkpoint = judged.verdict.checkpoint
    told = checkpoint.chapter_number if checkpoint is not None else judged.candidate.chapter_number
    return (told or "?").replace("\0", "")[:200]


# — what a folder says of its session —


def _noted(place: Path, id: str, found: Search) -> _Note:
    """What a folder says of its session. A checkpoint has a checksum and the note has none, so what both say is taken
    from checkpoints; those of the original system say when they were begun.
    """
    note = _note_in(place / f"{folder.session_name(id)}{folder.NOTE}", id)
    made = [each.verdict.checkpoint for each in found.judged if each.verdict.checkpoint is not None]
    ours = next((each.retoma for each in made if each.retoma is not None), None)
    return replace(
        note,
        configuration=note.configuration if ours is None else ours.configuration,
        sha256=note.sha256 if ours is None else ours.input_sha256,
        started_at=min((each.metadata.timestamp_inicio for each in made), default=note.started_at),
    )


def _note_in(path: Path, id: str) -> _Note:
    """What the note says; one that is not there or was damaged says nothing."""
    nothing = _Note(title=id, configuration=None, started_at=None)
    try:
        value = json.loads(folder.read(path).body)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # no row holds what cannot be written so
        title, configuration, given = value["title"], value["configuration"], value["input"]
        texts = all(each is None or isinstance(each, str) for each in (title, given["filename"], given["sha256"]))
        if value["session_id"] != id or not isinstance(configuration, dict) or not texts:
            return nothing
        began = datetime.fromisoformat(value["timestamp_inicio"])
        return _Note(
            title=(title or "").replace("\0", "")[:500] or id,
            configuration=configuration,
            started_at=began.replace(tzinfo=UTC) if began.tzinfo is None else began.astimezone(UTC),
            filename=given["filename"],
            sha256=given["sha256"],
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return nothing


async def _input_taken(books: Books, place: Path, id: str, note: _Note) -> File | None:
    """The input beside the checkpoints, if it is there and is the one that they were made from."""
    for kind in KINDS:
        path = place / f"{folder.session_name(id)}{_INPUT}{kind}"
        try:
            if note.sha256 is None or not await asyncio.to_thread(path.is_file):
                continue  # a pipe of that name would hold us up
            if await hash_of_file(path) != note.sha256:
                continue
        except OSError:
            continue
        return await books.files.take(note.filename or path.name, read_from(path), kinds=KINDS, opens=True)
    return None
