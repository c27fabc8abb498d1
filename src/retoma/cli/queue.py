"""retoma queue: where jobs wait."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output, params
from retoma.cli.language import words

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.machine import Lane, QueueState
    from retoma.model.queue import Queue

_QUEUE: output.Columns[Queue] = {
    "name": lambda queue: queue.name,
    "waiting": lambda queue: queue.waiting,
    "due": lambda queue: queue.due,
    "running": lambda queue: queue.running,
    "held back": lambda queue: queue.held or None,
    "weight": lambda queue: queue.weight,
    "oldest due": lambda queue: None if queue.oldest_due_seconds is None else f"{queue.oldest_due_seconds:.0f} s",
    "paused": lambda queue: queue.paused_at,
    "until": lambda queue: queue.paused_until,
    "why": lambda queue: queue.paused_reason,
}


@click.group()
def queue() -> None:
    """Queues: how full they are; pause, resume and weigh them; limit a lane."""


@queue.command()
@output.as_json
def list(*, as_json: bool) -> None:
    """List the queues. How many jobs wait, could run now, and run."""
    found = context.ask(lambda app: app.queues.all())
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _QUEUE, nothing="No job waits or runs, and no queue is paused.")


def _span(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.3g} s"


_LANE: output.Columns[Lane] = {
    "lane": lambda lane: lane.name or "–",
    "waiting": lambda lane: f"{lane.waiting}+" if lane.more else lane.waiting,
    "running": lambda lane: lane.running,
    "at once": lambda lane: lane.at_once,
    "held back": lambda lane: lane.closed or None,
    "oldest due": lambda lane: _span(lane.oldest_due_seconds),
}


@queue.command()
@click.argument("name")
@output.as_json
def show(name: str, *, as_json: bool) -> None:
    """Show a queue with its lanes: what waits, how fast it moves, how long its jobs wait and run."""

    async def look(app: Retoma) -> tuple[QueueState, str | None]:
        from psycopg.errors import InsufficientPrivilege

        found = await app.queues.get(name)
        try:
            who = await app.queues.paused_by(name) if found.depth.paused_at else {}
        except InsufficientPrivilege:  # the account of a worker reads no audit
            who = {}
        return found, who.get(name)

    found, who = context.ask(look)
    if as_json:
        output.print_json({"queue": found, "paused_by": who})
        return
    depth, pace = found.depth, found.pace
    told = {
        "name": depth.name,
        "waiting": f"{depth.waiting}+" if depth.more else depth.waiting,
        "due": depth.due,
        "held back": depth.held,
        "running": depth.running,
        "oldest due": _span(depth.oldest_due_seconds),
        "in a minute": round(pace.came_a_minute, 1),
        "out a minute": round(pace.ended_a_minute, 1),
        "wait p50": _span(pace.wait_median),
        "wait p95": _span(pace.wait_most),
        "run p50": _span(pace.run_median),
        "run p95": _span(pace.run_most),
        "weight": depth.weight,
        "executors": depth.executors,
        "paused": depth.paused_at,
        "until": depth.paused_until,
        "why": depth.paused_reason,
        "paused by": who,
    }
    output.fields(told)
    if found.lanes and output.in_terminal():
        output.title("lanes")
        output.table(found.lanes, _LANE, nothing="")


@queue.command()
@click.argument("name")
@click.option("--reason", default="person", show_default=True, help="Why, for those who wonder later.")
@click.option("--until", type=params.moment, metavar="TIME", help="Go on by itself then: 2026-01-31T18:30.")
@click.option("--for", "length", type=params.duration, metavar="TIME", help="Go on by itself after it: 90s, 15m, 2h.")
def pause(name: str, reason: str, until: datetime | None, length: timedelta | None) -> None:
    """Let nobody take jobs from a queue. What runs goes on."""
    if until and length:
        raise click.UsageError(words("--until and --for both say when the pause ends; say one of them."))
    seconds = length.total_seconds() if length else None

    async def ask(app: Retoma) -> tuple[bool, datetime | None]:
        known = await _is_known(app, name)
        ends = await acting.change(
            app,
            "queue",
            name,
            lambda conn: app.queues.pause(name, reason=reason, until=until, seconds=seconds, conn=conn),
        )
        return known, ends

    known, ends = context.ask(ask)
    if ends is None:
        output.talk("Queue {name} is paused; 'retoma queue resume {name}' lets it go on.", name=name)
    else:
        output.talk(
            "Queue {name} is paused until {ends}; 'retoma queue resume {name}' lets it go on before.",
            name=name,
            ends=ends.astimezone().isoformat(" ", "seconds"),
        )
    if not known:
        _doubt(name)


@queue.command()
@click.argument("name")
def resume(name: str) -> None:
    """Let a paused queue go on."""

    async def ask(app: Retoma) -> bool:
        from retoma.errors import NotFound

        if not await _is_known(app, name):
            raise NotFound(f"There is no queue {name!r}.", next="'retoma queue list' shows them.")
        paused = any(each.name == name and each.paused_at for each in await app.queues.all())
        await acting.change(app, "queue", name, lambda conn: app.queues.resume(name, conn=conn))
        return paused

    output.talk("Queue {name} goes on." if context.ask(ask) else "Queue {name} was not paused.", name=name)


@queue.command()
@click.argument("queue")
@click.argument("lane")
@click.argument("most", metavar="N", type=params.limit)
def limit(queue: str, lane: str, most: int) -> None:
    """Limit how many jobs of a lane run at the same time. Over all workers; 'none' lifts the limit."""

    async def ask(app: Retoma) -> bool:
        known = await _is_known(app, queue)
        said = {"lane": lane, "at_once": most or None}
        await acting.change(
            app,
            "queue",
            queue,
            lambda conn: app.queues.limit_lane(queue, lane, at_once=most or None, conn=conn),
            noted=said,
        )
        return known

    known = context.ask(ask)
    output.talk(
        "Lane {lane} of queue {queue} lets at most {most} jobs run at the same time."
        if most
        else "Lane {lane} of queue {queue} has no limit.",
        lane=lane,
        queue=queue,
        most=most,
    )
    if not known:
        _doubt(queue)


@queue.command()
@click.argument("name")
@click.argument("turns", metavar="N", type=click.IntRange(1, 1000))
def weight(name: str, turns: int) -> None:
    """Give a queue more turns than others. N for one turn of a queue of weight 1, which all have at first."""

    async def ask(app: Retoma) -> bool:
        known = await _is_known(app, name)
        await acting.change(app, "queue", name, lambda conn: app.queues.weigh(name, turns, conn=conn))
        return known

    known = context.ask(ask)
    output.talk("Queue {name} has weight {turns}.", name=name, turns=turns)
    if not known:
        _doubt(name)


async def _is_known(app: Retoma, name: str) -> bool:
    """Whether jobs wait or run in it, it is paused, or somebody works on it."""
    here = any(each.name == name for each in await app.queues.all())
    return here or any(name in each.queues for each in await app.workers.all())


def _doubt(name: str) -> None:
    output.talk(
        "No job is in a queue called {name} and no worker serves one: 'retoma queue list' shows those there are.",
        name=name,
    )
