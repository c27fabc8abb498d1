"""retoma schedule: jobs that come back by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output
from retoma.cli.language import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retoma.app.retoma import Retoma
    from retoma.model.job import Schedule

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


async def unserved(app: Retoma) -> Sequence[Schedule]:
    """The schedules that do not rest and whose jobs none of those who work now would take."""
    served = {name for worker in await app.workers.all() if worker.alive for name in worker.pipelines}
    found = [each for each in await app.schedules.all() if not each.paused_at and each.pipeline not in served]
    return found if served else []  # when nobody works, it is not the schedules that are wrong


@click.group()
def schedule() -> None:
    """Schedules: jobs that come back by the clock. Programs make them, with app.schedule."""


@schedule.command()
@output.as_json
def list(*, as_json: bool) -> None:
    """List the schedules, by name."""

    async def look(app: Retoma) -> tuple[Sequence[Schedule], Sequence[Schedule]]:
        found = await app.schedules.all(), await unserved(app)
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
def run(name: str) -> None:
    """Queue a schedule's job now; its clock goes on as it was. The job's id is printed."""

    async def ask(app: Retoma) -> tuple[int, Sequence[Schedule]]:
        job = await acting.change(app, "schedule", name, lambda conn: app.schedules.run(name, conn=conn))
        return job, await unserved(app)

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
