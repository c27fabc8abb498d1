"""Commands on schedules. Each one yields queries and receives their rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model import validation
from retoma.model.schedule import DueSchedule, Schedule
from retoma.run.pipeline import Pipeline, must_be_pipeline
from retoma.store import schedules
from retoma.store.query import Command
from retoma.telemetry import emit
from retoma.telemetry.events import ScheduleUnreadable

I = TypeVar("I")


def put(
    pipeline: Pipeline[I, Any], name: str, cron: str, input: I, *, zone: str, declared: bool = False, new: bool = False
) -> Command[Schedule]:
    """Create the schedule *name*, or change the time and input of an existing one, unless it must be *new*. A schedule
    that a program only declares keeps the changes that a person has made.
    """
    must_be_pipeline(pipeline)
    validation.text("schedule name", name)
    if new and any(each.name == name for each in (yield schedules.all())):
        raise Conflict(
            f"There is a schedule {name!r} already.", next="Choose another name, or change the one that is there."
        )
    now: list[datetime] = yield schedules.now()
    yield schedules.put(
        name=name,
        pipeline=pipeline.name,
        queue=pipeline.queue,
        cron=cron,
        zone=zone,
        input=pipeline.input.encode(input, what=f"the input of schedule {name!r}").text,
        priority=pipeline.priority,
        max_attempts=pipeline.retry.attempts,
        timeout=pipeline.timeout,
        next_run_at=next_run(cron, zone, now[0]),
        declared=declared,
    )
    return (yield from one(name))


def change(name: str, *, cron: str | None, zone: str | None) -> Command[Schedule]:
    found = yield from one(name)
    cron, zone = cron or found.cron, zone or found.zone
    yield schedules.change(name, cron=cron, zone=zone, next_run_at=next_run(cron, zone, found.now))
    return (yield from one(name))


def one(name: str) -> Command[Schedule]:
    rows: list[Schedule] = yield schedules.all()
    for row in rows:
        if row.name == name:
            return row
    raise NotFound(f"There is no schedule {name!r}.", next="'retoma schedule list' shows them.")


def run_now(name: str) -> Command[int]:
    rows: list[int] = yield schedules.run_now(name)
    if not rows:
        raise NotFound(f"There is no schedule {name!r}.", next="'retoma schedule list' shows them.")
    return rows[0]


def resume(name: str) -> Command[Schedule]:
    found = yield from one(name)
    yield schedules.resume(name, next_run(found.cron, found.zone, found.now))
    return (yield from one(name))


def pause(name: str) -> Command[None]:
    if not (yield schedules.pause(name)):
        yield from one(name)


def remove(name: str) -> Command[None]:
    if not (yield schedules.remove(name)):
        yield from one(name)


def fire() -> Command[list[tuple[str, int]]]:
    """Enqueue the job of every schedule that is due; of several workers, one does it."""
    fired = []
    due: list[DueSchedule] = yield schedules.due()
    for each in due:
        try:
            following = next_run(each.cron, each.zone, each.now)
        except ConfigurationError as error:
            # One machine may lack a time zone that another has. The other schedules must not wait for it.
            emit(ScheduleUnreadable(schedule=each.name, error=error.message))
            continue
        ids = yield schedules.fire(each.name, each.next_run_at, following)
        fired += [(each.name, id) for id in ids]
    return fired


def next_runs(cron: str, zone: str, after: datetime, *, count: int = 3) -> list[datetime]:
    """The next times that *cron* matches on the clocks of *zone*, in that zone; fewer when it comes no more often, and
    none when this machine cannot read it.
    """
    try:
        local = after.astimezone(ZoneInfo(zone))
        return [each for each, _ in zip(CronSim(cron, local), range(count), strict=False)]
    except (ZoneInfoNotFoundError, ValueError, CronSimError):
        return []


def next_run(cron: str, zone: str, after: datetime) -> datetime:
    """The next time that *cron* matches on the clocks of *zone*; skipped and doubled hours are handled."""
    try:
        local = after.astimezone(ZoneInfo(zone))
        return next(CronSim(cron, local)).astimezone(UTC)
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigurationError(
            f"There is no time zone {zone!r}.", next="Use a name such as America/Sao_Paulo or UTC."
        ) from None
    except CronSimError as error:
        raise ConfigurationError(
            f"The schedule {cron!r} cannot be read: {error}.",
            next="Five fields: minute, hour, day, month, weekday. Every day at four: 0 4 * * *.",
        ) from None
    except StopIteration:
        raise ConfigurationError(f"The schedule {cron!r} never occurs.", next="Look at its day and month.") from None
