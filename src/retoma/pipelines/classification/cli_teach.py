"""retoma classify teach, taught, forget and refine: what people say of documents, and what executions make of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output, working
from retoma.cli.batch_watch import SOME_FAILED
from retoma.cli.language import relayed, words
from retoma.model.ids import BatchId

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.pipelines.classification.examples import Example
    from retoma.pipelines.classification.library import Classification
    from retoma.pipelines.classification.model import Project
    from retoma.pipelines.classification.refinements import Refinement
    from retoma.pipelines.classification.teaching import Teaching

_MOST_TOLD = 20
_MOST_SHOWN = 10_000
_LOOK_SECONDS = 0.3

_project = click.option("--project", metavar="P", help="The project, by its name or number; else the newest one.")


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_project
@context.app_option
def teach(file: Path, project: str | None, reference: str | None) -> None:
    """Say what documents are: FILE is a CSV with a column of documents and one of labels.

    Columns are recognised by their names, such as 'file,label' or 'arquivo;categoria'; so is the encoding. Each row
    becomes an example of the project and the result of its document, which no machine changes any more. A row that is
    not taken is told with its line, and the others are taken; the same file again changes nothing.

    The exit code is 0 when every row was taken, and 8 when some were not.
    """

    async def act(app: Retoma) -> Teaching:
        from retoma.pipelines.classification.library import Classification  # noqa: PLC0415 - so that --help is quick

        library = Classification(app)
        found = await _found(library, project)
        content = await asyncio.to_thread(file.read_bytes)
        return await acting.change(
            app,
            "project",
            found.id,
            lambda conn: library.teach_file(found.id, content, by=acting.person(), conn=conn),
        )

    done = context.ask_program(reference, act)
    output.talk(
        "{seen} rows: {taught} taught, {known} known already, {refused} not taken. They decide {results} results.",
        seen=done.seen,
        taught=done.taught,
        known=done.known,
        refused=len(done.problems),
        results=done.results,
    )
    for each in done.problems[:_MOST_TOLD]:
        output.talk("  line {line}: {why} ({text})", line=each.line, why=relayed(each.message), text=each.text)
    if len(done.problems) > _MOST_TOLD:
        output.talk("  … and {number} more.", number=len(done.problems) - _MOST_TOLD)
    click.get_current_context().exit(SOME_FAILED if done.problems else 0)


@click.command()
@_project
@context.app_option
@output.as_json
def taught(project: str | None, reference: str | None, *, as_json: bool) -> None:
    """List the examples of a project: who said what of which document."""

    async def look(app: Retoma) -> list[Example]:
        from retoma.pipelines.classification.library import Classification  # noqa: PLC0415 - so that --help is quick

        library = Classification(app)
        found = await _found(library, project)
        await acting.look(app, "project", found.id)
        return await library.examples(found.id, limit=_MOST_SHOWN)

    found = context.ask_program(reference, look)
    if as_json:
        output.print_json(found)
        return
    output.table(
        found,
        {
            "id": lambda each: each.id,
            "document": lambda each: each.filename or each.code,
            "label": lambda each: each.label,
            "found before": lambda each: each.proposed,
            "said by": lambda each: each.decided_by,
            "when": lambda each: each.decided_at,
            "from": lambda each: each.source,
        },
        nothing="Nobody has taught this project anything yet.",
    )


@click.command()
@click.argument("id", metavar="EXAMPLE", type=int)
@context.app_option
def forget(id: int, reference: str | None) -> None:
    """Take EXAMPLE back: the result of its document is again what was found. 'retoma classify taught' lists them."""

    async def act(app: Retoma) -> Example:
        from retoma.pipelines.classification.library import Classification  # noqa: PLC0415 - so that --help is quick

        library = Classification(app)
        return await acting.change(app, "example", id, lambda conn: library.forget(id, by=acting.person(), conn=conn))

    gone = context.ask_program(reference, act)
    output.talk("{document} is no example of {label} any more.", document=gone.filename or gone.code, label=gone.label)


@click.command()
@click.argument("batch", metavar="BATCH", type=int)
@click.option("--detach", is_flag=True, help="Queue the work and leave; workers do it.")
@context.app_option
def refine(batch: int, reference: str | None, *, detach: bool) -> None:
    """Go through the documents of BATCH again with what people taught, and say what changed.

    What a person decided stays. Where no worker serves it, one works here meanwhile.
    """
    click.get_current_context().exit(
        asyncio.run(_refine(BatchId(batch), context.reference_of(reference), detach=detach))
    )


async def _refine(id: BatchId, reference: str, *, detach: bool) -> int:
    from retoma.pipelines.classification.library import Classification  # noqa: PLC0415 - so that --help is quick

    context.settings()
    working.hush()
    async with context.program(reference) as app:
        library = Classification(app)
        asked, new = await acting.change(
            app, "batch", id, lambda conn: library.refine(id, by=acting.person(), conn=conn)
        )
        if not new:
            output.talk("{by} asked for it already; this is what comes of it.", by=asked.asked_by)
        if detach:
            output.say(asked.job_id)
            output.talk("To see what comes of it: retoma job show {id}", id=asked.job_id)
            return 0
        done = await _followed(library, asked, reference)
        if done.gain is None:
            output.talk("It did not end well: retoma job show {id}", id=asked.job_id)
            return SOME_FAILED
        show_gain(done)
        return 0


async def _followed(library: Classification, asked: Refinement, reference: str) -> Refinement:
    """The refinement when it has ended, done here when nobody else does it; or as it stands when a person left."""
    from retoma.pipelines.classification.finishing import refine_execution  # noqa: PLC0415 - so that --help is quick

    await working.ended(library.app, _at_rest(library, asked), refine_execution, reference=reference)
    return await library.refinement(asked.id)


async def _at_rest(library: Classification, asked: Refinement) -> None:
    while (await library.refinement(asked.id)).at_work:
        await asyncio.sleep(_LOOK_SECONDS)


async def _found(library: Classification, said: str | None) -> Project:
    """The project that was meant."""
    if said is None:
        newest = await library.projects(limit=1)
        if not newest:
            raise click.UsageError(words("There is no project yet."))
        return newest[0]
    if found := await library.projects(name=said):
        return found[0]
    if said.isdecimal() and len(said) < len(str(2**63)):
        return await library.project(int(said))
    if found := await library.projects(name=_folder(said)):
        return found[0]
    raise click.UsageError(words("There is no project {name!r}.", name=said))


def show_gain(done: Refinement) -> None:
    """What a refinement changed, for people."""
    gain = done.gain
    assert gain is not None
    output.talk(
        "{changed} of {total} results changed, with {examples} examples.",
        changed=done.changed,
        total=done.total,
        examples=done.examples,
    )
    if gain.decided:
        output.talk(
            "Of {decided} documents that people decided, {before} were found right before and {after} are now.",
            decided=gain.decided,
            before=gain.agreed_before,
            after=gain.agreed_after,
        )
    output.table(
        gain.labels,
        {
            "label": lambda each: each.label,
            "results before": lambda each: each.results_before,
            "results now": lambda each: each.results_after,
            "decided": lambda each: each.decided,
            "right before": lambda each: each.agreed_before,
            "right now": lambda each: each.agreed_after,
        },
        nothing="There was nothing to refine.",
    )


def _folder(said: str) -> str:
    """A folder as 'retoma classify DIR' names its project."""
    return str(Path(said).resolve())[-200:]
