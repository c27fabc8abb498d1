"""retoma books: sum up books chapter by chapter, go on where it stopped, move checkpoints as files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from retoma.cli import acting, context, output, working
from retoma.cli.language import Phrase, language
from retoma.cli.root import INTERRUPTED

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.pipelines.books.library import Books
    from retoma.pipelines.books.model import PlannedChapter, Session, Standing
    from retoma.pipelines.books.search import Judged, Search

T = TypeVar("T")

SOME_INVALID = 8
_EVERY = 0.5  # seconds between two looks of --wait


def _verdict(chapter: Standing) -> str:
    if not chapter.done:
        return Phrase("open") if chapter.reason is None else Phrase("open ({reason})", reason=chapter.reason)
    return "PASS" if chapter.passed else "FAIL"


_SESSION: output.Columns[Session] = {
    "id": lambda session: session.id,
    "state": lambda session: session.state,
    "title": lambda session: session.title,
    "chapters": lambda session: f"{session.done}/{session.chapters}",
    "words": lambda session: session.words,
    "reason": lambda session: session.reason,
    "sent": lambda session: session.created_at,
}
_CHAPTER: output.Columns[Standing] = {
    "number": lambda chapter: chapter.number,
    "title": lambda chapter: chapter.title,
    "words": lambda chapter: chapter.words,
    "summary": lambda chapter: chapter.summary_words,
    "chunks": lambda chapter: f"{chapter.processed_chunks}/{chapter.total_chunks}" if chapter.done else None,
    "result": _verdict,
    "from": lambda chapter: chapter.origin,
    "saved": lambda chapter: chapter.saved_at,
}
_JUDGED: output.Columns[Judged] = {
    "verdict": lambda judged: Phrase("valid" if judged.verdict.valid else "invalid"),
    "chapter": lambda judged: judged.candidate.chapter_number,
    "reason": lambda judged: judged.verdict.reason,
    "where": lambda judged: judged.verdict.faults[0].where if judged.verdict.faults else None,
    "name": lambda judged: judged.candidate.name,
}
_PLANNED: output.Columns[PlannedChapter] = {
    "number": lambda chapter: chapter.number,
    "title": lambda chapter: chapter.title,
    "words": lambda chapter: chapter.words,
    "reused from": lambda chapter: chapter.reused_from,
}

_session = click.argument("session")
_folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


@click.group()
def books() -> None:
    """Books: one summary per chapter. Resuming is not starting over."""


@books.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--title", metavar="TEXT", help="What the book is called; else as the file.")
@click.option("--wait", is_flag=True, help="Come back when it stands still.")
@context.app_option
def summarize(file: Path, title: str | None, reference: str | None, *, wait: bool) -> None:
    """Send a book: PDF, EPUB, DOCX, text or Markdown. A worker sums it up chapter by chapter.

    With --wait, where no worker serves the pipeline, one works here meanwhile.

    The same content in the same configuration finds its session, which goes on where it stopped. Session, state and
    chapters are printed. Exit code 8 when, with --wait, it failed.
    """

    async def sent(library: Books) -> Session:
        from retoma.pipelines.files.ingest import read_from

        _must_be_readable(file)
        started = await library.summarise(file.name, read_from(file), title=title)
        if started.found:
            output.talk("This book is known in this configuration: its session goes on.")
        return started.session

    _finish(sent, None, reference, wait=wait)


@books.command()
@_session
@click.option("--file", type=click.Path(path_type=Path), help="The input, for a session that came without one.")
@click.option("--wait", is_flag=True, help="Come back when it stands still.")
@context.app_option
def resume(session: str, file: Path | None, reference: str | None, *, wait: bool) -> None:
    """Go on where a session stopped. What is done is restored, and every other chapter is processed."""

    async def resumed(library: Books) -> Session:
        from retoma.pipelines.files.ingest import read_from

        if file is not None:
            _must_be_readable(file)
            await library.attach(session, file.name, read_from(file))
        return await library.resume(session)

    _finish(resumed, session, reference, wait=wait)


@books.command()
@_session
@context.app_option
def pause(session: str, reference: str | None) -> None:
    """Stop the work on a session; 'resume' goes on."""
    now = _change(reference, session, lambda library: library.pause(session))
    output.say(f"{now.id}\t{now.state}\t{now.done}/{now.chapters}")


@books.command()
@_session
@context.app_option
def approve(session: str, reference: str | None) -> None:
    """Accept the list of chapters that was in doubt, and go on."""
    _told(_change(reference, session, lambda library: library.approve(session)))


@books.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@context.app_option
@output.as_json
def list_them(limit: int, reference: str | None, *, as_json: bool) -> None:
    """List sessions, the newest first."""
    found = _look(reference, None, lambda library: library.page(limit=limit))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _SESSION, nothing="There is no book. 'retoma books summarize FILE' sends one.")


@books.command("show")
@_session
@click.option("--chapter", metavar="NUMBER", help="What was made of this chapter.")
@context.app_option
@output.as_json
def show_one(session: str, chapter: str | None, reference: str | None, *, as_json: bool) -> None:
    """Show a session: what is done, saved and reusable; or one chapter of it."""
    from retoma.pipelines.books.remarks import all_said, of_values

    if chapter is not None:
        made = _look(reference, session, lambda library: library.result(session, chapter))
        output.print_json(made.model_dump(warnings=False))
        return

    async def asked(library: Books) -> tuple[Session, list[Standing]]:
        return await library.get(session), await library.chapters(session)

    found, standing = _look(reference, session, asked)
    if as_json:
        output.print_json({"session": found, "chapters": standing})
        return
    doubts = " ".join(all_said(of_values(json.loads(found.doubts)), language() if output.in_terminal() else "en"))
    output.fields(output.plain(found) | {"doubts": doubts}, as_stored=True)
    output.table(standing, _CHAPTER, nothing="Its chapters are not known yet.")


@books.command()
@_session
@click.option("--merge", nargs=2, multiple=True, metavar="FIRST LAST", help="Make one chapter of these.")
@click.option("--split", nargs=2, multiple=True, metavar="NUMBER TEXT", help="Part a chapter before this line.")
@click.option("--rename", nargs=2, multiple=True, metavar="NUMBER TITLE", help="Give a chapter another title.")
@click.option("--leave-out", multiple=True, metavar="NUMBER", help="It is no chapter.")
@context.app_option
@output.as_json
def plan(session: str, reference: str | None, *, as_json: bool, **given: Sequence[Any]) -> None:
    """Tell what this configuration would reuse of a book, what it would do again, and what that costs.

    The list of chapters can be changed until the first of them is done; changes are made in the order merge, split,
    rename, leave out. 'retoma books approve' goes on with it.
    """
    from retoma.pipelines.books.review import Edit, edited

    changes = [
        *(Edit(action="merge", number=first, last=last) for first, last in given["merge"]),
        *(Edit(action="split", number=number, begins=text) for number, text in given["split"]),
        *(Edit(action="rename", number=number, title=title) for number, title in given["rename"]),
        *(Edit(action="leave_out", number=number) for number in given["leave_out"]),
    ]
    if changes:
        _change(reference, session, lambda library: library.edit(session, lambda plan: edited(plan, changes)))
    found = _look(reference, session, lambda library: library.plan(session))
    if as_json:
        output.print_json(found)
        return
    output.table(found.chapters, _PLANNED, nothing="Its chapters are not known yet.")
    output.talk(
        "{reused} chapters are reused; {left} with {words:,} words are done, and nobody knows yet what they cost."
        if found.cost is None
        else "{reused} chapters are reused; {left} with {words:,} words are done, and about "
        "$ {cost:.4f} is what they cost.",
        reused=found.reused,
        left=len(found.chapters) - found.reused,
        words=found.redone_words,
        cost=found.cost,
    )


@books.command("export")
@_session
@click.option("--format", type=click.Choice(["markdown", "json", "pdf", "epub"]), default="markdown", show_default=True)
@click.option(
    "--to", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Else SESSION.SUFFIX, here."
)
@context.app_option
def export_book(session: str, format: str, to: Path | None, reference: str | None) -> None:
    """Write a finished book to a file: the executive summary, every chapter, what it was made from."""
    from retoma.errors import ConfigurationError
    from retoma.pipelines.books.folder import session_name
    from retoma.pipelines.books.text.exports import SUFFIXES

    content = _look(reference, session, lambda library: library.export(session, format))
    file = to or Path(f"{session_name(session)}.{SUFFIXES[format]}")
    try:
        file.write_bytes(content)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}.", next="Name another file.") from None
    output.say(str(file))


# — checkpoints —


@books.group()
def checkpoints() -> None:
    """Checkpoints as files: {session_id}_checkpoint_{chapter_number}.json."""


@checkpoints.command("export")
@_session
@_folder
@context.app_option
def export_them(session: str, folder: Path, reference: str | None) -> None:
    """Write the valid checkpoints of a session to DIR, with its input: the folder alone is enough to go on."""

    async def exported(library: Books) -> Sequence[str]:
        from retoma.pipelines.books.transfer import export

        return (await export(library, session, folder)).files

    for name in _look(reference, session, exported):
        output.say(name)


@checkpoints.command("import")
@_folder
@click.option("--session", metavar="ID", help="Only of this one.")
@context.app_option
def import_them(folder: Path, session: str | None, reference: str | None) -> None:
    """Take over the checkpoints of DIR, also files of the original system. Exit code 8 when some are invalid."""

    async def imported(library: Books) -> int:
        from retoma.pipelines.books.transfer import import_folder

        invalid = 0
        for each in await import_folder(library, folder, session):
            for taken in each.taken:
                fault = taken.judged.verdict.faults[0] if taken.judged.verdict.faults else ""
                output.say(f"{each.session_id}\t{taken.became}\t{taken.judged.candidate.name}\t{fault}".rstrip())
            invalid += each.count("invalid")
            how = "" if each.has_input else Phrase(" --file BOOK")
            output.talk(
                "{outcome}; to go on: retoma books resume {id}{how}",
                outcome=each.outcome,
                id=each.session_id,
                how=how,
            )
        return invalid

    invalid = _change(reference, session, imported)
    click.get_current_context().exit(SOME_INVALID if invalid else 0)


@checkpoints.command("check")
@click.argument("target", metavar="DIR|SESSION")
@context.app_option
@output.as_json
def check_them(target: str, reference: str | None, *, as_json: bool) -> None:
    """Judge every checkpoint, newest first: of a folder, or of a session. Exit code 8 when some are invalid."""
    if Path(target).is_dir():
        from retoma.pipelines.books.transfer import check_folder

        found = check_folder(Path(target))
    else:

        async def checked(library: Books) -> list[Search]:
            return [(await library.check(target)).search]

        found = _change(reference, target, checked)
    judged = [each for one in found for each in one.judged]
    if as_json:
        output.print_json([_as_json(each) for each in judged])
    else:
        output.table(judged, _JUDGED, nothing="There is no checkpoint in it.")
    outcomes = ", ".join(one.outcome for one in found) or "no_checkpoint"
    output.talk(
        "{valid} of {number} are valid: {outcomes}.",
        valid=sum(each.verdict.valid for each in judged),
        number=len(judged),
        outcomes=outcomes,
    )
    click.get_current_context().exit(0 if all(each.verdict.valid for each in judged) else SOME_INVALID)


def _as_json(judged: Judged) -> dict[str, object]:
    return {
        "name": judged.candidate.name,
        "chapter_number": judged.candidate.chapter_number,
        "valid": judged.verdict.valid,
        "faults": [
            {"reason": fault.reason, "where": fault.where, "message": fault.message} for fault in judged.verdict.faults
        ],
    }


# — shared —


def _must_be_readable(file: Path) -> None:
    from retoma.errors import ConfigurationError

    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}.", next="Name a book.") from None


def _finish(act: Callable[[Books], Awaitable[Session]], id: str | None, reference: str | None, *, wait: bool) -> None:
    """Do what was asked and say how the session stands; with *wait*, once nothing happens any more."""
    from retoma.pipelines.books.library import Books

    async def done(app: Retoma) -> tuple[Session, bool]:
        """The session, and whether the wait for it came to its end."""
        library = Books(app)
        session = await acting.beside(app, "book", id, act(library))
        ended = await _ended(app, library, session, reference) if wait else session
        return ended or await library.get(session.id), ended is not None

    if wait:
        working.hush()
    session, ended = context.ask_program(reference, done)
    if not ended:
        output.talk(
            "You left; nothing that is done is lost. To go on: {command}",
            command=f"retoma books resume {session.id} --wait",
        )
        click.get_current_context().exit(INTERRUPTED)
    _told(session)


async def _ended(app: Retoma, library: Books, session: Session, reference: str | None) -> Session | None:
    """The session once nothing happens any more; None when the wait was interrupted."""
    from retoma.pipelines.books.pipeline import summarise_book

    return await working.ended(
        app, _followed(library, session), summarise_book, reference=context.reference_of(reference)
    )


async def _followed(library: Books, session: Session) -> Session:
    """The session once nothing happens any more. Whoever interrupts this stops nothing."""
    while session.state == "in_progress":
        await _pause(_EVERY)
        session = await library.get(session.id)
    return session


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _told(session: Session) -> None:
    output.say(f"{session.id}\t{session.state}\t{session.done}/{session.chapters}")
    if session.reason:
        output.say(f"  {session.reason}", err=True)
    click.get_current_context().exit(SOME_INVALID if session.state == "failed" else 0)


def _look(reference: str | None, id: str | None, question: Callable[[Books], Awaitable[T]]) -> T:
    """The answer to *question*, put to the program's own app: it knows where files are kept and who sums up."""
    from retoma.pipelines.books.library import Books

    return context.ask_program(reference, lambda app: acting.shown(app, "book", id, question(Books(app))))


def _change(reference: str | None, id: str | None, question: Callable[[Books], Awaitable[T]]) -> T:
    """The same for what changes books, or the one of that *id*."""
    from retoma.pipelines.books.library import Books

    return context.ask_program(reference, lambda app: acting.beside(app, "book", id, question(Books(app))))
