"""retoma workers, metrics and prune."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output, params
from retoma.cli.language import Phrase
from retoma.model import compat

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.worker import Metrics, Presence


def _being(worker: Presence) -> str:
    if worker.stopped_at:
        return worker.reason or Phrase("stopped")
    if not worker.alive:
        return Phrase("silent")
    return Phrase("draining" if worker.stopping_at or worker.drain_requested_at else "alive")


_WORKER: output.Columns[Presence] = {
    "id": lambda worker: worker.id,
    "label": lambda worker: worker.label,
    "is": _being,
    "host": lambda worker: worker.host,
    "pid": lambda worker: worker.pid,
    "seen": lambda worker: worker.seen_at,
    "queues": lambda worker: worker.queues,
    "at once": lambda worker: worker.at_once,
    "MB": lambda worker: None if worker.memory_megabytes is None else round(worker.memory_megabytes),
    "claimed": lambda worker: worker.claimed,
    "completed": lambda worker: worker.completed,
    "failed": lambda worker: worker.failed,
    "retried": lambda worker: worker.retried,
    "recovered": lambda worker: worker.recovered,
    "started": lambda worker: worker.started_at,
}


@click.command()
@click.option("--all", "gone", is_flag=True, help="Also those who have stopped.")
@output.as_json
def workers(*, gone: bool, as_json: bool) -> None:
    """Who works: one line per executor, the newest first."""
    found = context.ask(lambda app: app.workers.all(gone=gone))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _WORKER, nothing="Nobody works. Start one with 'retoma worker --app myapp:app'.")


@click.command()
@click.argument("label")
@output.as_json
def metrics(label: str, *, as_json: bool) -> None:
    """The seven figures of the worker that carries LABEL, all its executors and restarts together."""

    async def look(app: Retoma) -> Metrics:
        from retoma.errors import NotFound

        if not await app.workers.all(gone=True, label=label, limit=1):
            raise NotFound(f"No worker carries the label {label!r}.", next="'retoma workers --all' shows them.")
        return await app.workers.metrics(label)

    found = compat.figures(context.ask(look))
    if as_json:
        output.print_json(found)
    else:
        output.fields(found)


@click.command()
@click.option("--older-than", type=params.duration, metavar="TIME", help="Such as 30d (RETOMA_RETENTION_DAYS).")
@click.option("--yes", is_flag=True, help="Do not ask.")
def prune(older_than: timedelta | None, *, yes: bool) -> None:
    """Remove jobs that ended long ago, with their attempts and checkpoints. How many went is printed."""
    if not yes:
        _confirm_prune(older_than)
    output.say(context.ask(lambda app: acting.beside(app, "job", None, app.system.prune(older_than))))


def somebody_is_here() -> bool:
    """Whether a person can answer a question."""
    return sys.stdin.isatty()


def _confirm_prune(older_than: timedelta | None) -> None:
    from retoma.errors import ConfigurationError
    from retoma.system.settings import Settings

    days = Settings.load().retention_days if older_than is None else older_than / timedelta(days=1)
    told = Phrase(
        "Jobs and batches that ended more than {days:g} days ago are removed, with their attempts and checkpoints.",
        days=days,
    )
    if not somebody_is_here():
        raise ConfigurationError(
            Phrase("{told} Standard input is not a terminal, so nobody can confirm.", told=told),
            next=Phrase("the same with --yes."),
        )
    output.talk(told)
    if not output.agreed("Remove them?"):
        raise ConfigurationError(Phrase("Nothing was changed."))
