"""retoma batch: what can be done with one. Each says what it did, and prints the batch's id and state."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, batch_view, context, output, params
from retoma.cli.language import Phrase, relayed, spoken, words
from retoma.model.ids import BatchId

if TYPE_CHECKING:
    from decimal import Decimal

    from retoma.app.retoma import Retoma
    from retoma.model.batch import Batch, Plan, Resumed

_id = click.argument("id", type=int)
_TELL_SECONDS = 1.0


def label(text: str) -> tuple[str, str]:
    """A label, as it is written: name=value."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(words("{text!r} is not a label; write name=value.", text=text))
    return name, value


def configuration(file: Path) -> dict[str, Any]:
    """What stands in the JSON file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.BadParameter(words("{file} cannot be read as JSON: {error}.", file=file, error=error)) from None
    if not isinstance(found, dict):
        raise click.BadParameter(
            words('{file} holds no JSON object; a configuration is one: {{"model": …}}.', file=file)
        )
    return found


_configuration = click.option(
    "--configuration",
    type=lambda text: configuration(Path(text)),
    metavar="FILE",
    help="Another configuration: a file with a JSON object.",
)
_reason = click.option("--reason", default="person", show_default=True, help="Why, for those who wonder later.")


def _done(batch: Batch) -> None:
    output.say(f"{batch.id}\t{batch.state}")


def _called(batch: Batch) -> Phrase:
    return Phrase("Batch {id} ({name})", id=batch.id, name=batch.name)


async def _carried_out(app: Retoma, operation: int | None) -> int | None:
    """How many jobs an operation has changed, once it is over; said on the way, as long as it takes."""
    if operation is None:
        return None
    done, told = 0, time.monotonic()
    async for now in app.batches.carry_out(operation):
        done = now.done
        if time.monotonic() > told + _TELL_SECONDS or now.finished:
            output.talk("{kind}: {done:,} of {wanted:,} jobs", kind=Phrase(now.kind), done=now.done, wanted=now.wanted)
            told = time.monotonic()
    return done


async def resumed_all(app: Retoma, did: Resumed) -> Resumed:
    """What was done to a batch, once the operation that it left behind is over."""
    from dataclasses import replace

    done = await _carried_out(app, did.batch.operation_id) if did.changed else None
    return did if done is None else replace(did, batch=await app.batches.get(did.batch.id), jobs=done, changed=done > 0)


# — going on —


@click.command()
@_id
@click.option("--max-resumes", type=click.IntRange(min=0), metavar="N", help="Allow this many resumes in all.")
def resume(id: BatchId, max_resumes: int | None) -> None:
    """Continue a batch from where it stopped. What is done is not done again; safe to ask many times."""
    by = acting.person()
    did = context.ask(
        lambda app: acting.change(
            app, "batch", id, lambda conn: app.batches.resume(id, max_resumes=max_resumes, by=by, conn=conn)
        )
    )
    for line in _resumed(did):
        output.talk(line)
    _done(did.batch)


def _resumed(did: Resumed) -> Iterator[Phrase]:
    batch, called = did.batch, _called(did.batch)
    match did.word:
        case "already_running":
            yield Phrase("{batch} is already {state}; nothing was changed.", batch=called, state=batch.state)
        case "already_finished":
            yield Phrase("{batch} is completed: nothing is left to do.", batch=called)
            if batch.failures:
                yield Phrase(
                    "{failures} jobs failed; 'retoma batch retry-failed {id}' tries them again.",
                    failures=batch.failures,
                    id=batch.id,
                )
        case "no_workers":
            yield Phrase(
                "{batch} goes on as soon as a worker serves queue {queue}; now none does, and no resume was used.",
                batch=called,
                queue=batch.queue,
            )
            yield Phrase("Try: {next}", next=f"retoma worker --queues {batch.queue}")
        case _:
            times = Phrase(" (resume {resumes} of {most})", resumes=batch.resumes, most=batch.max_resumes)
            yield Phrase(
                "{batch} goes on{times}: {left} jobs are left, {done} are done and stay so{taken}.",
                batch=called,
                times=times if batch.resumes else "",
                left=batch.unfinished,
                done=(batch.total or 0) - batch.unfinished,
                taken=Phrase("; {jobs} that hung were taken back", jobs=did.jobs) if did.jobs else "",
            )
            yield _follow(batch.id)


def _follow(id: BatchId) -> Phrase:
    return Phrase("To follow it: retoma batch watch {id}", id=id)


@click.command(name="retry-failed")
@_id
@click.option("--group", metavar="FINGERPRINT", help="Only this group of errors; 'retoma batch errors' names them.")
@click.option("--cancelled", is_flag=True, help="Also what was cancelled.")
@click.option("--attempts", type=click.IntRange(min=1), metavar="N", help="Allow each this many more attempts.")
def retry_failed(id: BatchId, group: str | None, attempts: int | None, *, cancelled: bool) -> None:
    """Try only the failed jobs of a batch again. Steps that are done are not done again."""

    async def ask(app: Retoma) -> Resumed:
        how: dict[str, Any] = {"fingerprint": group, "cancelled": cancelled, "attempts": attempts}
        by = acting.person()
        did = await acting.change(
            app, "batch", id, lambda conn: app.batches.retry_failed(id, **how, by=by, wait=False, conn=conn), noted=how
        )
        return await resumed_all(app, did)

    did = context.ask(ask)
    if did.word == "already_retrying":
        output.talk(
            "{batch} is already being tried again: 'retoma batch show {id}' says how far that is.",
            batch=_called(did.batch),
            id=id,
        )
    elif did.changed:
        output.talk(
            "{batch}: 1 job is tried again." if did.jobs == 1 else "{batch}: {jobs} jobs are tried again.",
            batch=_called(did.batch),
            jobs=did.jobs,
        )
        output.talk(_follow(id))
    else:
        output.talk("{batch} has no such failed job; nothing was changed.", batch=_called(did.batch))
    _done(did.batch)


# — stopping —


@click.command()
@_id
@_reason
def pause(id: BatchId, reason: str) -> None:
    """Pause a batch. Nobody takes its jobs, and those that run go back after the step at hand."""
    by = acting.person()
    found = context.ask(
        lambda app: acting.change(app, "batch", id, lambda conn: app.batches.pause(id, reason=reason, by=by, conn=conn))
    )
    output.talk("{batch} rests; 'retoma batch resume {id}' lets it go on.", batch=_called(found), id=id)
    _done(found)


@click.command()
@_id
@_reason
def cancel(id: BatchId, reason: str) -> None:
    """Stop a batch. What waits ends now, what runs within a heartbeat; what is done stays done."""

    async def ask(app: Retoma) -> Batch:
        by = acting.person()
        found = await acting.change(
            app, "batch", id, lambda conn: app.batches.cancel(id, reason=reason, by=by, wait=False, conn=conn)
        )
        await _carried_out(app, found.operation_id)
        return await app.batches.get(id)

    found = context.ask(ask)
    output.talk(
        "{batch} is cancelled; 'retoma batch retry-failed {id} --cancelled' would take it up again.",
        batch=_called(found),
        id=id,
    )
    _done(found)


# — beginning anew —


@click.command()
@_id
@_configuration
@output.as_json
def plan(id: BatchId, configuration: dict[str, Any] | None, *, as_json: bool) -> None:
    """Say what a resume would do. What it skips, continues and begins, and what that saves; nothing is changed.

    With another configuration: what a restart under it would do again.
    """
    found = context.ask(lambda app: app.batches.plan(id, configuration=configuration))
    if as_json:
        output.print_json(output.plain(found))
    elif output.in_terminal():
        _draw_plan(found)
    else:
        names = [name for name in found.__slots__ if name != "batch"]
        output.fields({"id": id, "state": found.batch.state, **{name: getattr(found, name) for name in names}})


def _last_step(what: str | None, pipeline: str) -> Phrase | None:
    """What becomes of the last step of the batch."""
    match what:
        case "runs":
            return Phrase("Then its last step, {pipeline}, runs.", pipeline=pipeline)
        case "continues":
            return Phrase("Its last step, {pipeline}, continues behind its last checkpoint.", pipeline=pipeline)
        case "again":
            return Phrase(
                "Then its last step, {pipeline}, runs again from its beginning; what it cost is paid again.",
                pipeline=pipeline,
            )
    return None


def _draw_plan(found: Plan) -> None:
    batch = found.batch
    left = found.continues + found.begins + found.reruns
    if found.can or found.reruns:
        would = Phrase(
            "A restart of batch {id} ({name}) would" if found.reruns else "A resume of batch {id} ({name}) would",
            id=batch.id,
            name=batch.name,
        )
        output.say(would, bold=True)
    else:
        why = relayed(found.why_not or "")
        output.say(
            Phrase("{batch} cannot be resumed now: {why}. As it is, that would", batch=_called(batch), why=why),
            bold=True,
        )
    kept = Phrase("behind their last checkpoint; {steps} steps are kept", steps=found.steps_kept)
    failed = Phrase("that failed; 'retoma batch retry-failed {id}' tries them again", id=batch.id)
    lines = (
        (Phrase("run again"), found.reruns, Phrase("that are done, because the configuration is another"), "yellow"),
        (Phrase("skip"), found.skips, Phrase("that are done"), "green"),
        (Phrase("continue"), found.continues, kept, "cyan"),
        (Phrase("begin"), found.begins, Phrase("that have nothing to go on from"), None),
        (Phrase("run alone"), found.suspects, Phrase("of these, which were there when an executor died"), "yellow"),
        (Phrase("leave"), found.leaves_failed, failed, "red"),
        (Phrase("leave"), found.quarantined, Phrase("in quarantine: they brought executors down"), "red"),
    )
    for verb, number, which, colour in lines:
        if number:
            output.say(f"  {spoken(verb):<10}", (f"{number:>8}", {"fg": colour, "bold": True}), f"  {spoken(which)}")
    if batch.finish is not None and (last := _last_step(found.finish, batch.finish.pipeline)) is not None:
        output.say(last)
    if left:
        _draw_saving(found)


def _draw_saving(found: Plan) -> None:
    """What a resume saves, and what it needs."""
    batch = found.batch
    saved = _time_and_money(found.seconds_saved, found.money_saved, batch.unpriced)
    output.say(Phrase("It saves {saved}.", saved=saved) if found.seconds_saved else Phrase("It saves nothing."))
    if found.seconds_needed is None:
        output.say(Phrase("What it needs nobody knows: no job has ended well yet."))
        return
    cost = Phrase(", and {cost}", cost=batch_view.money(found.money_needed)) if found.money_needed else ""
    if batch.unpriced:
        cost = Phrase(", at a cost that nobody knows: calls of it have no price")
    needed = batch_view.span(found.seconds_needed)
    output.say(Phrase("It needs about {needed} of work, one job at a time{cost}.", needed=needed, cost=cost))


def _time_and_money(seconds: float, money: Decimal, unpriced: int) -> str:
    time = batch_view.span(seconds)
    if not money and not unpriced:
        return time
    return Phrase("{time} and {money}", time=time, money=batch_view.paid(money, unpriced))


@click.command()
@_id
@_configuration
@click.option("--yes", is_flag=True, help="Do not ask.")
def restart(id: BatchId, configuration: dict[str, Any] | None, *, yes: bool) -> None:
    """Run every job of an ended batch anew, also what is done. What it cost is paid again."""

    async def ask(app: Retoma) -> Resumed | None:
        found = await app.batches.plan(id)
        if found.batch.state.ended and not yes and not _agreed(found, other=configuration is not None):
            return None
        by = acting.person()
        did = await acting.change(
            app,
            "batch",
            id,
            lambda conn: app.batches.restart(id, configuration=configuration, by=by, wait=False, conn=conn),
        )
        return await resumed_all(app, did)

    did = context.ask(ask)
    if did is None:
        output.talk("Nothing was changed.")
        click.get_current_context().exit(1)
    output.talk(
        "{batch} begins anew: 1 job is queued." if did.jobs == 1 else "{batch} begins anew: {jobs} jobs are queued.",
        batch=_called(did.batch),
        jobs=did.jobs,
    )
    output.talk(_follow(id))
    _done(did.batch)


def _agreed(found: Plan, *, other: bool) -> bool:
    from retoma.errors import ConfigurationError

    batch = found.batch
    told = Phrase(
        "All {total} jobs of batch {id} ({name}) would run anew{under}, also the {skips} that are done; the {cost} "
        "that went into them would be spent again.",
        total=batch.total,
        id=batch.id,
        name=batch.name,
        under=Phrase(" under another configuration") if other else "",
        skips=found.skips,
        cost=_time_and_money(found.seconds_saved, batch.spent, batch.unpriced),
    )
    if not sys.stdin.isatty():
        raise ConfigurationError(
            Phrase("{told} Standard input is not a terminal, so nobody can confirm.", told=told),
            next=Phrase("the same with --yes."),
        )
    output.talk(told)
    return output.agreed("Restart it?")


# — the batch itself —


@click.command()
@_id
@click.option("--name", help="Another name.")
@click.option("--max-resumes", type=click.IntRange(min=0), metavar="N", help="How often it may be resumed.")
@click.option(
    "--max-failure-rate", type=click.FloatRange(0, 1), metavar="PART", help="Stop above it; 0.2 is one in five."
)
@click.option(
    "--stall-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="How long nothing may move."
)
@click.option("--budget", type=params.money, metavar="US$", help="What it may cost in all.")
@click.option("--label", "labels", type=label, multiple=True, metavar="K=V", help="Set a label; may be repeated.")
def change(id: BatchId, labels: tuple[tuple[str, str], ...], **changes: Any) -> None:
    """Give a batch another name, limit, budget or label."""
    given = {name: value for name, value in changes.items() if value is not None}
    if not given and not labels:
        raise click.UsageError(words("What is to change?"))

    async def ask(app: Retoma) -> Batch:
        if labels:
            given["labels"] = (await app.batches.get(id)).labels | dict(labels)
        by = acting.person()
        return await acting.change(app, "batch", id, lambda conn: app.batches.change(id, by=by, conn=conn, **given))

    found = context.ask(ask)
    output.talk("{batch} was changed.", batch=_called(found))
    _done(found)


@click.command()
@_id
@click.option("--expected", type=click.IntRange(min=1), metavar="N", help="Refuse unless there are so many jobs.")
@click.option("--pilot", type=click.IntRange(0, 1000), default=0, metavar="N", help="Let N of them run first.")
def seal(id: BatchId, expected: int | None, pilot: int) -> None:
    """Seal an open batch, so that workers take its jobs. No more can be added."""
    found = context.ask(
        lambda app: acting.change(
            app, "batch", id, lambda conn: app.batches.seal(id, expected=expected, pilot=pilot, conn=conn)
        )
    )
    output.talk("{batch} is sealed with {total} jobs.", batch=_called(found), total=found.total)
    _done(found)


@click.command()
@_id
def release(id: BatchId) -> None:
    """Release the jobs that a pilot holds. Safe to ask many times."""

    async def ask(app: Retoma) -> tuple[Batch, Batch]:
        before, by = await app.batches.get(id), acting.person()
        return before, await acting.change(app, "batch", id, lambda conn: app.batches.release(id, by=by, conn=conn))

    before, found = context.ask(ask)
    if before.held_at is None:
        output.talk("{batch} holds nothing; nothing was changed.", batch=_called(found))
    else:
        output.talk("{batch} is released: {left} jobs are left.", batch=_called(found), left=found.unfinished)
        output.talk(_follow(id))
    _done(found)


COMMANDS = (resume, retry_failed, pause, cancel, plan, restart, change, seal, release)
