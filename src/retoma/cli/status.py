"""retoma status: all on one screen, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import context, output
from retoma.cli.batch_view import sentence_of
from retoma.cli.language import Phrase

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.batch import Batch
    from retoma.model.evidence import Explanation
    from retoma.model.health import Health
    from retoma.model.queue import Queue
    from retoma.model.worker import Presence
    from retoma.system.settings import Settings

_MOST = 10
_LATE = 60


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that a person may do, and why."""

    why: str
    command: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at a database found."""

    health: Health
    workers: Sequence[Presence]
    queues: Sequence[Queue]
    batches: Sequence[tuple[Batch, Explanation]]
    used: bool
    """Whether a job was ever queued."""


_QUEUE: output.Columns[Queue] = {
    "queue": lambda queue: queue.name,
    "waiting": lambda queue: queue.waiting,
    "due": lambda queue: queue.due,
    "running": lambda queue: queue.running,
    "held back": lambda queue: queue.held or None,
    "paused": lambda queue: queue.paused_reason,
}
_BATCH: output.Columns[tuple[Batch, Explanation]] = {
    "batch": lambda both: both[0].id,
    "name": lambda both: both[0].name,
    "state": lambda both: both[0].state,
    "done": lambda both: None if both[0].total is None else f"{both[0].total - both[0].unfinished}/{both[0].total}",
    "failed": lambda both: both[0].failures or None,
    "why": lambda both: sentence_of(both[1]),
}


@click.command()
@output.as_json
def status(*, as_json: bool) -> None:
    """All on one screen: database, workers, queues, the batches under way, and what to do next.

    It makes no database: where there is none yet, it says so.
    """
    from retoma.system.settings import Settings

    settings = Settings.load()
    if context.server() is None and not settings.database_url and not (settings.home / "secret.json").exists():
        _print_nothing(settings, as_json=as_json)
        return
    seen = context.ask(_look)
    advice = list(advise(seen))
    if as_json:
        output.print_json(_as_json(seen, settings, advice))
    else:
        _print(seen, settings, advice)


async def _look(app: Retoma) -> Seen:
    batches = await app.batches.find(states=["queued", "running", "paused", "stalled"], limit=_MOST)
    return Seen(
        health=await app.system.health(),
        workers=[each for each in await app.workers.all() if each.alive],
        queues=[each for each in await app.queues.all() if each.waiting or each.running or each.paused_at],
        # Without the words of errors, which may be content: a look at content is audited, and this is none.
        batches=[(batch, await app.batches.explain(batch.id, words=False)) for batch in batches],
        used=bool(await app.jobs.find(limit=1)),
    )


def advise(seen: Seen) -> Iterator[Advice]:
    """What a person may do, the most pressing first."""
    due = sum(queue.due for queue in seen.queues if queue.paused_at is None)
    if not seen.workers:
        why = Phrase("Nobody works, and jobs could run now: {due:,}.", due=due) if due else Phrase("Nobody works.")
        yield Advice(why, "retoma worker --app myapp:app")
    else:
        yield from _unserved(seen)
    for batch, why_it in seen.batches:
        if why_it.needs_help:
            yield Advice(
                Phrase("Batch {id} ({name}): {sentence}", id=batch.id, name=batch.name, sentence=sentence_of(why_it)),
                f"retoma batch explain {batch.id}",
            )
    for queue in seen.queues:
        if queue.paused_at is not None:
            yield Advice(
                Phrase("Queue {name} is paused.", name=queue.name),
                f"retoma queue resume {queue.name}",
            )
    if seen.health.failed_jobs:
        yield Advice(
            Phrase("Failed jobs: {failed:,}.", failed=seen.health.failed_jobs),
            "retoma job list --state failed",
        )
    if not seen.used:
        yield Advice(Phrase("No job was queued yet."), "retoma enqueue --app myapp:app PIPELINE INPUT")


def _unserved(seen: Seen) -> Iterator[Advice]:
    served = {name for worker in seen.workers for name in worker.queues}
    for queue in seen.queues:
        if queue.due and queue.name not in served:
            yield Advice(
                Phrase(
                    "No worker serves the queue {name}, in which jobs could run: {due:,}.",
                    name=queue.name,
                    due=queue.due,
                ),
                f"retoma worker --queues {queue.name} --app myapp:app",
            )
        elif (queue.oldest_due_seconds or 0) > _LATE and queue.paused_at is None:
            yield Advice(
                Phrase(
                    "The oldest job in the queue {name} could have run {seconds:.0f} s ago.",
                    name=queue.name,
                    seconds=queue.oldest_due_seconds,
                ),
                "retoma workers",
            )


def _place(settings: Settings) -> str:
    if (server := context.server()) is not None:
        return Phrase("behind {server}", server=server)
    from retoma.postgres.url import place

    return place(settings.database_url) if settings.database_url else Phrase("embedded in {home}", home=settings.home)


def _print(seen: Seen, settings: Settings, advice: Sequence[Advice]) -> None:
    labels = ", ".join(sorted({worker.label for worker in seen.workers}))
    silent = seen.health.workers_silent
    known = {
        "database": Phrase("{place}, PostgreSQL {version}", place=_place(settings), version=seen.health.version),
        "workers": Phrase(
            "{alive} alive{silent}{labels}",
            alive=len(seen.workers),
            silent=Phrase(", {silent} silent", silent=silent) if silent else "",
            labels=f" ({labels})" if labels else "",
        ),
        "waiting": sum(queue.waiting for queue in seen.queues),
        "running": sum(queue.running for queue in seen.queues),
        "failed": seen.health.failed_jobs,
    }
    output.fields(known)
    if seen.queues:
        output.title("queues")
        output.table(seen.queues, _QUEUE, nothing="")
    if seen.batches:
        output.title("batches")
        output.table(seen.batches, _BATCH, nothing="", below="why")
    output.title("next")
    if not advice:
        output.say(Phrase("Nothing needs you."))
    for each in advice:
        output.say(each.why)
        output.say(Phrase("Try: {next}", next=each.command), fg="yellow")


def _print_nothing(settings: Settings, *, as_json: bool) -> None:
    advice = Advice(
        Phrase("There is no database yet: DATABASE_URL is not set, and nothing is in {home}.", home=settings.home),
        Phrase("retoma up, which makes one there; or set DATABASE_URL."),
    )
    if as_json:
        output.print_json({"database": None, "workers": [], "queues": [], "batches": [], "next": [advice]})
    else:
        output.say(advice.why)
        output.say(Phrase("Try: {next}", next=advice.command), fg="yellow")


def _as_json(seen: Seen, settings: Settings, advice: Sequence[Advice]) -> dict[str, Any]:
    return {
        "database": {
            "place": _place(settings),
            "version": seen.health.version,
            "failed_jobs": seen.health.failed_jobs,
            "workers_silent": seen.health.workers_silent,
        },
        "workers": seen.workers,
        "queues": seen.queues,
        "batches": [
            {
                "id": batch.id,
                "name": batch.name,
                "state": batch.state,
                "total": batch.total,
                "unfinished": batch.unfinished,
                "failures": batch.failures,
                "needs_help": why.needs_help,
                "sentence": why.sentence,
            }
            for batch, why in seen.batches
        ],
        "next": advice,
    }
