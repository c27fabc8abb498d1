"""Jobs that come back by the clock: once each time, on the clocks of their zone."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import psycopg
import pytest

from retoma import JobState, Retoma, Run, pipeline
from retoma.commands import schedules as schedule_commands
from retoma.commands.schedules import next_run
from retoma.errors import ConfigurationError, NotFound, Unstorable
from retoma.postgres.connections import run_on
from retoma.postgres.database import Database
from retoma.testing import drain

AppWith = Callable[..., Awaitable[Retoma]]
NEW_YORK = ZoneInfo("America/New_York")


@pipeline("report", timeout=33, priority=5)
async def report(name: str, _run: Run) -> str:
    return name


async def fire(database: Database) -> list[tuple[str, int]]:
    """What the supervisor of every worker does each second."""
    async with database.connection() as connection:
        return await run_on(connection, schedule_commands.fire())


def half_an_hour_away() -> str:
    """Hourly, and never due by itself while a test runs: a test that began in the last second of a minute must hold."""
    return f"{(datetime.now(UTC).minute + 30) % 60} * * * *"


def make_due(psql: psycopg.Connection, *, minutes: int = 1) -> None:
    psql.execute("update retoma.schedules set next_run_at = now() - make_interval(mins => %s)", [minutes])


async def test_a_schedule_says_when_it_comes_next(app_with: AppWith) -> None:
    app = await app_with(report)
    schedule = await app.schedules.put(report, "daily", name="daily", cron="0 4 * * *", zone="America/Sao_Paulo")

    local = schedule.next_run_at.astimezone(ZoneInfo("America/Sao_Paulo"))
    assert (local.hour, local.minute) == (4, 0)
    assert timedelta(0) < schedule.next_run_at - schedule.now <= timedelta(days=1)
    assert (schedule.pipeline, schedule.queue, schedule.input, schedule.priority) == ("report", "report", '"daily"', 5)
    assert await app.schedules.all() == [schedule] or len(await app.schedules.all()) == 1


async def test_when_its_time_comes_its_job_is_queued_once(
    app_with: AppWith, database: Database, psql: psycopg.Connection
) -> None:
    app = await app_with(report)
    await app.schedules.put(report, "often", name="often", cron=half_an_hour_away())
    assert await fire(database) == [], "it is not due"
    make_due(psql)
    fired = [each for some in await asyncio.gather(*(fire(database) for _ in range(6))) for each in some]

    assert [name for name, _ in fired] == ["often"]
    assert await fire(database) == []
    (job,) = await app.jobs.find()
    assert (job.id, job.input, job.timeout_seconds, job.priority) == (fired[0][1], '"often"', 33, 5)
    assert job.key is not None
    assert job.key.startswith("schedule/often/")
    assert await drain(app) == 1
    (schedule,) = await app.schedules.all()
    assert schedule.last_run_at is not None
    assert schedule.next_run_at > schedule.now


async def test_a_time_that_was_missed_is_made_up_for_once(
    app_with: AppWith, database: Database, psql: psycopg.Connection
) -> None:
    app = await app_with(report)
    await app.schedules.put(report, "often", name="often", cron=half_an_hour_away())
    make_due(psql, minutes=600)
    await fire(database)
    await fire(database)

    assert len(await app.jobs.find()) == 1, "one for the ten hours, not ten"


async def test_draining_fires_what_is_due(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(report)
    await app.schedules.put(report, "often", name="often", cron=half_an_hour_away())
    make_due(psql)

    assert await drain(app) == 1


async def test_a_paused_schedule_rests_and_goes_on_from_now(
    app_with: AppWith, database: Database, psql: psycopg.Connection
) -> None:
    app = await app_with(report)
    await app.schedules.put(report, "often", name="often", cron=half_an_hour_away())
    await app.schedules.pause("often")
    await app.schedules.pause("often")
    make_due(psql)
    assert await fire(database) == []

    schedule = await app.schedules.resume("often")
    assert schedule.paused_at is None
    assert schedule.next_run_at > schedule.now
    assert await fire(database) == [], "what came while it rested is not made up for"


async def test_a_schedule_may_be_run_now_and_its_clock_goes_on(app_with: AppWith) -> None:
    app = await app_with(report)
    before = await app.schedules.put(report, "daily", name="daily", cron="0 4 * * *")
    first = await app.schedules.run("daily")
    second = await app.schedules.run("daily")
    await drain(app)

    assert first != second
    assert {job.state for job in await app.jobs.find()} == {JobState.COMPLETED}
    assert (await app.schedules.all())[0].next_run_at == before.next_run_at


async def test_the_same_name_changes_the_schedule(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(report)
    await app.schedules.put(report, "one", name="it", cron="0 4 * * *")
    make_due(psql)
    same = await app.schedules.put(report, "two", name="it", cron="0 4 * * *")
    assert same.input == '"two"'
    assert same.next_run_at < same.now, "a worker that starts again must not push back what is due"

    other = await app.schedules.put(report, "two", name="it", cron="0 5 * * *")
    assert other.next_run_at > other.now
    assert len(await app.schedules.all()) == 1


async def test_a_schedule_may_be_removed_and_its_jobs_stay(app_with: AppWith) -> None:
    app = await app_with(report)
    await app.schedules.put(report, "daily", name="daily", cron="0 4 * * *")
    job = await app.schedules.run("daily")
    await app.schedules.remove("daily")

    assert await app.schedules.all() == []
    assert (await app.jobs.get(job)).state is JobState.QUEUED
    for ask in (app.schedules.pause, app.schedules.resume, app.schedules.run, app.schedules.remove):
        with pytest.raises(NotFound, match="There is no schedule 'daily'") as caught:
            await ask("daily")
        assert caught.value.next


async def test_a_schedule_that_cannot_be_is_refused_when_it_is_made(app_with: AppWith) -> None:
    app = await app_with(report)
    for cron, zone, words in (
        ("every day", "UTC", "cannot be read"),
        ("61 * * * *", "UTC", "cannot be read"),
        ("", "UTC", "cannot be read"),
        ("0 4 * * *", "Mars/Olympus", "no time zone 'Mars/Olympus'"),
        ("0 4 * * *", "", "no time zone ''"),
        ("0 4 * * *", "../../etc/passwd", "no time zone"),
        ("0 0 30 2 *", "UTC", "never comes|cannot be read"),
    ):
        with pytest.raises(ConfigurationError, match=words) as caught:
            await app.schedules.put(report, "a", name="bad", cron=cron, zone=zone)
        assert caught.value.next, cron
    with pytest.raises(Unstorable, match="the input of schedule 'bad'"):
        await app.schedules.put(report, 3, name="bad", cron="* * * * *")  # type: ignore[arg-type]

    assert await app.schedules.all() == []


async def test_one_schedule_that_cannot_be_read_does_not_hold_up_the_others(
    app_with: AppWith, database: Database, psql: psycopg.Connection
) -> None:
    app = await app_with(report)
    await app.schedules.put(report, "bad", name="bad", cron=half_an_hour_away())
    await app.schedules.put(report, "good", name="good", cron=half_an_hour_away())
    psql.execute("update retoma.schedules set zone = 'Mars/Olympus' where name = 'bad'")
    make_due(psql)
    psql.execute("update retoma.schedules set next_run_at = next_run_at - interval '1 minute' where name = 'bad'")

    assert [name for name, _ in await fire(database)] == ["good"]


def at(text: str) -> datetime:
    """A wall clock in New York."""
    return datetime.fromisoformat(text).replace(tzinfo=NEW_YORK)


def comes(cron: str, after: datetime, times: int) -> list[str]:
    found = []
    for _ in range(times):
        after = next_run(cron, "America/New_York", after)
        found.append(after.astimezone(NEW_YORK).isoformat(timespec="minutes"))
    return found


def test_an_hour_that_the_clocks_skip_is_not_lost() -> None:
    assert comes("30 2 * * *", at("2026-03-07T03:00"), 3) == [
        "2026-03-08T03:00-04:00",
        "2026-03-09T02:30-04:00",
        "2026-03-10T02:30-04:00",
    ]


def test_an_hour_that_the_clocks_repeat_counts_once() -> None:
    assert comes("30 1 * * *", at("2026-10-31T02:00"), 3) == [
        "2026-11-01T01:30-04:00",
        "2026-11-02T01:30-05:00",
        "2026-11-03T01:30-05:00",
    ]


def test_what_comes_every_half_hour_comes_in_the_repeated_hour_too() -> None:
    night = comes("*/30 * * * *", at("2026-11-01T00:40"), 5)

    assert night == [
        "2026-11-01T01:00-04:00",
        "2026-11-01T01:30-04:00",
        "2026-11-01T01:00-05:00",
        "2026-11-01T01:30-05:00",
        "2026-11-01T02:00-05:00",
    ]


def test_the_next_time_is_given_in_universal_time() -> None:
    assert next_run("0 9 * * 1-5", "America/New_York", at("2026-07-03T10:00")) == datetime(2026, 7, 6, 13, tzinfo=UTC)
