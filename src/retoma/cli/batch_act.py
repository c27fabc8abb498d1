"""retoma batch: what can be done with one. Each says what it did, and prints the batch's id and state."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import batch_view, door, show, values

if TYPE_CHECKING:
    from retoma.app import Retoma
    from retoma.batch import Batch, Plan, Resumed

_id = click.argument("id", type=int)


def label(text: str) -> tuple[str, str]:
    """A label, as it is written: name=value."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not a label; write name=value.")
    return name, value


def configuration(file: Path) -> dict[str, Any]:
    """What stands in the JSON file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{file} cannot be read as JSON: {error}.") from None
    if not isinstance(found, dict):
        raise click.BadParameter(f'{file} holds no JSON object; a configuration is one: {{"model": …}}.')
    return found


_configuration = click.option(
    "--configuration",
    type=lambda text: configuration(Path(text)),
    metavar="FILE",
    help="Another configuration: a file with a JSON object.",
)
_reason = click.option("--reason", default="person", show_default=True, help="Why, for those who wonder later.")


def _done(batch: Batch) -> None:
    click.echo(f"{batch.id}\t{batch.state}")


def _called(batch: Batch) -> str:
    return f"Batch {batch.id} ({batch.name})"


# — going on —


@click.command()
@_id
@click.option("--max-resumes", type=click.IntRange(min=0), metavar="N", help="Allow this many resumes in all.")
def resume(id: int, max_resumes: int | None) -> None:
    """Continue a batch from where it stopped. What is done is not done again; safe to ask many times."""
    did = door.ask(lambda app: app.resume(id, max_resumes=max_resumes))
    show.talk(_resumed(did))
    _done(did.batch)


def _resumed(did: Resumed) -> str:
    batch = did.batch
    if did.word == "already_running":
        return f"{_called(batch)} is already {batch.state}; nothing was changed."
    if did.word == "already_finished":
        failed = f" {batch.failures} jobs failed; 'retoma batch retry-failed {batch.id}' tries them again."
        return f"{_called(batch)} is completed: nothing is left to do." + (failed if batch.failures else "")
    left = f"{batch.unfinished} jobs are left, {(batch.total or 0) - batch.unfinished} are done and stay so"
    taken = f"; {did.jobs} that hung were taken back" if did.jobs else ""
    times = f" (resume {batch.resumes} of {batch.max_resumes})" if batch.resumes else ""
    return f"{_called(batch)} goes on{times}: {left}{taken}.\nTo follow it: retoma batch watch {batch.id}"


@click.command(name="retry-failed")
@_id
@click.option("--group", metavar="FINGERPRINT", help="Only this group of errors; 'retoma batch errors' names them.")
@click.option("--cancelled", is_flag=True, help="Also what was cancelled.")
@click.option("--attempts", type=click.IntRange(min=1), metavar="N", help="Allow each this many more attempts.")
def retry_failed(id: int, group: str | None, attempts: int | None, *, cancelled: bool) -> None:
    """Try only the failed jobs of a batch again. Steps that are done are not done again."""
    did = door.ask(lambda app: app.retry_failed(id, fingerprint=group, cancelled=cancelled, attempts=attempts))
    if did.changed:
        show.talk(f"{_called(did.batch)}: {_jobs(did.jobs)} tried again.\nTo follow it: retoma batch watch {id}")
    else:
        show.talk(f"{_called(did.batch)} has no such failed job; nothing was changed.")
    _done(did.batch)


def _jobs(number: int) -> str:
    return "1 job is" if number == 1 else f"{number} jobs are"


# — stopping —


@click.command()
@_id
@_reason
def pause(id: int, reason: str) -> None:
    """Let a batch rest. Nobody takes its jobs, and those that run go back after the step at hand."""
    found = door.ask(lambda app: app.pause(id, reason=reason))
    show.talk(f"{_called(found)} rests; 'retoma batch resume {id}' lets it go on.")
    _done(found)


@click.command()
@_id
@_reason
def cancel(id: int, reason: str) -> None:
    """Stop a batch. What waits ends now, what runs within a heartbeat; what is done stays done."""
    found = door.ask(lambda app: app.cancel_batch(id, reason=reason))
    show.talk(f"{_called(found)} is cancelled; 'retoma batch retry-failed {id} --cancelled' would take it up again.")
    _done(found)


# — beginning anew —


@click.command()
@_id
@_configuration
@show.as_json
def plan(id: int, configuration: dict[str, Any] | None, *, as_json: bool) -> None:
    """Say what a resume would do. What it skips, continues and begins, and what that saves; nothing is changed.

    With another configuration: what a restart under it would do again.
    """
    found = door.ask(lambda app: app.plan(id, configuration=configuration))
    if as_json:
        show.print_json(show.plain(found))
    elif show.in_terminal():
        _draw_plan(found)
    else:
        names = [name for name in found.__slots__ if name != "batch"]
        show.fields({"id": id, "state": found.batch.state, **{name: getattr(found, name) for name in names}})


def _draw_plan(found: Plan) -> None:
    batch = found.batch
    verb = "restart" if found.reruns else "resume"
    left = found.continues + found.begins + found.reruns
    if found.can or found.reruns:
        click.secho(f"A {verb} of batch {batch.id} ({batch.name}) would", bold=True)
    else:
        click.secho(f"{_called(batch)} cannot be resumed now: {found.why_not}. As it is, that would", bold=True)
    lines = (
        ("run again", found.reruns, "that are done, because the configuration is another", "yellow"),
        ("skip", found.skips, "that are done", "green"),
        ("continue", found.continues, f"behind their last checkpoint; {found.steps_kept} steps are kept", "cyan"),
        ("begin", found.begins, "that have nothing to go on from", None),
        ("run alone", found.suspects, "of these, which were there when an executor died", "yellow"),
        ("leave", found.leaves_failed, f"that failed; 'retoma batch retry-failed {batch.id}' tries them again", "red"),
        ("leave", found.quarantined, "in quarantine: they brought executors down", "red"),
    )
    for verb, number, which, colour in lines:
        if number:
            click.echo(f"  {verb:<10}" + click.style(f"{number:>8}", fg=colour, bold=True) + f"  {which}")
    if not left:
        return
    saved = [
        batch_view.span(found.seconds_saved),
        *([batch_view.money(found.money_saved)] if found.money_saved else []),
    ]
    click.echo(f"It saves {' and '.join(saved)}." if found.seconds_saved else "It saves nothing.")
    if found.seconds_needed is None:
        click.echo("What it needs nobody knows: no job has ended well yet.")
        return
    cost = f", and {batch_view.money(found.money_needed)}" if found.money_needed else ""
    click.echo(f"It needs about {batch_view.span(found.seconds_needed)} of work, one job at a time{cost}.")


@click.command()
@_id
@_configuration
@click.option("--yes", is_flag=True, help="Do not ask.")
def restart(id: int, configuration: dict[str, Any] | None, *, yes: bool) -> None:
    """Run every job of an ended batch anew, also what is done. What it cost is paid again."""

    async def ask(app: Retoma) -> Resumed | None:
        found = await app.plan(id)
        if found.batch.state.ended and not yes and not _agreed(found, other=configuration is not None):
            return None
        return await app.restart_batch(id, configuration=configuration)

    did = door.ask(ask)
    if did is None:
        show.talk("Nothing was changed.")
        click.get_current_context().exit(1)
    show.talk(f"{_called(did.batch)} begins anew: {_jobs(did.jobs)} queued.\nTo follow it: retoma batch watch {id}")
    _done(did.batch)


def _agreed(found: Plan, *, other: bool) -> bool:
    from retoma.errors import ConfigurationError

    batch = found.batch
    cost = " and ".join(
        [batch_view.span(found.seconds_saved), *([batch_view.money(batch.spent)] if batch.spent else [])]
    )
    under = " under another configuration" if other else ""
    told = (
        f"All {batch.total} jobs of batch {batch.id} ({batch.name}) would run anew{under}, "
        f"also the {found.skips} that are done; the {cost} that went into them would be spent again."
    )
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{told} Nobody is here to ask.", next="the same with --yes.")
    show.talk(told)
    return click.confirm("Restart it?", err=True)


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
@click.option("--budget", type=values.money, metavar="US$", help="What it may cost in all.")
@click.option("--label", "labels", type=label, multiple=True, metavar="K=V", help="Set a label; may be repeated.")
def change(id: int, labels: tuple[tuple[str, str], ...], **changes: Any) -> None:
    """Give a batch another name, limit, budget or label."""
    given = {name: value for name, value in changes.items() if value is not None}
    if not given and not labels:
        raise click.UsageError("What is to change?")

    async def ask(app: Retoma) -> Batch:
        if labels:
            given["labels"] = (await app.get_batch(id)).labels | dict(labels)
        return await app.change_batch(id, **given)

    found = door.ask(ask)
    show.talk(f"{_called(found)} was changed.")
    _done(found)


@click.command()
@_id
@click.option("--expected", type=click.IntRange(min=1), metavar="N", help="Refuse unless there are so many jobs.")
def seal(id: int, expected: int | None) -> None:
    """Let the jobs of an open batch be taken. No more can be added."""
    found = door.ask(lambda app: app.seal(id, expected=expected))
    show.talk(f"{_called(found)} is sealed with {found.total} jobs.")
    _done(found)


COMMANDS = (resume, retry_failed, pause, cancel, plan, restart, change, seal)
