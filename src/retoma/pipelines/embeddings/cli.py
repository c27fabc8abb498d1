"""retoma embeddings: add texts, see how they stand, find them by what they mean."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from retoma.cli import acting, context, output
from retoma.cli.language import words

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.pipelines.embeddings.library import Added, Embeddings, Hit, NewText, Version

T = TypeVar("T")

_AT_A_TIME = 500

_ADDED: output.Columns[Added] = {
    "source type": lambda added: added.source_type,
    "source id": lambda added: added.source_id,
    "version": lambda added: added.version,
    "job": lambda added: added.job_id,
    "state": lambda added: added.state,
    "new": lambda added: added.new,
}
_HIT: output.Columns[Hit] = {
    "similarity": lambda hit: None if hit.similarity is None else f"{hit.similarity:.3f}",
    "score": lambda hit: f"{hit.score:.4f}",
    "sources": lambda hit: [f"{each.source_type}:{each.source_id}" for each in hit.sources],
    "excerpt": lambda hit: hit.excerpt,
}
_VERSION: output.Columns[Version] = {
    "version": lambda version: version.version,
    "state": lambda version: version.state,
    "model": lambda version: f"{version.provider}/{version.model}",
    "job": lambda version: version.job_id,
    "created": lambda version: version.created_at,
    "on": lambda version: version.switched_on_at,
    "off": lambda version: version.switched_off_at,
    "text": lambda version: version.text,
}

_organisation = click.option("--organisation", required=True, metavar="NAME", help="Whose text it is.")
_site = click.option("--site", required=True, metavar="NAME", help="In which site of theirs.")


@click.group()
def embeddings() -> None:
    """Embeddings: texts by their content, each embedded once."""


@embeddings.command()
@click.argument("file", required=False, metavar="FILE|-")
@click.option("--jsonl", metavar="FILE|-", help="Many texts: one JSON object per line.")
@click.option("--organisation", metavar="NAME", help="Whose text it is.")
@click.option("--site", metavar="NAME", help="In which site of theirs.")
@click.option("--source-type", metavar="TYPE", help="What kind of source says it, such as page.")
@click.option("--source-id", metavar="ID", help="Which one.")
@click.option("--language", metavar="CODE", help="Such as pt.")
@context.app_option
@output.as_json
def add(file: str | None, jsonl: str | None, reference: str | None, *, as_json: bool, **names: Any) -> None:
    """Add a text, or many. Content that was embedded before is no new work.

    FILE is one text, '-' reads it from standard input. With --jsonl each line is an object with content and the names
    of the options; what is the same in all lines may be an option. One line per text is printed, and the command ends
    as soon as they are written down: a worker embeds them.
    """
    if (file is None) == (jsonl is None):
        raise click.UsageError(words("Name a FILE with one text, or --jsonl with many, not both."))
    given = {name: value for name, value in names.items() if value is not None}
    new = list(_lines(jsonl, given)) if jsonl else [_text({**given, "content": _read(file or "-")}, "the command line")]

    async def adding(app: Retoma) -> list[Added]:
        from retoma.pipelines.embeddings.library import Embeddings

        library, added = Embeddings(app), []
        for first in range(0, len(new), _AT_A_TIME):
            added += await library.add_many(new[first : first + _AT_A_TIME])
        return added

    added = context.ask_program(
        reference, lambda app: acting.beside(app, "embedding", None, adding(app), noted={"texts": len(new)})
    )
    if as_json:
        output.print_json(added)
        return
    output.table(added, _ADDED, nothing="There is no text in it.")
    fresh = sum(each.new for each in added)
    output.talk(
        "{fresh} of {texts} are new work; the others are embedded, or on their way.", fresh=fresh, texts=len(added)
    )


def _read(file: str) -> str:
    from retoma.errors import ConfigurationError

    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error.strerror}.", next="Name a text file, or '-' for standard input."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"{file} is not text in UTF-8.", next="Documents are added with 'retoma documents ingest'."
        ) from None


def _lines(file: str, given: dict[str, str]) -> Iterator[NewText]:
    from retoma.errors import ConfigurationError

    for number, line in enumerate(_read(file).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
        except ValueError as error:
            raise ConfigurationError(
                f"Line {number} of {file} is not JSON: {error}.", next="Write one JSON object per line."
            ) from None
        yield _text({**given, **said} if isinstance(said, dict) else {"": said}, f"line {number} of {file}")


def _text(said: dict[str, Any], place: str) -> NewText:
    from dataclasses import fields

    from retoma.errors import ConfigurationError
    from retoma.pipelines.embeddings.library import NewText

    names = [each.name for each in fields(NewText)]
    missing = [name for name in names if said.get(name) is None and name != "language"]
    wrong = [name for name in said if name not in names or not isinstance(said[name], str | None)]
    if missing or wrong:
        said_so = f"has no {missing[0]}" if missing else f"has {wrong[0]!r}, which is not a text, or not known"
        raise ConfigurationError(
            f"What {place} says {said_so}.", next=f"A text has {', '.join(names)}; the last one may be missing."
        )
    return NewText(**said)


@embeddings.command()
@click.option("--organisation", metavar="NAME", help="Only of this one.")
@click.option("--site", metavar="NAME", help="Only of this site.")
@output.as_json
def status(organisation: str | None, site: str | None, *, as_json: bool) -> None:
    """How many vectors are stored, and how many versions of sources are in which state.

    What is active is found, what is off no longer; the others wait, and their state is that of their job.
    """
    from retoma.pipelines.embeddings.library import Embeddings

    found = context.ask(lambda app: Embeddings(app).status(organisation, site))
    if as_json:
        output.print_json(found)
    else:
        output.fields({"stored": found.stored, **found.states})


@embeddings.command()
@click.argument("query")
@_organisation
@_site
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N", help="At most.")
@context.app_option
@output.as_json
def search(query: str, reference: str | None, *, as_json: bool, **wanted: Any) -> None:
    """Find texts of a site by meaning and by words. Only what sources say now is found."""
    found = _look(reference, lambda library: library.search(query, **wanted))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _HIT, nothing="Nothing here answers that.")


@embeddings.command(name="show")
@click.argument("source_type")
@click.argument("source_id")
@_organisation
@_site
@output.as_json
def show_one(source_type: str, source_id: str, organisation: str, site: str, *, as_json: bool) -> None:
    """Show one source with its versions, the newest first."""
    from retoma.pipelines.embeddings.library import Embeddings

    found = context.ask(
        lambda app: acting.shown(
            app,
            "embedding",
            f"{source_type}/{source_id}",
            Embeddings(app).source(organisation, site, source_type, source_id),
        )
    )
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _VERSION, nothing="")


def _look(reference: str | None, question: Callable[[Embeddings], Awaitable[T]]) -> T:
    """The answer to *question*, put to the program's own app: it knows who embeds."""
    from retoma.pipelines.embeddings.library import Embeddings

    return context.ask_program(reference, lambda app: acting.shown(app, "embedding", None, question(Embeddings(app))))
