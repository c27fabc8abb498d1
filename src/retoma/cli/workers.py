"""retoma workers, metrics and prune."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import door, show, values

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.app import Retoma
    from retoma.model import Metrics, Presence


def _being(worker: Presence) -> str:
    if worker.stopped_at:
        return worker.reason or "stopped"
    if not worker.alive:
        return "silent"
    return "draining" if worker.stopping_at else "alive"


_WORKER: show.Columns[Presence] = {
    "id": lambda worker: worker.id,
    "label": lambda worker: worker.label,
    "is": _being,
    "host": lambda worker: worker.host,
    "pid": lambda worker: worker.pid,
    "seen": lambda worker: worker.seen_at,
    "queues": lambda worker: worker.queues,
    "at once": lambda worker: worker.at_once,
    "claimed": lambda worker: worker.claimed,
    "completed": lambda worker: worker.completed,
    "failed": lambda worker: worker.failed,
    "retried": lambda worker: worker.retried,
    "recovered": lambda worker: worker.recovered,
    "started": lambda worker: worker.started_at,
}


@click.command()
@click.option("--all", "gone", is_flag=True, help="Also those who have stopped.")
@show.as_json
def workers(*, gone: bool, as_json: bool) -> None:
    """Who works: one line per executor, the newest first."""
    found = door.ask(lambda app: app.workers(gone=gone))
    if as_json:
        show.print_json(found)
    else:
        show.table(found, _WORKER, nothing="Nobody works. Start one with 'retoma worker --app myapp:app'.")


@click.command()
@click.argument("label")
@show.as_json
def metrics(label: str, *, as_json: bool) -> None:
    """The seven figures of the worker that carries LABEL, all its executors and restarts together."""

    async def look(app: Retoma) -> Metrics:
        from retoma.errors import NotFound

        if all(worker.label != label for worker in await app.workers(gone=True)):
            raise NotFound(f"No worker carries the label {label!r}.", next="'retoma workers --all' shows them.")
        return await app.metrics(label)

    found = door.ask(look).as_seed()
    if as_json:
        show.print_json(found)
    else:
        show.fields(found)


@click.command()
@click.option("--older-than", type=values.duration, metavar="TIME", help="Such as 30d (RETOMA_RETENTION_DAYS).")
def prune(older_than: timedelta | None) -> None:
    """Remove jobs that ended long ago, with their attempts and checkpoints. How many went is printed."""
    click.echo(door.ask(lambda app: app.prune(older_than)))
