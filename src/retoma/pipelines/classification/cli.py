"""retoma classify: a folder of documents, each told its kind. The same command again goes on where it stopped."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, context, output, working
from retoma.cli.batch_pilot import pilot_told
from retoma.cli.batch_watch import SOME_FAILED, follow
from retoma.cli.language import Phrase, relayed, words
from retoma.cli.root import INTERRUPTED
from retoma.model.ids import BatchId
from retoma.pipelines.classification.cli_replan import replan
from retoma.pipelines.classification.cli_teach import forget, refine, taught, teach

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.batch import Batch
    from retoma.pipelines.classification.library import Classification
    from retoma.pipelines.classification.model import Intake, Project

_MOST_TOLD = 10
_PILOT = "Classify N first, and say what all would cost."
_FORMATS = (".xlsx", ".csv", ".json")


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for."""

    folder: Path
    name: str
    labels: Path | None
    export: Path | None
    refine: bool
    detach: bool
    at_once: int
    pilot: int
    reference: str
    command: str
    """What to type to go on."""


class Classify(click.Group):
    """A folder after 'retoma classify' is classified; a command of ours after it is that command."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """That of the folder's command, unless another one is named or help is asked for."""
        if not args or args[0] in self.commands or args[0] in ("--help", "-h"):
            return super().make_context(info_name, args, parent, **extra)
        return self.commands["folder"].make_context(info_name, args, parent, **extra)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """How it is typed."""
        return [*self.commands["folder"].collect_usage_pieces(ctx), "|", self.subcommand_metavar]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Those of the folder's command, and the others."""
        click.Command.format_options(self.commands["folder"], ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(cls=Classify)
def classify() -> None:
    """Tell the kind of every document in DIR, and learn from people.

    'retoma classify DIR' is short for 'retoma classify folder DIR'. What people decide at the review desk or say in a
    file teaches the project; 'refine' goes through an execution again with it.
    """


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The kinds to tell apart: a prompt, lines '- name: description; word, word', or JSON.",
)
@click.option("--name", metavar="N", help="The project's name; else the folder's path.")
@click.option(
    "--export", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write .xlsx, .csv or .json."
)
@click.option("--no-refine", is_flag=True, help="Leave each category as it was found in its document alone.")
@click.option("--pilot", type=click.IntRange(0, 1000), default=0, metavar="N", help=_PILOT)
@click.option("--detach", is_flag=True, help="Queue the work and leave; workers do it.")
@click.option(
    "--at-once", type=click.IntRange(1, 10), default=10, show_default=True, metavar="N", help="Documents at once."
)
@context.app_option
def folder(
    folder: Path,
    labels: Path | None,
    name: str | None,
    export: Path | None,
    at_once: int,
    pilot: int,
    reference: str | None,
    *,
    no_refine: bool,
    detach: bool,
) -> None:
    """Tell the kind of every document in DIR.

    Where no worker serves the pipeline, one works here meanwhile. Ctrl-C finishes the steps at hand and leaves the
    rest; the same command again goes on, and skips what was classified before with the same content and settings.

    With --pilot, N documents that stand for all are classified first, and cost, time and failures of the whole are
    told; the same command without it goes on with the others.

    The exit code is 0 when all went well, 8 when some documents failed or were not taken, and 9 when it stalled.
    """
    if export is not None and export.suffix.lower() not in _FORMATS:
        raise click.UsageError(
            words("--export writes {names}, not {name!r}.", names=", ".join(_FORMATS), name=export.name)
        )
    typed = ["retoma", "classify", str(folder)]
    typed += ["--labels", str(labels)] if labels else []
    typed += ["--name", name] if name else []
    typed += ["--export", str(export)] if export else []
    typed += ["--no-refine"] if no_refine else []
    wish = Wish(
        folder=folder,
        name=(name or str(folder.resolve()))[-200:],
        labels=labels,
        export=export,
        refine=not no_refine,
        detach=detach,
        at_once=at_once,
        pilot=pilot,
        reference=context.reference_of(reference),
        command=shlex.join(typed),
    )
    try:
        code = asyncio.run(_classify(wish))
    except KeyboardInterrupt:
        output.talk("You left; nothing that is done is lost. To go on: {command}", command=wish.command)
        code = INTERRUPTED
    click.get_current_context().exit(code)


folder.name = "classify"  # what the audit says
classify.add_command(folder, "folder")
for each in (teach, forget, refine, taught, replan):
    classify.add_command(each)


async def _classify(wish: Wish) -> int:
    from retoma.pipelines.classification.library import Classification

    context.settings()  # says where the database is when it is about to be made
    working.hush()
    app = context.program(wish.reference)
    async with app:
        library = Classification(app)
        project = await acting.change(
            app, "project", None, lambda conn: _project(library, wish, conn), made=lambda made: made.id
        )
        intake = await _take(library, project, wish)
        batch = await _begin(library, project, wish)
        if wish.detach:
            return await _leave(app, batch)
        if wish.pilot and batch.held_at is not None:
            return await _tried(app, batch, wish)
        code = await _work(library, batch, wish)
        if code != INTERRUPTED:
            code = await _rest(library, project, batch, wish) or code
        return SOME_FAILED if code == 0 and intake.refused else code


# — before —


async def _project(library: Classification, wish: Wish, conn: object) -> Project:
    """The project of this folder, with the kinds that are asked for now."""
    from retoma.errors import ConfigurationError
    from retoma.pipelines.classification.labels import from_file

    prompt_id = None
    if wish.labels is not None:
        try:
            content = from_file(wish.labels.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise ConfigurationError(f"{wish.labels} is not a text in UTF-8.", next="Save it as UTF-8.") from None
        called = f"{wish.name[-180:]} (categorias)"
        if found := await library.prompts(name=called, conn=conn):
            prompt = found[0]
            if prompt.content != content:
                prompt = await library.change_prompt(prompt.id, content=content, conn=conn)
            prompt_id = prompt.id
        else:
            prompt_id = (await library.create_prompt(called, content, conn=conn)).id
    else:
        prompt_id = (await library.default_prompt(conn=conn)).id
    if found_projects := await library.projects(name=wish.name, conn=conn):
        project = found_projects[0]
        if (project.prompt_id, project.at_once) == (prompt_id, wish.at_once):
            return project
        return await library.change_project(project.id, prompt_id=prompt_id, at_once=wish.at_once, conn=conn)
    return await library.create_project(wish.name, prompt_id=prompt_id, at_once=wish.at_once, conn=conn)


async def _take(library: Classification, project: Project, wish: Wish) -> Intake:
    from rich.status import Status

    with Status(words("Looking at the folder…"), console=output.screen(err=True)) as status:
        intake = await library.add_folder(
            project.id,
            wish.folder,
            told=lambda seen, of: status.update(words("{seen} of {of} files…", seen=seen, of=of)),
            entry=acting.entry_of("project", project.id),
        )
    output.talk(
        "{seen} files: {new} new, {known} known.",
        seen=intake.seen,
        new=len(intake.added),
        known=len(intake.known),
    )
    if intake.refused:
        output.talk("{number} were not taken:", number=len(intake.refused))
        for each in intake.refused[:_MOST_TOLD]:
            output.talk("  {filename}: {why}", filename=each.filename, why=relayed(each.why))
    return intake


async def _begin(library: Classification, project: Project, wish: Wish) -> Batch:
    batch, new = await acting.change(
        library.app,
        "batch",
        None,
        lambda conn: _begun(library, project, conn, wish),
        made=lambda begun: begun[0].id,
    )
    if new:
        known = await _known(library, batch)
        skips = Phrase("; {known} were classified before and are skipped", known=known) if known else ""
        output.talk("Execution {id}: {total} documents{skips}.", id=batch.id, total=batch.total, skips=skips)
        return batch
    now = await library.execution(batch.id)
    output.talk(
        "Execution {id} goes on: {done} of {total} are done and are not done again.",
        id=batch.id,
        done=now.done,
        total=now.total,
    )
    return batch


async def _begun(library: Classification, project: Project, conn: object, wish: Wish) -> tuple[Batch, bool]:
    """The execution, and whether it is new; one that is not goes on, and what its pilot held is released."""
    batch, new = await library.begin(project.id, refine=wish.refine, pilot=wish.pilot, conn=conn)
    if not new:
        await library.resume(batch.id, by=acting.person(), conn=conn)
        if not wish.pilot:
            batch = await library.app.batches.release(batch.id, by=acting.person(), conn=conn)
    return batch, new


async def _known(library: Classification, batch: Batch) -> int:
    """How many documents of a new execution have been classified before, as far as can be seen now."""
    total = batch.total or 0
    before = [each for each in await library.executions(project_id=int(batch.labels["project"])) if each.id != batch.id]
    same = [each for each in before if each.configuration["hash"] == batch.configuration["hash"]]
    return min(total, max((each.well for each in same), default=0))


async def _tried(app: Retoma, batch: Batch, wish: Wish) -> int:
    """The pilot, and what it says of the whole."""
    from retoma.pipelines.classification.pipeline import classify_document

    await pilot_told(app, batch.id, classify_document, reference=wish.reference)
    output.talk("To go on with all of them: {command}", command=wish.command)
    return 0


async def _leave(app: Retoma, batch: Batch) -> int:
    output.say(batch.id)
    output.talk("To watch it: retoma batch watch {id}", id=batch.id)
    from retoma.pipelines.classification.pipeline import classify_document

    if not await working.served(app, classify_document):
        output.talk("No worker serves it yet. Start one: retoma worker --queues classification")
    return 0


# — at work —


async def _work(library: Classification, batch: Batch, wish: Wish) -> int:
    """Follow the work until it ends, and do it here when nobody else does; the exit code."""
    from retoma.pipelines.classification.pipeline import classify_document

    app = library.app
    code = await working.ended(app, follow(app, batch.id), classify_document, reference=wish.reference, explains=True)
    if code is not None:
        return await _told(library, batch, wish, code)
    now = await library.execution(batch.id)
    output.talk(
        "Stopped at {done} of {total}; nothing that is done is lost. To go on: {command}",
        done=now.done,
        total=now.total,
        command=wish.command,
    )
    return INTERRUPTED


async def _rest(library: Classification, project: Project, batch: Batch, wish: Wish) -> int | None:
    """Documents that came to the folder after an execution that was gone on with had begun."""
    had, after = set(), 0
    while page := await library.results(batch.id, after=after):
        after = page[-1].id
        had |= {each.document_id for each in page}
    new, after = [], 0
    while found := await library.documents(project.id, after=after):
        after = found[-1].id
        new += [each.id for each in found if each.id not in had]
    if not new:
        return None
    output.talk("{number} documents came later.", number=len(new))
    more = await acting.change(
        library.app,
        "project",
        project.id,
        lambda conn: library.start(project.id, documents=new, refine=wish.refine, conn=conn),
    )
    return await _work(library, more, wish)


async def _told(library: Classification, batch: Batch, wish: Wish, code: int) -> int:
    """What was found, on standard output; what failed, to the person; the export, to its file."""
    await acting.look(library.app, "batch", batch.id)
    counted = Counter[str]()
    sure: dict[str, Counter[str]] = {}
    for category, confidence, documents in await library.categories(batch.id):
        counted[category] += documents
        sure.setdefault(category, Counter())[confidence] += documents
    output.table(
        counted.most_common(),
        {
            "category": lambda row: row[0],
            "documents": lambda row: row[1],
            "sure": lambda row: sure[row[0]]["alta"],
            "likely": lambda row: sure[row[0]]["media"],
            "to review": lambda row: sure[row[0]]["baixa"],
        },
        nothing="No document has a category yet.",
    )
    failed = await library.errors(batch.id, limit=1000)
    for each in failed[:_MOST_TOLD]:
        output.talk("  {code}: {said}", code=each.code, said=relayed(each.said or ""))
    if len(failed) > _MOST_TOLD:
        output.talk("  … and {number} more: retoma batch errors {id}", number=len(failed) - _MOST_TOLD, id=batch.id)
    now = await library.execution(batch.id)
    await _together(library, batch.id)
    if now.skipped:
        output.talk("{skipped} were classified before and were skipped.", skipped=now.skipped)
    if wish.export is not None:
        await _export(library, batch.id, wish.export)
    return code


async def _together(library: Classification, id: BatchId) -> None:
    """What the documents said of each other."""
    found = await library.finding(id)
    if found is None or found.outcome == "off":
        return
    if found.outcome != "refined":
        output.talk("The batch was not refined; every document keeps the category that was found in it alone.")
        return
    output.talk(
        "Compared with each other, {changed} of {documents} documents have another category than alone.",
        changed=found.changed,
        documents=found.documents,
    )
    for group in found.groups:
        output.talk(
            "  {documents} documents fit no category. Words that describe them: {names}",
            documents=group["documents"],
            names=", ".join(group["words"]),
        )
    if found.unused:
        output.talk("  No document fits: {names}", names=", ".join(found.unused))


async def _export(library: Classification, id: BatchId, file: Path) -> None:
    from retoma.errors import ConfigurationError

    try:
        with file.open("wb") as written:
            async for piece in library.export(id, file.suffix.lower().lstrip(".")):
                written.write(piece)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written: {error.strerror}.", next="Name a file in a folder of yours."
        ) from None
    output.talk("Written: {file}", file=file)
