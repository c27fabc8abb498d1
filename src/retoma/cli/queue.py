"""retoma queue: where jobs wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import door, show, values

if TYPE_CHECKING:
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
    door.ask(lambda app: app.pause_queue(name, reason=reason))
    show.talk(f"Queue {name} is paused; 'retoma queue resume {name}' lets it go on.")


@queue.command()
@click.argument("name")
def resume(name: str) -> None:
    """Let a paused queue go on."""
    door.ask(lambda app: app.resume_queue(name))
    show.talk(f"Queue {name} goes on.")


@queue.command()
@click.argument("queue")
@click.argument("lane")
@click.argument("most", metavar="N", type=values.limit)
def limit(queue: str, lane: str, most: int) -> None:
    """Limit how many jobs of a lane run at the same time. Over all workers; 'none' lifts the limit."""
    door.ask(lambda app: app.limit_lane(queue, lane, at_once=most or None))
    limited = f"lets at most {most} jobs run at the same time" if most else "has no limit"
    show.talk(f"Lane {lane} of queue {queue} {limited}.")
