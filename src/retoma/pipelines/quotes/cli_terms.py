"""retoma quotes terms and retoma quotes indices: what the quotes of a project are made with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from retoma.cli import acting, context, output
from retoma.cli.language import Phrase
from retoma.errors import ConfigurationError, NotFound

if TYPE_CHECKING:
    from retoma import Retoma


@click.command()
@click.argument("project", metavar="PROJECT")
@click.option(
    "--set",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="JSON with the terms that change.",
)
@context.app_option
def terms(project: str, file: Path | None, reference: str | None) -> None:
    """Show the terms of PROJECT as JSON; with --set, make a new version of them.

    FILE holds only what changes, as in {"report": {"index": "IPCA", "factors": {"weights": {"ec": "0.5", "pu": "0.3",
    "vuf": "0.2"}}}}. A project that does not exist is made. Quotes that are there keep the version they were made with.
    """

    async def told(app: Retoma) -> None:
        from retoma.pipelines.quotes.library import Quotes  # noqa: PLC0415 - a command loads what it runs

        library = Quotes(app)
        found = await library.projects(name=project)
        if file is not None:
            given = _terms(await asyncio.to_thread(file.read_bytes))
            act = (
                library.change_project(found[0].id, by=acting.person(), **given)
                if found
                else library.create_project(project, by=acting.person(), **given)
            )
            shown = await acting.beside(app, "project", found[0].id if found else None, act, noted={"name": project})
        elif found:
            await acting.look(app, "project", found[0].id)
            shown = found[0]
        else:
            raise NotFound(f"There is no project {project!r}.", next="Make it with --set FILE.")
        output.say(orjson.dumps(shown.terms, option=orjson.OPT_INDENT_2).decode())
        output.talk("Version {version}, by {by}.", version=shown.version, by=shown.changed_by)

    context.ask_program(reference, told)


def _terms(content: bytes) -> dict[str, Any]:
    try:
        given = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"The terms are no JSON: {error}.", next="Correct the file.") from None
    if not isinstance(given, dict):
        raise ConfigurationError("The terms are no JSON object.", next="Write {} around them.")
    return given


@click.group()
def indices() -> None:
    """Tables of price indices (IPCA, IGP-M), by which old prices are corrected."""


@indices.command("load")
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@context.app_option
def load_index(file: Path, reference: str | None) -> None:
    """Keep the table in FILE: its months, its source, its date and its SHA-256.

    None is bundled: take the figures from who publishes them. The first lines say '# index:' (IPCA or IGP-M),
    '# source:' and '# dated:'; then follow the columns month,percent with a row for each month, as in 2026-09,0.31.
    """

    async def loaded(app: Retoma) -> None:
        from retoma.pipelines.quotes.library import Quotes  # noqa: PLC0415 - a command loads what it runs

        act = Quotes(app).load_index(await asyncio.to_thread(file.read_bytes), by=acting.person())
        found, new = await acting.beside(app, "index", None, act, noted={"name": file.name})
        output.say(found.sha256)
        output.talk(
            "{index}, {first} to {last}, dated {dated}: {outcome}",
            index=found.index,
            first=found.first_month,
            last=found.last_month,
            dated=found.dated,
            outcome=Phrase("loaded.") if new else Phrase("it was loaded before."),
        )

    context.ask_program(reference, loaded)


@indices.command("list")
@context.app_option
def list_indices(reference: str | None) -> None:
    """List the tables that were loaded, the newest first: reports take the first of their index."""

    async def listed(app: Retoma) -> None:
        from retoma.pipelines.quotes.library import Quotes  # noqa: PLC0415 - a command loads what it runs

        await acting.look(app, "index", None)
        output.table(
            await Quotes(app).indices(),
            {
                "index": lambda each: each.index,
                "dated": lambda each: str(each.dated),
                "from": lambda each: each.first_month,
                "to": lambda each: each.last_month,
                "source": lambda each: each.source[:60],
                "sha256": lambda each: each.sha256,
                "by": lambda each: each.loaded_by,
            },
            nothing="No table was loaded.",
        )

    context.ask_program(reference, listed)
