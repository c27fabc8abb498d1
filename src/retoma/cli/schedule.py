"""retoma schedule: jobs that come back by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import door, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retoma.app import Retoma
    from retoma.model import Schedule

_SCHEDULE: show.Columns[Schedule] = {
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
    served = {name for worker in await app.workers() if worker.alive for name in worker.pipelines}
    found = [each for each in await app.schedules() if not each.paused_at and each.pipeline not in served]
    return found if served else []  # when nobody works, it is not the schedules that are wrong


@click.group()
def schedule() -> None:
    """Schedules: jobs that come back by the clock. Programs make them, with app.schedule."""


@schedule.command()
@show.as_json
def list(*, as_json: bool) -> None:
    """List the schedules, by name."""

    async def look(app: Retoma) -> tuple[Sequence[Schedule], Sequence[Schedule]]:
        return await app.schedules(), await unserved(app)

    found, lost = door.ask(look)
    if as_json:
        show.print_json(found)
    else:
        show.table(found, _SCHEDULE, nothing="There is no schedule.")
    for each in lost:
        _warn(each)


@schedule.command()
@_name
def run(name: str) -> None:
    """Queue a schedule's job now; its clock goes on as it was. The job's id is printed."""

    async def ask(app: Retoma) -> tuple[int, Sequence[Schedule]]:
        return await app.run_schedule(name), await unserved(app)

    job, lost = door.ask(ask)
    click.echo(job)
    for each in lost:
        if each.name == name:
            _warn(each)


def _warn(schedule: Schedule) -> None:
    show.talk(
        f"No worker serves pipeline {schedule.pipeline} of schedule {schedule.name}: its jobs wait. "
        f"Start one whose program has it, or 'retoma schedule remove {schedule.name}'."
    )


@schedule.command()
@_name
def pause(name: str) -> None:
    """Let a schedule rest."""
    door.ask(lambda app: app.pause_schedule(name))
    show.talk(f"Schedule {name} rests; 'retoma schedule resume {name}' lets it go on.")


@schedule.command()
@_name
def resume(name: str) -> None:
    """Let a schedule go on, from the next time that comes."""
    found = door.ask(lambda app: app.resume_schedule(name))
    show.talk(f"Schedule {name} goes on; its next time is {found.next_run_at.isoformat()}.")


@schedule.command()
@_name
@click.option("--cron", metavar="FIELDS", help="When it comes, such as '0 4 * * *'.")
@click.option("--zone", metavar="NAME", help="On whose clocks, such as America/Sao_Paulo.")
def change(name: str, cron: str | None, zone: str | None) -> None:
    """Let a schedule come at another time."""
    if not cron and not zone:
        raise click.UsageError("What is to change? Say --cron or --zone.")
    found = door.ask(lambda app: app.change_schedule(name, cron=cron, zone=zone))
    told = f"Schedule {name} comes at '{found.cron}' on the clocks of {found.zone}"
    show.talk(f"{told}; {'it rests' if found.paused_at else f'its next time is {found.next_run_at.isoformat()}'}.")


@schedule.command()
@_name
def remove(name: str) -> None:
    """Forget a schedule. Jobs that it queued stay."""
    door.ask(lambda app: app.remove_schedule(name))
    show.talk(f"Schedule {name} is gone.")
