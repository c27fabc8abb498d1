"""retoma batch: many jobs followed as one. What can be looked at; batch_act has what can be done."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, batch_act, batch_view, context
from retoma.cli import output as show
from retoma.cli.batch_new import new
from retoma.cli.batch_pilot import pilot
from retoma.cli.batch_replan import cohorts, replan
from retoma.cli.batch_watch import watch
from retoma.cli.language import Phrase, joined
from retoma.model.ids import BatchId

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.batch import Batch, Durations, ErrorGroup, Event, Operation, Progress, StepFigures
    from retoma.model.evidence import Explanation
    from retoma.model.job import Job

_STATES = ("queued", "running", "paused", "stalled", "completed", "failed", "cancelled")
_PAGE = 500
_LONG = 80
_id = click.argument("id", type=int)


def _seconds(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return batch_view.span(seconds) if show.in_terminal() else f"{seconds:.3f}"


def _example(group: ErrorGroup) -> str | None:
    # Its reason stands beside it, and a person's line is short.
    return (group.example or "").removeprefix(f"{group.reason}: ") if show.in_terminal() else group.example


def _more(events: Sequence[Event]) -> str:
    last = events[-1]
    if not show.in_terminal():
        return json.dumps(last.data, ensure_ascii=False)
    if last.kind == "jobs":
        moved = Counter(state for event in events for _job, state in event.data["jobs"])
        return joined(Phrase("{number} {state}", number=number, state=Phrase(state)) for state, number in moved.items())
    return ", ".join(f"{name}: {value}" for name, value in last.data.items() if not isinstance(value, dict) and value)


_STEP: show.Columns[StepFigures] = {
    "step": lambda step: step.step,
    "done": lambda step: step.done,
    "jobs": lambda step: step.jobs,
    "here now": lambda step: step.here,
    "median": lambda step: _seconds(step.median_seconds),
    "95 of 100": lambda step: _seconds(step.slow_seconds),
}
_ERROR: show.Columns[ErrorGroup] = {
    "group": lambda group: group.fingerprint,
    "jobs": lambda group: group.jobs,
    "reason": lambda group: group.reason,
    "example": _example,
    "first keys": lambda group: group.first_keys[: 2 if show.in_terminal() else None],
    "last": lambda group: group.last_at,
}
_OPERATION: show.Columns[Operation] = {
    "operation": lambda operation: operation.kind,
    "jobs": lambda operation: f"{operation.done}/{operation.wanted}",
    "by": lambda operation: operation.asked_by,
    "began": lambda operation: operation.started_at,
    "finished": lambda operation: operation.finished_at,
    "ended by": lambda operation: operation.error,
}
_EVENTS: show.Columns[Sequence[Event]] = {
    "seq": lambda events: f"{events[0].seq}–{events[-1].seq}" if len(events) > 1 else events[0].seq,
    "at": lambda events: events[-1].at,
    "what": lambda events: events[-1].kind,
    "more": _more,
}


@click.group()
def batch() -> None:
    """Batches: many jobs followed as one. How far they have come, why they do not move, and what to do."""


for _command in (watch, new, pilot, replan, cohorts, *batch_act.COMMANDS):
    batch.add_command(_command)


@batch.command()
@click.option(
    "--state", "states", type=click.Choice(_STATES), multiple=True, help="Only in this state; may be repeated."
)
@click.option("--pipeline", metavar="NAME", help="Only of this pipeline.")
@click.option("--name", help="Only with this name.")
@click.option(
    "--label",
    "labels",
    type=batch_act.label,
    multiple=True,
    metavar="K=V",
    help="Only with this label; may be repeated.",
)
@click.option("--before", type=int, metavar="ID", help="Only batches older than this one: the next page.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N", help="At most.")
@show.as_json
def list(labels: tuple[tuple[str, str], ...], states: tuple[str, ...], *, as_json: bool, **wanted: Any) -> None:
    """List batches, the newest first."""
    found = context.ask(
        lambda app: _some(app, as_json=as_json, states=states or None, labels=dict(labels) or None, **wanted)
    )
    _print(found, Phrase("There is no such batch."), as_json=as_json)
    if show.in_terminal() and len(found) == wanted["limit"]:
        show.talk("There may be more: --before {id}", id=found[-1].id)


@click.command()
@show.as_json
def travadas(*, as_json: bool) -> None:
    """List the batches that have stalled. The same as 'retoma batch list --state stalled'."""
    found = context.ask(lambda app: _some(app, as_json=as_json, states=["stalled"], limit=10_000))
    _print(found, Phrase("No batch has stalled."), as_json=as_json)


async def _some(app: Retoma, *, as_json: bool, **wanted: Any) -> Sequence[Batch]:
    found = await app.batches.find(**wanted)
    if as_json:  # with their configurations, and the words of what keeps them
        await acting.look(app, "batch")
    return found


def _print(found: Sequence[Batch], nothing: str, *, as_json: bool) -> None:
    if as_json:
        show.print_json(show.plain(found))
    else:
        columns = batch_view.BATCH_IN_SHORT if show.in_terminal() else batch_view.BATCH
        show.table(found, columns, nothing=nothing)


# — one batch —


@batch.command(name="show")
@_id
@show.as_json
def show_one(id: BatchId, *, as_json: bool) -> None:
    """Show one batch. How far it has come, step by step, what failed, and why it moves or does not."""

    async def look(app: Retoma) -> tuple[Any, ...]:
        progress, why = await app.batches.progress(id), await app.batches.explain(id)
        return (
            await app.batches.get(id),
            progress,
            await app.batches.steps(id),
            await app.batches.durations(id),
            await app.batches.errors(id),
            await app.batches.operations(id),
            why,
        )

    found, progress, steps, durations, errors, operations, why = context.ask(
        lambda app: acting.shown(app, "batch", id, look(app))
    )
    if as_json:
        more = {
            "steps": steps,
            "durations": durations,
            "errors": errors,
            "operations": operations,
            "explanation": why,
        }
        show.print_json({**show.plain(found), "progress": batch_view.figures(progress), **show.plain(more)})
        return
    _head(found, progress, durations)
    show.title("steps")
    show.table(steps, _STEP, nothing="none was saved yet")
    show.title("errors")
    show.table(errors, _ERROR, nothing="none", below="example")
    if operations:
        show.title("operations")
        show.table(operations, _OPERATION, nothing="")
    show.title("why")
    _because(why)


def _head(found: Batch, progress: Progress, durations: Durations) -> None:
    if show.in_terminal():
        console = show.screen()
        console.print(batch_view.bar(progress, width=console.width - 1))
    pace, rest = progress.rate, batch_view.eta(progress.eta)
    seconds = batch_view.span if show.in_terminal() else "{:.3f}".format
    known = {
        "id": found.id,
        "name": found.name,
        "state": found.state,
        "reason": found.reason,
        "done": Phrase(
            "{done}/{total} ({percent:.4g}%)", done=progress.done, total=progress.total, percent=progress.percent
        ),
        **{name: number for name, number in batch_view.counts(progress).items() if number},
        "rate": Phrase("{pace:.3g} jobs/s", pace=pace) if pace else None,
        "left": rest.removeprefix("≈ ") or None,
        "last step": batch_view.last_step(progress.finish) if progress.finish else None,
        "last key": progress.last_key,
        "last progress": progress.last_progress_at,
        "a job takes": _usual(durations),
        "worked": seconds(progress.busy_seconds),
        "spent": batch_view.spent(progress) or None,
        "resumes": Phrase("{resumes} of {most}", resumes=progress.resumes, most=progress.max_resumes),
        "stalls after": seconds(progress.stall_seconds),
        "stops above": _most_failures(found),
        "pipeline": found.pipeline,
        "queue": found.queue if found.queue != found.pipeline else None,
        "route": found.route,
        "labels": _pairs(found.labels) or None,
        "configuration": _configuration(found.configuration or {}) or None,
        "correlation": found.correlation_id,
        "created": found.created_at,
        "sealed": found.sealed_at,
        "started": found.started_at,
        "stalled": found.stalled_at,
        "finished": found.finished_at,
    }
    show.fields({name: value for name, value in known.items() if value is not None})


def _configuration(values: Mapping[str, Any]) -> str:
    """As JSON. A terminal shows the beginning of a long value only: a prompt would fill the screen."""
    if not values:
        return ""
    told = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    if show.in_terminal():
        told = {name: text if len(text) <= _LONG else f"{text[:_LONG]}…" for name, text in told.items()}
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in told.items()) + "}"


def _most_failures(found: Batch) -> Phrase | None:
    rate = found.max_failure_rate
    return None if rate is None else Phrase("{part:.3g}% failed", part=100 * rate)


def _usual(durations: Durations) -> str | None:
    """How long a job takes."""
    known = {
        Phrase("median"): durations.median,
        Phrase("95 of 100 within"): durations.slow,
        Phrase("at most"): durations.slowest,
    }
    span = batch_view.span if show.in_terminal() else "{:.3f}".format
    return (
        joined(Phrase("{what} {span}", what=name, span=span(took)) for name, took in known.items() if took is not None)
        or None
    )


def _pairs(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _because(why: Explanation) -> None:
    if not show.in_terminal():
        show.fields(
            {
                "verdict": why.verdict,
                "sentence": why.sentence,
                "advice": why.advice,
                "action": why.action,
                "command": why.command,
            }
        )
        return
    sentence, *rest = batch_view.why(why)
    show.say(sentence, fg="yellow" if why.needs_help else None)
    for line in rest:
        show.say(line)


@batch.command()
@_id
@show.as_json
def explain(id: BatchId, *, as_json: bool) -> None:
    """Say why a batch moves, or does not. The verdict, what it rests on, and what to do."""
    found = context.ask(lambda app: acting.shown(app, "batch", id, app.batches.explain(id)))
    if as_json:
        show.print_json(show.plain(found))
        return
    _because(found)
    show.title("evidence")
    show.fields(found.evidence, as_stored=True)


@batch.command()
@_id
@show.as_json
def errors(id: BatchId, *, as_json: bool) -> None:
    """What failed in a batch, by what is the same in the errors."""
    found = context.ask(lambda app: acting.shown(app, "batch", id, app.batches.errors(id)))
    if as_json:
        show.print_json(show.plain(found))
        return
    show.table(found, _ERROR, nothing="Nothing has failed.", below="example")
    if show.in_terminal() and found:
        show.say("", err=True)
        show.talk(
            "To try one group again: retoma batch retry-failed {id} --group {fingerprint}",
            id=id,
            fingerprint=found[0].fingerprint,
        )


@batch.command()
@_id
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="N", help="Only what happened after event N.")
@click.option("--jsonl", is_flag=True, help="Print one JSON document per line.")
@show.as_json
def events(id: BatchId, after: int, *, jsonl: bool, as_json: bool) -> None:
    """What happened to a batch, in order. The number of the last line is the --after of the next time."""
    whole = as_json or (show.in_terminal() and not jsonl)
    found: MutableSequence[Event] = []

    async def read(app: Retoma) -> None:
        cursor = after
        await acting.shown(app, "batch", id, app.batches.get(id))
        while page := await app.batches.events(id, after=cursor, limit=_PAGE):
            cursor = page[-1].seq
            if whole:
                found.extend(page)
            elif jsonl:
                show.say("\n".join(map(show.json_of, page)))
            else:
                show.table([[event] for event in page], _EVENTS, nothing="")

    context.ask(read)
    if as_json:
        show.print_json(found)
    elif whole:
        # Thousands of jobs that end one by one are one line, until something else happens.
        runs = groupby(found, key=lambda event: "jobs" if event.kind == "jobs" else event.seq)
        show.table([[*run] for _key, run in runs], _EVENTS, nothing="Nothing has happened since.")


@batch.command()
@_id
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; .csv makes it CSV.")
@click.option("--format", type=click.Choice(["jsonl", "csv"]), help="JSON lines or CSV, whatever the file is called.")
def export(id: BatchId, output: Path | None, format: str | None) -> None:
    """Write every job of a batch to a file, or print them. The newest first, page by page, as they stand."""
    from retoma.app.retoma import Retoma
    from retoma.cli.export import write

    written = 0

    def jobs(runner: asyncio.Runner, app: Retoma) -> Iterator[Job]:
        nonlocal written
        before = None
        while page := runner.run(app.jobs.find(batch_id=id, before=before, limit=_PAGE)):
            yield from page
            written, before = written + len(page), page[-1].id

    with asyncio.Runner() as runner:
        app = runner.run(Retoma(settings=context.settings()).open())
        try:
            runner.run(acting.shown(app, "batch", id, app.batches.get(id)))
            write(jobs(runner, app), output, format=format)
        finally:
            runner.run(app.close())
    if output:
        show.talk("{written} jobs were written to {output}.", written=written, output=output)
