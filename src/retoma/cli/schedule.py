"""retoma schedule: jobs that come back by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, context, output, params
from retoma.cli.language import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retoma.app.retoma import Retoma
    from retoma.model.machine import ScheduleRun
    from retoma.model.schedule import Schedule

_SCHEDULE: output.Columns[Schedule] = {
    "name": lambda schedule: schedule.name,
    "pipeline": lambda schedule: schedule.pipeline,
    "cron": lambda schedule: schedule.cron,
    "zone": lambda schedule: schedule.zone,
    "next": lambda schedule: None if schedule.paused_at else schedule.next_run_at,
    "last": lambda schedule: schedule.last_run_at,
    "paused": lambda schedule: schedule.paused_at,
}
_name = click.argument("name")


@click.group()
def schedule() -> None:
    """Schedules: jobs that come back by the clock. Programs declare them, and people make them."""


@schedule.command()
@output.as_json
def list(*, as_json: bool) -> None:
    """List the schedules, by name."""
    from retoma.app.doctor.facts import unserved

    async def look(app: Retoma) -> tuple[Sequence[Schedule], Sequence[Schedule]]:
        every = await app.schedules.all()
        found = every, unserved(every, await app.workers.all())
        if as_json:  # with what their jobs are given
            await acting.look(app, "schedule")
        return found

    found, lost = context.ask(look)
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _SCHEDULE, nothing="There is no schedule.")
    for each in lost:
        _warn(each)


@schedule.command()
@_name
@output.as_json
def show(name: str, *, as_json: bool) -> None:
    """Show a schedule: the next three times, and what became of the last jobs."""
    from retoma.commands.schedules import next_runs

    async def look(app: Retoma) -> tuple[Schedule, Sequence[ScheduleRun]]:
        found, runs = await app.schedules.get(name), await app.schedules.runs(each=20)
        if as_json:  # with what its jobs are given
            await acting.look(app, "schedule", name)
        return found, runs.get(name, [])

    found, runs = context.ask(look)
    coming = [] if found.paused_at else next_runs(found.cron, found.zone, found.now)
    if as_json:
        output.print_json({"schedule": found, "next": coming, "runs": runs})
        return
    output.fields(
        {
            "name": found.name,
            "pipeline": found.pipeline,
            "cron": found.cron,
            "zone": found.zone,
            "next": ", ".join(f"{each:%Y-%m-%d %H:%M}" for each in coming) or None,
            "paused": found.paused_at,
        }
    )
    if output.in_terminal():
        output.title("last jobs")
    output.table(runs, _RUN, nothing="It has queued no job yet.")


_RUN: output.Columns[ScheduleRun] = {
    "job": lambda run: run.job_id,
    "state": lambda run: run.state,
    "queued": lambda run: run.at,
    "finished": lambda run: run.finished_at,
    "by hand": lambda run: run.by_hand or None,
}


@schedule.command()
@_name
@click.argument("pipeline")
@click.argument("input", metavar="JSON", type=params.json_value)
@click.option("--cron", metavar="FIELDS", required=True, help="When it comes, such as '0 4 * * *'.")
@click.option("--zone", metavar="NAME", default="UTC", show_default=True, help="On whose clocks.")
@context.app_option
def create(name: str, pipeline: str, input: Any, cron: str, zone: str, reference: str | None) -> None:
    """Let a job of PIPELINE over an input written as JSON come back by the clock, under NAME."""

    async def ask(app: Retoma) -> Schedule:
        import json

        from retoma.errors import ConfigurationError
        from retoma.values.codec import Misfit

        made = app.registry.pipeline(pipeline)
        try:
            value = made.input.decode(json.dumps(input))
        except Misfit as misfit:
            raise ConfigurationError(
                f"This is not an input of {pipeline!r}: {misfit}.",
                next='Write it as JSON in single quotes, such as \'"text"\' or \'{"name": "value"}\'.',
            ) from None
        return await acting.change(
            app,
            "schedule",
            name,
            lambda conn: app.schedules.put(made, value, name=name, cron=cron, zone=zone, new=True, conn=conn),
        )

    found = context.ask_program(reference, ask)
    output.talk(
        "Schedule {name} comes at '{cron}' on the clocks of {zone}; its next time is {next}.",
        name=name,
        cron=found.cron,
        zone=found.zone,
        next=found.next_run_at.isoformat(),
    )


@schedule.command()
@_name
def run(name: str) -> None:
    """Queue a schedule's job now; its clock goes on as it was. The job's id is printed."""
    from retoma.app.doctor.facts import unserved

    async def ask(app: Retoma) -> tuple[int, Sequence[Schedule]]:
        job = await acting.change(app, "schedule", name, lambda conn: app.schedules.run(name, conn=conn))
        return job, unserved(await app.schedules.all(), await app.workers.all())

    job, lost = context.ask(ask)
    output.say(job)
    for each in lost:
        if each.name == name:
            _warn(each)


def _warn(schedule: Schedule) -> None:
    output.talk(
        "No worker serves pipeline {pipeline} of schedule {name}: its jobs wait. "
        "Start one whose program has it, or 'retoma schedule remove {name}'.",
        pipeline=schedule.pipeline,
        name=schedule.name,
    )


@schedule.command()
@_name
def pause(name: str) -> None:
    """Let a schedule rest."""
    context.ask(lambda app: acting.change(app, "schedule", name, lambda conn: app.schedules.pause(name, conn=conn)))
    output.talk("Schedule {name} rests; 'retoma schedule resume {name}' lets it go on.", name=name)


@schedule.command()
@_name
def resume(name: str) -> None:
    """Let a schedule go on, from the next time that comes."""
    found = context.ask(
        lambda app: acting.change(app, "schedule", name, lambda conn: app.schedules.resume(name, conn=conn))
    )
    output.talk("Schedule {name} goes on; its next time is {next}.", name=name, next=found.next_run_at.isoformat())


@schedule.command()
@_name
@click.option("--cron", metavar="FIELDS", help="When it comes, such as '0 4 * * *'.")
@click.option("--zone", metavar="NAME", help="On whose clocks, such as America/Sao_Paulo.")
def change(name: str, cron: str | None, zone: str | None) -> None:
    """Let a schedule come at another time."""
    if not cron and not zone:
        raise click.UsageError(words("What is to change? Say --cron or --zone."))
    found = context.ask(
        lambda app: acting.change(
            app, "schedule", name, lambda conn: app.schedules.change(name, cron=cron, zone=zone, conn=conn)
        )
    )
    output.talk(
        "Schedule {name} comes at '{cron}' on the clocks of {zone}; it rests."
        if found.paused_at
        else "Schedule {name} comes at '{cron}' on the clocks of {zone}; its next time is {next}.",
        name=name,
        cron=found.cron,
        zone=found.zone,
        next=found.next_run_at.isoformat(),
    )


@schedule.command()
@_name
def remove(name: str) -> None:
    """Forget a schedule. Jobs that it queued stay."""
    context.ask(lambda app: acting.change(app, "schedule", name, lambda conn: app.schedules.remove(name, conn=conn)))
    output.talk("Schedule {name} is gone.", name=name)
