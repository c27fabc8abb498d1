"""retoma documents: send files, see how far they are, find what they say."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import click

from retoma.cli import acting, context, output, working
from retoma.cli.language import relayed
from retoma.cli.root import INTERRUPTED

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.pipelines.documents.library import Documents
    from retoma.pipelines.documents.model import Document, Found, Processing

T = TypeVar("T")

SOME_REFUSED = 8
_EVERY = 0.5  # seconds between two looks of --wait

_DOCUMENT: output.Columns[Document] = {
    "id": lambda document: document.id,
    "status": lambda document: document.status,
    "filename": lambda document: document.filename,
    "kind": lambda document: document.kind,
    "pages": lambda document: document.page_count,
    "bytes": lambda document: document.size,
    "attempts": lambda document: document.attempts,
    "sent": lambda document: document.created_at,
    "error": lambda document: document.error,
}


def _pages(found: Found) -> str:
    first, last = found.page_start, found.page_end
    return str(first) if first == last else f"{first}–{last}"


_FOUND: output.Columns[Found] = {
    "score": lambda found: f"{found.score:.4f}",
    "by": lambda found: found.how,
    "id": lambda found: found.document_id,
    "filename": lambda found: found.filename,
    "pages": _pages,
    "section": lambda found: found.title or found.section_type,
    "snippet": lambda found: found.snippet,
}


@click.group()
def documents() -> None:
    """Documents: send files, see how far they are, find what they say."""


_id = click.argument("id", type=click.UUID)


@documents.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--wait", is_flag=True, help="Come back when all of them are done.")
@context.app_option
def ingest(files: tuple[Path, ...], reference: str | None, *, wait: bool) -> None:
    """Send files. A worker reads, cuts, embeds and stores them; what is there already is not sent twice.

    With --wait, where no worker serves the pipeline, one works here meanwhile. One line per file: id, status, file, and
    the document it is equal to. Exit code 8 when some were refused (or, with --wait, failed).
    """
    if wait:
        working.hush()
    sent, failed = context.ask_program(reference, lambda app: _sent(app, files, reference, wait=wait))
    if failed is None:
        command = shlex.join(["retoma", "documents", "ingest", *map(str, files), "--wait"])
        output.talk("You left; nothing that is done is lost. To go on: {command}", command=command)
        click.get_current_context().exit(INTERRUPTED)
    if sent.refused or failed:
        output.talk(
            "{taken} of {number} files were taken, {failed} of them failed."
            if wait
            else "{taken} of {number} files were taken.",
            taken=len(files) - sent.refused,
            number=len(files),
            failed=failed,
        )
    click.get_current_context().exit(SOME_REFUSED if sent.refused or failed else 0)


@dataclass(slots=True)
class Sent:
    """What became of the files that were named: how many were refused, and what is said of each of the others."""

    refused: int = 0
    taken: dict[UUID, str] = field(default_factory=dict)


async def _sent(app: Retoma, files: Sequence[Path], reference: str | None, *, wait: bool) -> tuple[Sent, int | None]:
    """What was sent; and how many documents failed, or None when the wait for that was interrupted."""
    from retoma.pipelines.documents.library import Documents

    library = Documents(app)
    sending = _ingest(library, files, say=not wait)
    sent = await acting.beside(app, "document", None, sending, noted={"files": len(files)})
    return sent, await _ended(app, library, sent, reference) if wait and sent.taken else 0


async def _ingest(library: Documents, files: Sequence[Path], *, say: bool) -> Sent:
    from retoma.pipelines.files.ingest import FileRefused, read_from

    sent = Sent()
    for path in files:
        try:
            received = await library.receive(path.name, read_from(path))
        except FileRefused as error:
            said = f"{relayed(error.message)} {relayed(error.next)}".rstrip()
            output.talk("{path}: {code}: {said}", path=path, code=error.code, said=said)
            sent.refused += 1
        except OSError as error:
            output.talk("{path}: it cannot be read: {strerror}.", path=path, strerror=error.strerror)
            sent.refused += 1
        else:
            equal = f"\tequal to {received.duplicate_of}" if received.duplicate_of else ""
            sent.taken[received.document.id] = f"{path}{equal}"
            if say:
                output.say(f"{received.document.id}\t{received.document.status}\t{path}{equal}")
    return sent


async def _ended(app: Retoma, library: Documents, sent: Sent, reference: str | None) -> int | None:
    """How many of the documents failed, once all have ended; None when the wait was interrupted."""
    from retoma.pipelines.documents.pipeline import process

    return await working.ended(app, _follow(library, sent.taken), process, reference=context.reference_of(reference))


async def _follow(library: Documents, taken: dict[UUID, str]) -> int:
    """Print each document when it has ended; how many failed. Whoever interrupts this stops nothing."""
    waiting, failed = dict(taken), 0
    while waiting:
        now: list[Processing] = await library.statuses(list(waiting))
        gone = waiting.keys() - {each.document_id for each in now}
        for each in now:
            if each.ended:
                output.say(f"{each.document_id}\t{each.status}\t{waiting.pop(each.document_id)}")
                if each.status == "FAILED":
                    failed += 1
                    output.relay(f"  {each.error_log}")
        for id in gone:
            output.talk("{file} was removed.", file=waiting.pop(id))
        if waiting:
            await _pause(_EVERY)
    return failed


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


@documents.command("list")
@click.option("--search", metavar="TEXT", help="Only those with this in their names.")
@click.option("--status", type=click.Choice(["PENDING", "PROCESSING", "COMPLETED", "FAILED"], case_sensitive=False))
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@output.as_json
def list_them(search: str | None, status: str | None, limit: int, *, as_json: bool) -> None:
    """List documents, the newest first."""

    async def asked(library: Documents) -> list[Document]:
        return await library.page(search=search, status=status and status.upper(), limit=limit)

    found = _look(None, None, asked)
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _DOCUMENT, nothing="There is no such document. 'retoma documents ingest FILE' sends one.")


@documents.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(min=1, max=100), default=10, show_default=True)
@context.app_option
@output.as_json
def search(text: str, limit: int, reference: str | None, *, as_json: bool) -> None:
    """Find what documents say, by what it means and by its words."""
    found = _look(reference, None, lambda library: library.search(text, limit=limit))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _FOUND, nothing="Nothing here answers that.")


@documents.command("show")
@_id
@output.as_json
def show_one(id: UUID, *, as_json: bool) -> None:
    """Show a document: how far it is, its fields, its tables, and its text in pieces."""

    async def asked(library: Documents) -> dict[str, object]:
        return {
            "document": await library.get(id),
            "processing": await library.status(id),
            # As mappings: what a field says is a text, and never JSON that was stored.
            "fields": [asdict(field) for field in await library.fields(id)],
            "tables": await library.tables(id),
            "chunks": await library.chunks(id),
        }

    found = _look(None, id, asked)
    if as_json:
        output.print_json(found)
        return
    document, *_ = found.values()
    told = output.plain(document)
    counted = {name: len(rows) for name, rows in list(found.items())[2:] if isinstance(rows, list)}
    output.fields(told | counted, as_stored=True)
    for each in output.plain(found["fields"]):
        output.say(f"{each['name']}\t{each['value']}\t{each['confidence']:.2f}")


@documents.command()
@_id
@context.app_option
def reprocess(id: UUID, reference: str | None) -> None:
    """Process a document again. After a failure its finished steps are kept; else all is done anew and replaced."""
    now = _change(reference, id, lambda library: library.reprocess(id))
    output.say(f"{now.document_id}\t{now.status}")


@documents.command()
@_id
@click.option("--yes", is_flag=True, help="Do not ask.")
@context.app_option
def remove(id: UUID, reference: str | None, *, yes: bool) -> None:
    """Take a document away for good, with its file and all that was read from it."""
    from retoma.errors import ConfigurationError, NotFound

    if not yes and not sys.stdin.isatty():
        raise ConfigurationError(
            "A document that is removed is gone for good. Standard input is not a terminal, so nobody can confirm.",
            next="the same with --yes.",
        )
    if not yes and not output.agreed("Remove document {id} for good?", id=id):
        raise click.Abort
    if not _change(reference, id, lambda library: library.remove(id)):
        raise NotFound(f"There is no document {id}.", next="'retoma documents list' shows those that are there.")
    output.say(f"{id}\tremoved")


def _look(reference: str | None, id: UUID | None, question: Callable[[Documents], Awaitable[T]]) -> T:
    """The answer to *question*, put to the program's own app: it knows where files are kept and who embeds."""
    from retoma.pipelines.documents.library import Documents

    return context.ask_program(reference, lambda app: acting.shown(app, "document", id, question(Documents(app))))


def _change(reference: str | None, id: UUID, question: Callable[[Documents], Awaitable[T]]) -> T:
    """The same for what changes the document of that *id*."""
    from retoma.pipelines.documents.library import Documents

    return context.ask_program(reference, lambda app: acting.beside(app, "document", id, question(Documents(app))))
