"""retoma top: the fleet, live in a terminal; once, as lines or JSON, for a program. It only looks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import batch_view, context, output
from retoma.cli.language import Phrase, spoken, words
from retoma.values.escaping import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

    from retoma.app.retoma import Retoma
    from retoma.model.batch import Progress
    from retoma.model.machine import HeldJob, QueueState
    from retoma.model.worker import Presence

_MOST_BATCHES, _MOST_QUEUES, _MOST_WORKERS = 12, 15, 20
_QUEUES = (
    Phrase("queue"),
    Phrase("waiting"),
    Phrase("due"),
    Phrase("running"),
    Phrase("in/min"),
    Phrase("out/min"),
    Phrase("wait p95"),
    Phrase("run p95"),
    Phrase("oldest due"),
)
_WORKERS = (Phrase("worker"), Phrase("is"), Phrase("seen"), Phrase("places"), Phrase("MB"), Phrase("jobs"))
_UNDER_WAY = ["queued", "running", "paused", "stalled"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What one look at a database found."""

    at: datetime
    batches: Sequence[Progress]
    queues: Sequence[QueueState]
    workers: Sequence[Presence]
    held: Sequence[HeldJob]
    paid_today: Decimal
    unpriced_today: int

    @property
    def busy(self) -> int:
        """How many places of the live executors are taken."""
        return len(self.held)

    @property
    def places(self) -> int:
        """How many jobs the live executors may hold together."""
        return sum(each.at_once for each in self.workers if each.alive)


@click.command()
@click.option("--every", type=click.FloatRange(0.5, 3600), default=2.0, show_default=True, metavar="S", help="Seconds.")
@click.option("--once", is_flag=True, help="Look once and end, also in a terminal.")
@output.as_json
def top(*, every: float, once: bool, as_json: bool) -> None:
    """Show the fleet live: batches under way, queues, workers, rates and today's cost. Ctrl-C leaves it.

    In a pipe, and with --json, it looks once and ends.
    """
    if as_json:
        output.print_json(_as_json(context.ask(look)))
    elif once or not output.in_terminal():
        _print(context.ask(look))
    else:
        try:
            context.ask(lambda app: _follow(app, every))
        except KeyboardInterrupt:
            output.talk("You left; the work goes on.")


async def look(app: Retoma) -> Fleet:
    """What is going on now."""
    found = await app.batches.find(states=_UNDER_WAY, limit=_MOST_BATCHES)
    workers = await app.workers.all()
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    paid = await app.calls.spend("day", since=midnight)
    return Fleet(
        at=datetime.now(UTC),
        batches=[await app.batches.progress(each.id) for each in found],
        queues=[each for each in await app.queues.look() if each.depth.name != "retoma"],
        workers=workers,
        held=await app.workers.holding([each.id for each in workers]),
        paid_today=sum((each.paid for each in paid), Decimal(0)),
        unpriced_today=sum(each.unpriced for each in paid),
    )


# — once —


def _lines(fleet: Fleet) -> Iterator[tuple[object, ...]]:
    for each in fleet.batches:
        yield "batch", each.id, each.name, each.state, each.done, each.total, each.failed, each.rate, each.spent
    for queue in fleet.queues:
        depth, pace = queue.depth, queue.pace
        yield "queue", depth.name, depth.waiting, depth.due, depth.running, pace.came_a_minute, pace.ended_a_minute
    for worker in fleet.workers:
        held = sum(each.worker_id == worker.id for each in fleet.held)
        yield "worker", worker.label, worker.id, worker.alive, held, worker.at_once, worker.memory_megabytes
    yield "today", fleet.paid_today, fleet.unpriced_today


def _print(fleet: Fleet) -> None:
    if output.in_terminal():
        output.screen().print(View(fleet))
        return
    for row in _lines(fleet):
        output.say("\t".join(_cell(each) for each in row))


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _as_json(fleet: Fleet) -> dict[str, Any]:
    return {
        "at": fleet.at,
        "batches": [batch_view.figures(each) for each in fleet.batches],
        "queues": [{"depth": each.depth, "pace": each.pace} for each in fleet.queues],
        "workers": fleet.workers,
        "jobs": fleet.held,
        "places": fleet.places,
        "busy": fleet.busy,
        "paid_today": fleet.paid_today,
        "unpriced_today": fleet.unpriced_today,
    }


# — live —


async def _follow(app: Retoma, every: float) -> None:
    from rich.live import Live

    view = View(await look(app))
    with Live(view, console=output.screen(), screen=True, auto_refresh=False) as live:
        live.refresh()
        while True:
            await asyncio.sleep(every)
            view.fleet = await look(app)
            live.refresh()


class View:
    """The fleet as a person sees it in a terminal."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._words = batch_view.bar_words()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._head()
        yield from self._batches(options.max_width)
        yield from self._queues()
        yield from self._workers()

    def _head(self) -> RenderableType:
        from rich.text import Text

        fleet = self.fleet
        cost = Phrase(spoken(batch_view.money(fleet.paid_today)))
        said = words(
            "{busy} of {places} places busy · {alive} executors · {cost} today",
            busy=fleet.busy,
            places=fleet.places,
            alive=sum(each.alive for each in fleet.workers),
            cost=cost,
        )
        more = words(" and {n} calls of unknown cost", n=fleet.unpriced_today) if fleet.unpriced_today else ""
        return Text(f"retoma  {fleet.at.astimezone():%H:%M:%S}  {said}{more}\n", style="bold")

    def _batches(self, width: int) -> Iterator[RenderableType]:
        from rich.text import Text

        if not self.fleet.batches:
            yield Text(words("No batch is under way.") + "\n", style="dim")
            return
        for each in self.fleet.batches:
            name = Text(f"{each.id}  {visible(each.name)[:40]}", style="bold")
            yield name
            yield batch_view.bar(each, width=width - 1, words=self._words)
        yield Text("")

    def _queues(self) -> Iterator[RenderableType]:
        table = _table(_QUEUES)
        for each in self.fleet.queues[:_MOST_QUEUES]:
            depth, pace = each.depth, each.pace
            paused = words(" (paused)") if depth.paused_at else ""
            table.add_row(
                visible(depth.name) + paused,
                f"{depth.waiting}{'+' if depth.more else ''}",
                str(depth.due),
                str(depth.running),
                f"{pace.came_a_minute:.1f}",
                f"{pace.ended_a_minute:.1f}",
                _span(pace.wait_most),
                _span(pace.run_most),
                _span(depth.oldest_due_seconds),
                style="yellow" if depth.paused_at or (depth.due and not depth.executors) else "",
            )
        if self.fleet.queues:
            yield table
        yield ""

    def _workers(self) -> Iterator[RenderableType]:
        from rich.text import Text

        if not self.fleet.workers:
            yield Text(words("Nobody works. Start one with 'retoma worker --app myapp:app'."), style="yellow")
            return
        table = _table(_WORKERS)
        for each in sorted(self.fleet.workers, key=lambda worker: (worker.alive, worker.label, worker.id)):
            mine = [job for job in self.fleet.held if job.worker_id == each.id]
            table.add_row(
                f"{visible(each.label)} {each.id}",
                _being(each),
                _span((self.fleet.at - each.seen_at).total_seconds()),
                f"{len(mine)}/{each.at_once}",
                "" if each.memory_megabytes is None else f"{each.memory_megabytes:.0f}",
                ", ".join(f"{job.id} {visible(job.step or job.pipeline)}" for job in mine[:4]),
                style="" if each.alive else "red",
            )
            if table.row_count >= _MOST_WORKERS:
                break
        yield table


def _being(worker: Presence) -> str:
    if not worker.alive:
        return words("silent")
    return words("draining") if worker.stopping_at or worker.drain_requested_at else words("alive")


def _table(headings: Sequence[Phrase]) -> Table:
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold dim")
    for heading in headings:
        made.add_column(words(heading), no_wrap=True, overflow="ellipsis")
    return made


def _span(seconds: float | None) -> str:
    return "" if seconds is None else spoken(batch_view.span(round(seconds, 1)))
