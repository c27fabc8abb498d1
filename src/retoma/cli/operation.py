"""retoma operation: one action on many jobs of any batch. retoma errors, retoma search: what to act on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, context, output
from retoma.cli.language import Phrase, words

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.batch import Operation
    from retoma.model.failure import FailureGroup
    from retoma.model.operation import DryRun, JobFilter, Sampled
    from retoma.model.view import Hit

_ACTIONS = ("retry", "cancel", "restart", "move", "priority", "discard", "reinstate")
_STATES = ("queued", "running", "completed", "skipped", "failed", "review", "cancelled")


def _which(operation: Operation) -> str:
    if operation.filter is None:
        return f"batch {operation.batch_id}"
    return operation.filter.text


_WHY = {
    "already": Phrase("it is so already"),
    "busy": Phrase("another operation works on their batch"),
    "discarded": Phrase("a person has discarded them"),
    "house": Phrase("they are the engine's own jobs"),
    "in_batch": Phrase("they wait in the lane of their batch, which belongs to a queue"),
    "in_lane": Phrase("they wait in a lane, which belongs to a queue"),
    "later": Phrase("they ended after this was decided"),
    "pruned": Phrase("their batch is being deleted"),
    "state": Phrase("their state has changed"),
}

_OPERATION: output.Columns[Operation] = {
    "id": lambda operation: operation.id,
    "action": lambda operation: operation.kind,
    "by": lambda operation: operation.asked_by,
    "which": _which,
    "done": lambda operation: operation.done,
    "skipped": lambda operation: ", ".join(f"{why} {jobs}" for why, jobs in operation.skipped.items()) or None,
    "of": lambda operation: f"{operation.wanted}{'' if operation.exact else '+'}",
    "started": lambda operation: operation.started_at,
    "finished": lambda operation: operation.finished_at,
    "ended early": lambda operation: operation.error,
}
_SAMPLED: output.Columns[Sampled] = {
    "id": lambda job: job.id,
    "pipeline": lambda job: job.pipeline,
    "key": lambda job: job.key,
    "state": lambda job: job.state,
    "batch": lambda job: job.batch_id,
}
_GROUP: output.Columns[FailureGroup] = {
    "fingerprint": lambda group: group.fingerprint,
    "jobs": lambda group: group.jobs,
    "batches": lambda group: group.batches or None,
    "new": lambda group: Phrase("first seen") if group.new else None,
    "step": lambda group: group.step,
    "provider": lambda group: group.provider,
    "last": lambda group: group.last_at,
    "error": lambda group: group.example or group.reason,
}
_HIT: output.Columns[Hit] = {
    "kind": lambda hit: hit.kind,
    "id": lambda hit: hit.id,
    "by": lambda hit: hit.by,
    "state": lambda hit: hit.state,
    "pipeline": lambda hit: hit.pipeline,
    "name": lambda hit: hit.title,
}


@click.group()
def operation() -> None:
    """Actions on many jobs of any batch: decided at once, carried out in pieces, by any process."""


@operation.command()
@click.argument("action", type=click.Choice(_ACTIONS))
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only jobs in this state.")
@click.option("--pipeline", metavar="NAME", help="Only jobs of this pipeline.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--batch", "batch_id", type=click.IntRange(1), metavar="ID", help="Only jobs of this batch.")
@click.option("--fingerprint", metavar="TEXT", help="Only jobs of this group of errors (retoma errors).")
@click.option("--key-prefix", metavar="TEXT", help="Only jobs whose key begins with this.")
@click.option("--created-after", type=click.DateTime(), metavar="TIME", help="Only jobs made then or later, in UTC.")
@click.option("--created-before", type=click.DateTime(), metavar="TIME", help="Only jobs made before then, in UTC.")
@click.option("--id", "ids", multiple=True, type=click.IntRange(1), metavar="ID", help="Only this job; say it again.")
@click.option("--to", "to_queue", metavar="QUEUE", help="Where 'move' puts the jobs.")
@click.option("--value", "priority", type=click.IntRange(-1000, 1000), metavar="N", help="What 'priority' gives them.")
@click.option("--attempts", type=click.IntRange(1), metavar="N", help="Allow this many more attempts.")
@click.option("--reason", metavar="TEXT", help="Why 'cancel' stops them, or 'discard' settles them.")
@click.option("--dry-run", is_flag=True, help="Say only what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.as_json
def run(action: str, *, as_json: bool, **said: Any) -> None:
    """Do something to every job that the options find. It first says how many, and asks."""
    which, how = _filter(said), _how(said)
    found = context.ask(lambda app: app.jobs.dry_run(action, which, **how))
    if said["dry_run"]:
        output.print_json(found) if as_json else _tell(found)
        return
    if not said["yes"]:
        _tell(found)
        if not output.agreed("{action} {jobs} jobs?", action=action, jobs=found.jobs):
            raise click.Abort
    done = context.ask(lambda app: _carried(app, action, which, how))
    if as_json:
        output.print_json(done)
    else:
        output.say(f"{done.id}\t{done.done}")
        output.talk("{done} jobs were changed, {passed} passed over.", done=done.done, passed=done.passed)


async def _carried(app: Retoma, action: str, which: JobFilter, how: dict[str, Any]) -> Operation:
    begun: Operation = await acting.change(
        app,
        "operation",
        None,
        lambda conn: app.jobs.operate(action, which, by=acting.person(), conn=conn, **how),
        made=lambda operation: operation.id,
        noted={"kind": action, "filter": which.text, **how},
    )
    async for _ in app.batches.carry_out(begun.id):
        pass
    return await app.jobs.operation(begun.id)


def _filter(said: dict[str, Any]) -> JobFilter:
    from datetime import UTC

    from retoma.model.operation import JobFilter

    def aware(moment: datetime | None) -> datetime | None:
        return moment and moment.replace(tzinfo=UTC)

    return JobFilter(
        states=said["states"],
        pipeline=said["pipeline"],
        queue=said["queue"],
        batch_id=said["batch_id"],
        fingerprint=said["fingerprint"],
        key_prefix=said["key_prefix"],
        created_after=aware(said["created_after"]),
        created_before=aware(said["created_before"]),
        ids=said["ids"],
    )


def _how(said: dict[str, Any]) -> dict[str, Any]:
    given = {name: said[name] for name in ("priority", "attempts", "reason")} | {"queue": said["to_queue"]}
    return {name: value for name, value in given.items() if value is not None}


def _tell(found: DryRun) -> None:
    output.table(found.sample, _SAMPLED, nothing="There is no such job.")
    if found.exact:
        output.talk("{jobs} jobs in {batches} batches.", jobs=found.jobs, batches=found.batches)
    else:
        output.talk("At least {jobs} jobs.", jobs=found.jobs)
    for why, jobs in found.skipped.items():
        output.talk("{jobs} would be passed over: {why}.", jobs=jobs, why=_WHY.get(why, why))


@operation.command()
@click.option("--under-way", is_flag=True, help="Only those that are not over.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="At most.")
@output.as_json
def list(*, under_way: bool, limit: int, as_json: bool) -> None:
    """List operations, the newest first, and how far each has come."""
    found = context.ask(lambda app: app.jobs.operations(under_way=under_way, limit=limit))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _OPERATION, nothing="There is no operation.")


@operation.command()
@click.argument("id", type=int)
@output.as_json
def show(id: int, *, as_json: bool) -> None:
    """Show one operation, and how far it has come."""
    found = context.ask(lambda app: app.jobs.operation(id))
    if as_json:
        output.print_json(found)
    else:
        output.fields({name: read(found) for name, read in _OPERATION.items()})


@operation.command()
@click.argument("id", type=int)
def cancel(id: int) -> None:
    """End an operation. What it has done stays done."""
    now = context.ask(
        lambda app: acting.change(app, "operation", id, lambda conn: app.jobs.cancel_operation(id, conn=conn))
    )
    output.talk("Operation {id} is over; {done} jobs were changed.", id=id, done=now.done)


@click.command()
@click.option("--hours", type=click.IntRange(1, 8760), default=24, show_default=True, metavar="N", help="How far back.")
@click.option("--pipeline", metavar="NAME", help="Only jobs of this pipeline.")
@output.as_json
def errors(*, hours: int, pipeline: str | None, as_json: bool) -> None:
    """What failed lately in any batch, in groups of equal errors. Act on one with 'operation run --fingerprint'."""
    found = context.ask(
        lambda app: acting.shown(app, "error", None, app.jobs.errors(hours=float(hours), pipeline=pipeline))
    )
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _GROUP, nothing="Nothing has failed.", below="error")


@click.command()
@click.argument("text")
@output.as_json
def search(text: str, *, as_json: bool) -> None:
    """Find jobs and batches by id, and jobs by key, file name or correlation id."""
    if not text.strip():
        raise click.UsageError(words("What is looked for?"))
    found = context.ask(lambda app: app.jobs.search(text))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _HIT, nothing="Nothing has this id, key, file name or correlation id.")
