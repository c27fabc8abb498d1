"""retoma job: look at jobs and act on them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, context, params
from retoma.cli import output as show
from retoma.cli.language import relayed, words
from retoma.model.ids import JobId

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.job import Attempt, Checkpoint, Job, Redone

_STATES = ("queued", "running", "completed", "skipped", "failed", "review", "cancelled")
_state = click.option("--state", type=click.Choice(_STATES), help="Only jobs in this state.")
_pipeline = click.option("--pipeline", metavar="NAME", help="Only jobs of this pipeline.")
_LETTERS = "Only failed jobs that nobody has discarded."
_ids = click.argument("ids", type=int, nargs=-1, metavar="ID...")


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


_JOB: show.Columns[Job] = {
    "id": lambda job: job.id,
    "state": lambda job: job.state,
    "reason": lambda job: job.reason,
    "pipeline": lambda job: job.pipeline,
    "key": lambda job: job.key,
    "attempt": lambda job: f"{job.attempt}/{job.max_attempts}",
    "worker": lambda job: job.worker,
    "error": lambda job: _first_line(job.error),
    "created": lambda job: job.created_at,
    "finished": lambda job: job.finished_at,
}
_ATTEMPT: show.Columns[Attempt] = {
    "attempt": lambda attempt: attempt.attempt,
    "ending": lambda attempt: attempt.ending,
    "reason": lambda attempt: attempt.reason,
    "step": lambda attempt: attempt.step,
    "worker": lambda attempt: attempt.worker,
    "claimed": lambda attempt: attempt.claimed_at,
    "seconds": lambda attempt: _short(attempt.seconds),
    "error": lambda attempt: _first_line(attempt.error),
}
_CHECKPOINT: show.Columns[Checkpoint] = {
    "step": lambda checkpoint: checkpoint.step,
    "generation": lambda checkpoint: checkpoint.generation,
    "saved": lambda checkpoint: checkpoint.saved_at,
    "seconds": lambda checkpoint: _short(checkpoint.seconds),
    "set aside": lambda checkpoint: checkpoint.reason if checkpoint.set_aside_at else None,
    "value": lambda checkpoint: checkpoint.value,
}


_REDONE: show.Columns[Redone] = {
    "step": lambda step: step.step,
    "seconds": lambda step: _short(step.seconds),
    "calls": lambda step: step.calls,
    "cost": lambda step: step.cost,
}


def _short(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.3f}"


@click.group()
def job() -> None:
    """Jobs: look at them, and act on them. The dead letters are 'job list --dead-letters'."""


@job.command()
@_state
@_pipeline
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--key", help="Only jobs with this key.")
@click.option("--batch", "batch_id", type=int, metavar="ID", help="Only jobs of this batch.")
@click.option("--dead-letters", "discarded", flag_value=False, type=bool, default=None, help=_LETTERS)
@click.option("--discarded", "discarded", flag_value=True, type=bool, help="Only failures that somebody has discarded.")
@click.option("--before", type=int, metavar="ID", help="Only jobs older than this one: the next page.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N", help="At most.")
@show.as_json
def list(*, as_json: bool, **wanted: Any) -> None:
    """List jobs, the newest first."""
    found = context.ask(lambda app: acting.shown(app, "job", None, app.jobs.find(**wanted, content=as_json)))
    if as_json:
        show.print_json(found)
        return
    show.table(found, _JOB, nothing="There is no such job.")
    if show.in_terminal() and len(found) == wanted["limit"]:
        show.talk("There may be more: --before {id}", id=found[-1].id)


@job.command(name="show")
@click.argument("id", type=int)
@show.as_json
def show_one(id: JobId, *, as_json: bool) -> None:
    """Show one job. Where it stands, how each attempt ended, what its steps saved."""

    async def look(app: Retoma) -> tuple[Job, Sequence[Attempt], Sequence[Checkpoint]]:
        return await app.jobs.get(id), await app.jobs.attempts(id), await app.jobs.checkpoints(id)

    found, attempts, checkpoints = context.ask(lambda app: acting.shown(app, "job", id, look(app)))
    if as_json:
        show.print_json({**show.plain(found), "attempts": attempts, "checkpoints": checkpoints})
        return
    known = {name: value for name, value in vars_of(found).items() if value is not None and name != "error"}
    show.fields(known)
    show.title("attempts")
    show.table(attempts, _ATTEMPT, nothing="none has ended yet", below="error")
    show.title("checkpoints")
    show.table(checkpoints, _CHECKPOINT, nothing="none yet")
    if found.error:
        show.title("error")
        show.say(found.error)


def vars_of(found: Job) -> dict[str, Any]:
    """The fields of a job, in their order."""
    return {name: getattr(found, name) for name in found.__slots__}


@job.command()
@_ids
@click.option("--all-failed", is_flag=True, help="Every failed job.")
@_pipeline
@click.option("--attempts", type=click.IntRange(min=1), metavar="N", help="Allow this many more attempts.")
def retry(ids: tuple[JobId, ...], pipeline: str | None, attempts: int | None, *, all_failed: bool) -> None:
    """Try failed, cancelled or reviewed jobs again. Steps that are done are not done again."""
    if bool(ids) == all_failed or (pipeline and not all_failed):
        raise click.UsageError(words("Name jobs by their ids, or say --all-failed (and perhaps --pipeline), not both."))

    if all_failed:
        said = {"all_failed": True, "pipeline": pipeline, "attempts": attempts}
        again = context.ask(
            lambda app: acting.beside(
                app, "job", None, app.jobs.retry_all_failed(pipeline=pipeline, attempts=attempts), noted=said
            )
        )
        show.say("".join(f"{each}\tqueued\n" for each in again), nl=False)
        if not again:
            show.talk("No such job has failed.")
    else:
        _leave(
            context.ask(
                lambda app: _each(app, ids, lambda one, conn: app.jobs.retry(one, attempts=attempts, conn=conn))
            )
        )


@job.command()
@_ids
def cancel(ids: tuple[JobId, ...]) -> None:
    """Stop jobs. At once when they wait, with the next heartbeat when they run."""
    if not ids:
        raise click.UsageError(words("Which jobs?"))
    _leave(context.ask(lambda app: _each(app, ids, lambda one, conn: app.jobs.cancel(one, conn=conn))))


@job.command()
@_ids
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder later.")
def discard(ids: tuple[JobId, ...], reason: str | None) -> None:
    """Settle failed jobs as not to be retried. They leave the dead letters and keep their history; 'reinstate' undoes
    it. Many at once: 'retoma operation run discard'.
    """
    if not ids:
        raise click.UsageError(words("Which jobs?"))
    by = acting.person()
    _leave(
        context.ask(
            lambda app: _each(app, ids, lambda one, conn: app.jobs.discard(one, by=by, reason=reason, conn=conn))
        )
    )


@job.command()
@_ids
def reinstate(ids: tuple[JobId, ...]) -> None:
    """Undo a discard. The jobs are dead letters again, and can be retried."""
    if not ids:
        raise click.UsageError(words("Which jobs?"))
    _leave(context.ask(lambda app: _each(app, ids, lambda one, conn: app.jobs.reinstate(one, conn=conn))))


@job.command()
@click.argument("id", type=int)
@click.option("--from", "step", metavar="STEP", help="From this step on; what was saved before it stays.")
@click.option("--dry-run", is_flag=True, help="Say only what would be done again.")
def restart(id: JobId, step: str | None, *, dry_run: bool) -> None:
    """Run an ended job anew from its first step, or from one of them. Checkpoints are set aside and paid again."""
    if not dry_run:
        _leave(context.ask(lambda app: _each(app, [id], lambda one, conn: app.jobs.restart(one, step=step, conn=conn))))
        return
    plan = context.ask(lambda app: app.jobs.restart_plan(id, step=step))
    show.table(plan.steps, _REDONE, nothing="It has saved no step.")
    show.talk("{steps} steps and {calls} calls would be done again.", steps=len(plan.steps), calls=plan.calls)


@job.command()
@click.argument("id", type=int)
@click.argument("name")
@click.argument("value", type=params.json_value, metavar="[JSON]", required=False)
def signal(id: JobId, name: str, value: Any) -> None:
    """Tell a job something it waits for (run.wait_for). Under each NAME it hears one thing, the first."""
    if context.ask(
        lambda app: acting.change(
            app, "job", id, lambda conn: app.jobs.signal(id, name, value, conn=conn), noted={"signal": name}
        )
    ):
        show.talk("Job {id} was told {name!r}.", id=id, name=name)
    else:
        show.talk("Job {id} had been told {name!r} before; what was said first counts.", id=id, name=name)


@job.command()
@_state
@_pipeline
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; .csv makes it CSV.")
def export(state: str | None, pipeline: str | None, output: Path | None) -> None:
    """Write jobs to a file, or print them. Oldest first; as JSON lines, or as CSV when the file ends in .csv."""
    from retoma.cli.export import write

    found = context.ask(lambda app: acting.shown(app, "job", None, _every(app, state=state, pipeline=pipeline)))
    write(found[::-1], output)
    if output:
        show.talk("{number} jobs were written to {output}.", number=len(found), output=output)


async def _every(app: Retoma, **wanted: Any) -> Sequence[Job]:
    """All such jobs, newest first, page by page."""
    found: Sequence[Job] = ()
    pages = []
    while found := await app.jobs.find(**wanted, before=found[-1].id if found else None, limit=1000):
        pages.append(found)
    return [each for page in pages for each in page]


async def _each(app: Retoma, ids: Sequence[JobId], act: Callable[[JobId, object], Any]) -> int:
    """Do it to every job, whatever becomes of the others; the exit code of the first that would not."""
    from retoma.errors import RetomaError

    code = 0
    for id in ids:
        try:
            now = await acting.change(app, "job", id, functools.partial(act, id))
        except RetomaError as error:
            show.relay(error.message)
            if error.next:
                show.advise(relayed(error.next))
            code = code or error.exit_code
        else:
            show.say(f"{id}\t{now.state}")
    return code


def _leave(code: int) -> None:
    click.get_current_context().exit(code)
