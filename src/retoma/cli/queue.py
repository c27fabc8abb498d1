"""retoma queue: where jobs wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import door, show, values

if TYPE_CHECKING:
    from retoma.app import Retoma
    from retoma.model import Queue

_QUEUE: show.Columns[Queue] = {
    "name": lambda queue: queue.name,
    "waiting": lambda queue: queue.waiting,
    "due": lambda queue: queue.due,
    "running": lambda queue: queue.running,
    "oldest due": lambda queue: None if queue.oldest_due_seconds is None else f"{queue.oldest_due_seconds:.0f} s",
    "paused": lambda queue: queue.paused_at,
    "why": lambda queue: queue.paused_reason,
}


@click.group()
def queue() -> None:
    """Queues: how full they are; pause and resume them; limit a lane."""


@queue.command()
@show.as_json
def list(*, as_json: bool) -> None:
    """List the queues. How many jobs wait, could run now, and run."""
    found = door.ask(lambda app: app.queues())
    if as_json:
        show.print_json(found)
    else:
        show.table(found, _QUEUE, nothing="No job waits or runs, and no queue is paused.")


@queue.command()
@click.argument("name")
@click.option("--reason", default="person", show_default=True, help="Why, for those who wonder later.")
def pause(name: str, reason: str) -> None:
    """Let nobody take jobs from a queue. What runs goes on."""

    async def ask(app: Retoma) -> bool:
        known = await _is_known(app, name)
        await app.pause_queue(name, reason=reason)
        return known

    known = door.ask(ask)
    show.talk(f"Queue {name} is paused; 'retoma queue resume {name}' lets it go on.")
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
        paused = any(each.name == name and each.paused_at for each in await app.queues())
        await app.resume_queue(name)
        return paused

    show.talk(f"Queue {name} goes on." if door.ask(ask) else f"Queue {name} was not paused.")


@queue.command()
@click.argument("queue")
@click.argument("lane")
@click.argument("most", metavar="N", type=values.limit)
def limit(queue: str, lane: str, most: int) -> None:
    """Limit how many jobs of a lane run at the same time. Over all workers; 'none' lifts the limit."""

    async def ask(app: Retoma) -> bool:
        known = await _is_known(app, queue)
        await app.limit_lane(queue, lane, at_once=most or None)
        return known

    known = door.ask(ask)
    limited = f"lets at most {most} jobs run at the same time" if most else "has no limit"
    show.talk(f"Lane {lane} of queue {queue} {limited}.")
    if not known:
        _doubt(queue)


async def _is_known(app: Retoma, name: str) -> bool:
    """Whether jobs wait or run in it, it is paused, or somebody works on it."""
    here = any(each.name == name for each in await app.queues())
    return here or any(name in each.queues for each in await app.workers())


def _doubt(name: str) -> None:
    show.talk(
        f"No job is in a queue called {name} and no worker serves one: 'retoma queue list' shows those there are."
    )
