"""retoma quotes: a list of items, each given a price that can be shown. The same command again goes on."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, context, output, working
from retoma.cli.batch_pilot import pilot_told
from retoma.cli.batch_watch import SOME_FAILED, follow
from retoma.cli.language import relayed, words
from retoma.cli.root import INTERRUPTED
from retoma.pipelines.quotes.cli_bank import bank
from retoma.pipelines.quotes.cli_terms import indices, terms

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.ids import BatchId
    from retoma.pipelines.quotes.library import Quotes
    from retoma.pipelines.quotes.model import Quote

_MOST_TOLD = 10
_PILOT = "Price N first, and say what all would cost."


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for."""

    file: Path
    name: str
    project: str | None
    detach: bool
    at_once: int | None
    pilot: int
    reference: str
    command: str
    """What to type to go on."""


@click.group()
def quotes() -> None:
    """Prices of items: what shops and official sources say, with the evidence of it."""


@quotes.command()
@click.argument("file", metavar="FILE", type=click.Path(exists=True, path_type=Path))
@click.option("--name", metavar="N", help="The batch's name; else the file's.")
@click.option("--project", metavar="P", help="The project whose terms are used; made when there is none of this name.")
@click.option("--pilot", type=click.IntRange(0, 1000), default=0, metavar="N", help=_PILOT)
@click.option("--detach", is_flag=True, help="Queue the work and leave; workers do it.")
@click.option("--at-once", type=click.IntRange(1, 100), metavar="N", help="Quotes of this list at once.")
@context.app_option
def run(
    file: Path,
    name: str | None,
    project: str | None,
    at_once: int | None,
    pilot: int,
    reference: str | None,
    *,
    detach: bool,
) -> None:
    """Find the price of every item in FILE: a CSV or XLSX list of up to 10,000, or a folder of photographs.

    Columns are recognised by their names; each row that is not taken is told with its line. A column 'image' names
    photographs (PNG, JPEG, WebP) in the folder of the list; of a folder, each file is an item. An item without a
    description needs a model that sees images, which RETOMA_CHAT and its key set. Where no worker serves the
    pipeline, one works here meanwhile. Ctrl-C finishes the steps at hand and leaves the rest; the same command again
    goes on.

    With --pilot, N items that stand for all are priced first, and cost, time and failures of the whole are told; the
    same command without it goes on with the others.

    The exit code is 0 when all went well, 8 when some items failed or were not taken, and 9 when it stalled.
    """
    typed = ["retoma", "quotes", "run", str(file)]
    typed += ["--name", name] if name else []
    typed += ["--project", project] if project else []
    wish = Wish(
        file=file,
        name=(name or file.name)[-200:],
        project=project,
        detach=detach,
        at_once=at_once,
        pilot=pilot,
        reference=context.reference_of(reference),
        command=shlex.join(typed),
    )
    try:
        code = asyncio.run(_run(wish))
    except KeyboardInterrupt:
        output.talk("You left; nothing that is done is lost. To go on: {command}", command=wish.command)
        code = INTERRUPTED
    click.get_current_context().exit(code)


async def _run(wish: Wish) -> int:
    from retoma.pipelines.quotes.library import Quotes
    from retoma.pipelines.quotes.markets import is_offline
    from retoma.pipelines.quotes.ports import Market

    context.settings()  # says where the database is when it is about to be made
    working.hush()
    app = context.program(wish.reference)
    if is_offline(app.registry.providers.get(Market)):
        output.talk("Prices come from the bundled catalogue, and are invented. For real ones set SERPAPI_KEY.")
    async with app:
        library = Quotes(app)
        batch = await acting.beside(app, "project", None, _begun(library, wish), noted={"name": wish.name})
        if wish.detach:
            return await _leave(app, batch)
        if wish.pilot and (await app.batches.get(batch)).held_at is not None:
            return await _tried(app, batch, wish)
        code = await _work(library, batch, wish)
        problems = await library.items(batch, only_problems=True, limit=1)
        return SOME_FAILED if code == 0 and problems else code


async def _begun(library: Quotes, wish: Wish) -> BatchId:
    project = None
    if wish.project is not None:
        found = await library.projects(name=wish.project)
        project = (found[0] if found else await library.create_project(wish.project, by=acting.person())).id
    from retoma.pipelines.quotes.folders import listed_in

    listed, sha256 = await listed_in(library, wish.file)
    if listed.problems:  # also where no row is left, and there is no batch that could tell them
        output.talk("{number} rows were not taken:", number=len(listed.problems))
        for each in listed.problems[:_MOST_TOLD]:
            output.talk("  line {line}: {message}", line=each.line, message=relayed(each.message))
    batch, new = await library.create_batch(
        listed,
        name=wish.name,
        filename=wish.file.name,
        sha256=sha256,
        project_id=project,
        at_once=wish.at_once,
        pilot=wish.pilot,
        by=acting.person(),
    )
    standing = await library.batch_status(batch)
    if not new:
        output.talk(
            "Batch {batch} goes on: {percent:g} % is done and is not done again.",
            batch=batch,
            percent=standing.progress_percentage,
        )
        await library.resume_batch(batch, by=acting.person())
        if not wish.pilot:
            await library.app.batches.release(batch, by=acting.person())
    else:
        output.talk("Batch {batch}: {number} items.", batch=batch, number=standing.total_items)
    return batch


async def _tried(app: Retoma, batch: BatchId, wish: Wish) -> int:
    """The pilot, and what it says of the whole."""
    from retoma.pipelines.quotes.pipeline import process_quote_request

    await pilot_told(app, batch, process_quote_request, reference=wish.reference)
    output.talk("To go on with all of them: {command}", command=wish.command)
    return 0


async def _leave(app: Retoma, batch: BatchId) -> int:
    output.say(batch)
    output.talk("To watch it: retoma batch watch {id}", id=batch)
    from retoma.pipelines.quotes.pipeline import process_quote_request

    if not await working.served(app, process_quote_request):
        output.talk("No worker serves it yet. Start one: retoma worker --queues quotes")
    return 0


async def _work(library: Quotes, batch: BatchId, wish: Wish) -> int:
    """Follow the work until it ends, and do it here when nobody else does; the exit code."""
    from retoma.pipelines.quotes.pipeline import process_quote_request

    app = library.app
    code = await working.ended(app, follow(app, batch), process_quote_request, reference=wish.reference, explains=True)
    if code is not None:
        return await _told(library, batch, code)
    now = await library.batch_status(batch)
    output.talk(
        "Stopped at {percent:g} %; nothing that is done is lost. To go on: {command}",
        percent=now.progress_percentage,
        command=wish.command,
    )
    return INTERRUPTED


async def _told(library: Quotes, batch: BatchId, code: int) -> int:
    """What was found, on standard output; what failed, to the person."""
    await acting.look(library.app, "batch", batch)
    found: list[Quote] = []
    while page := await library.quotes(batch_id=batch, before=found[-1].id if found else None, limit=1000):
        found += page
    _table(sorted(found, key=lambda each: each.id))
    failed = [each for each in found if each.status == "ERROR"]
    for each in failed[:_MOST_TOLD]:
        output.talk(
            "  {item}: {why}",
            item=each.codigo_item or each.id,
            why=relayed((each.error_message or "").partition("\n")[0]),
        )
    if len(failed) > _MOST_TOLD:
        output.talk("  … and {number} more: retoma batch errors {id}", number=len(failed) - _MOST_TOLD, id=batch)
    return code


def _table(found: list[Quote]) -> None:
    output.table(
        found,
        {
            "quote": lambda each: each.id,
            "code": lambda each: each.codigo_item or "",
            "item": lambda each: each.input_text[:60] or each.search_query_final or "(image)",
            "status": lambda each: str(each.status),
            "mean": lambda each: "" if each.valor_medio is None else f"{each.valor_medio:.2f}",
            "lowest": lambda each: "" if each.valor_minimo is None else f"{each.valor_minimo:.2f}",
            "highest": lambda each: "" if each.valor_maximo is None else f"{each.valor_maximo:.2f}",
        },
        nothing="There are no quotes.",
    )


@quotes.command()
@click.argument("id", type=click.IntRange(1), metavar="[ID]", required=False)
@click.option("--batch", type=click.IntRange(1), metavar="B", help="The quotes of a batch.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N", help="At most.")
@context.app_option
def show(id: int | None, batch: int | None, limit: int, reference: str | None) -> None:
    """Show a quote with every price that was tested; without ID, the newest quotes."""

    async def shown(app: Retoma) -> None:
        from retoma.pipelines.quotes.library import Quotes

        library = Quotes(app)
        await acting.look(app, "quote", id or batch)
        if id is None:
            _table(await library.quotes(batch_id=batch, limit=limit))
        else:
            await _one(library, id)

    context.ask_program(reference, shown)


async def _one(library: Quotes, id: int) -> None:
    quote = await library.quote(id)
    _table([quote])
    output.say("")
    output.table(
        await library.sources(id),
        {
            "source": lambda each: each.provider,
            "where": lambda each: each.domain or each.seller or "",
            "price": lambda each: "" if each.price_value is None else f"{each.price_value:.2f}",
            "counts": lambda each: bool(each.is_accepted),
            "reason": lambda each: each.failure_reason or "",
            "title": lambda each: each.title[:60],
        },
        nothing="Nothing was tested.",
    )
    await _worth(library, id)
    stage = quote.processing_checkpoint or "INIT"
    output.talk(
        "Stage {stage}, {percent} %, attempt {attempt}.",
        stage=stage,
        percent=quote.progress_percentage,
        attempt=quote.attempt_number,
    )
    if quote.error_message:
        output.relay(quote.error_message.partition("\n")[0])


async def _worth(library: Quotes, id: int) -> None:
    """The value of an asset, where its condition was told: price, each factor with its weight, value."""
    from retoma.pipelines.quotes.reports import Reports

    told = await Reports(library.app).valuation(id)
    if told is None or (asset := told.research.asset) is None:
        return
    if asset.factors is None or (found := told.valuation) is None:
        output.talk("No value: the terms of the project have no report.factors. See retoma quotes terms.")
        return
    weights = asset.factors.weights
    parts = [
        ("conservation", str(asset.conservation), found.ec, weights["ec"]),
        ("use", f"{asset.years_used} years", found.pu, weights["pu"]),
        ("remaining life", f"{asset.years_left} years", found.vuf, weights["vuf"]),
    ]
    output.say("")
    output.table(
        parts,
        {
            "part": lambda each: each[0],
            "asset": lambda each: each[1],
            "factor": lambda each: f"{each[2]:f}",
            "weight": lambda each: f"{each[3]:f}",
        },
        nothing="",
    )
    output.say(f"value {found.value:.2f} = market price {found.market:.2f} × factor {found.factor:f}")


@quotes.command()
@click.option("--quote", type=click.IntRange(1), metavar="Q", help="The report of a quote.")
@click.option("--batch", type=click.IntRange(1), metavar="B", help="The report of a batch.")
@click.option(
    "--to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", required=True, help="PDF or XLSX."
)
@click.option("--close", "closing", is_flag=True, help="Close the report first: it never changes afterwards.")
@context.app_option
def export(quote: int | None, batch: int | None, to: Path, reference: str | None, *, closing: bool) -> None:
    """Write the report of a quote or of a batch: a .pdf, .xlsx or .json, as FILE is called.

    Until it is closed it is a draft, and says so.
    """
    kind: Any = to.suffix.lower().lstrip(".")
    if (quote is None) == (batch is None):
        raise click.UsageError(words("Say --quote or --batch."))
    if kind not in ("pdf", "xlsx", "json"):
        raise click.UsageError(words("FILE ends with .pdf, .xlsx or .json."))

    async def exported(app: Retoma) -> None:
        from retoma.pipelines.quotes.reports import Reports

        reports = Reports(app)
        if closing:
            act = reports.close(quote_id=quote, batch_id=batch, by=acting.person())
            await acting.beside(app, "quote" if batch is None else "batch", quote or batch, act)
        else:
            await acting.look(app, "quote" if batch is None else "batch", quote or batch)
        content = await reports.file(kind, quote_id=quote, batch_id=batch)
        await asyncio.to_thread(to.write_bytes, content)
        output.say(str(to))

    context.ask_program(reference, exported)


@quotes.command()
@click.argument("report", metavar="REPORT", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@context.app_option
def verify(report: Path, reference: str | None) -> None:
    """Derive every figure of a closed REPORT (PDF, XLSX or JSON) again from the kept evidence.

    Each difference is a line, also one of a cent. The exit code is 0 when the report holds, and 8 when it does not.
    """

    async def verified(app: Retoma) -> list[tuple[str, str]]:
        from retoma.pipelines.quotes.reports import Reports

        await acting.look(app, "report", report.name)
        return await Reports(app).verify(await asyncio.to_thread(report.read_bytes))

    problems = context.ask_program(reference, verified)
    for where, what in problems:
        output.say(f"{where}: {what}")
    output.talk(
        "The report does not hold." if problems else "The report holds: every figure follows from its evidence."
    )
    click.get_current_context().exit(SOME_FAILED if problems else 0)


quotes.add_command(terms)
quotes.add_command(indices)
quotes.add_command(bank)
