"""The house's own jobs: seen, run now, changed, and harmless when several do the same."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from retoma import JobState, Retry, Run, pipeline
from retoma.errors import ConfigurationError
from retoma.postgres.connections import run_on
from retoma.telemetry import Event, listen
from retoma.telemetry.events import BatchStalled, JobRecovered, ScheduleKept
from retoma.testing import drain
from retoma.worker import maintenance_jobs


@pipeline("double", retry=Retry(attempts=2, wait=0.0))
async def double(number: int, run: Run) -> int:
    return await run.step("double", lambda: 2 * number)


async def planted(app: Any) -> None:
    async with app.database.connection() as connection:
        await run_on(connection, maintenance_jobs.schedule_all("America/Sao_Paulo"))


async def run_now(app: Any, name: str) -> Any:
    job = await app.schedules.run(name)
    await drain(app, queues=[maintenance_jobs.QUEUE])
    found = await app.jobs.get(job)
    assert found.state is JobState.COMPLETED, found.error
    return await app.jobs.output(app.registry.pipeline(name), job)


async def test_the_chores_are_schedules_on_the_clocks_of_the_zone_that_was_set(app_with: Any) -> None:
    app = await app_with(double)
    await planted(app)

    found = {each.name: (each.cron, each.zone) for each in await app.schedules.all()}
    assert found == {
        "retoma.recover": ("*/5 * * * *", "America/Sao_Paulo"),
        "retoma.clean-up": ("0 4 * * *", "America/Sao_Paulo"),
        "retoma.deliver": ("*/10 * * * *", "America/Sao_Paulo"),
        "retoma.prune": ("23 * * * *", "America/Sao_Paulo"),
    }


async def test_what_a_person_changed_stays_when_a_worker_starts_again(app_with: Any) -> None:
    app = await app_with(double)
    await planted(app)
    changed = await app.schedules.change("retoma.clean-up", cron="30 2 * * *", zone="UTC")
    await app.schedules.pause("retoma.prune")
    await planted(app)

    assert changed.next_run_at.strftime("%H:%M") == "02:30"
    found = {each.name: each for each in await app.schedules.all()}
    assert (found["retoma.clean-up"].cron, found["retoma.clean-up"].zone) == ("30 2 * * *", "UTC")
    assert found["retoma.prune"].paused_at is not None


async def test_a_schedule_follows_what_its_program_declares_until_somebody_changes_it_and_then_that_is_told(
    app_with: Any, heard: list[Event]
) -> None:
    def declared(cron: str) -> Any:
        @pipeline("sweep", cron=cron)
        async def sweep(_: None, _run: Run) -> None:
            """Nothing."""

        return sweep

    app = await app_with(double)

    async def start(cron: str) -> str:
        async with app.database.connection() as connection:
            await run_on(connection, maintenance_jobs.schedule_all("UTC", [declared(cron)]))
        return {each.name: each.cron for each in await app.schedules.all()}["sweep"]

    assert [await start(cron) for cron in ("*/5 * * * *", "*/5 * * * *", "0 3 * * *")][-1] == "0 3 * * *"
    assert [each for each in heard if isinstance(each, ScheduleKept)] == []
    await app.schedules.change("sweep", cron="0 4 * * *")
    assert await start("0 5 * * *") == "0 4 * * *"

    (kept,) = [each for each in heard if isinstance(each, ScheduleKept)]
    assert (kept.schedule, kept.cron, kept.declared) == ("sweep", "0 4 * * *", "0 5 * * *")


async def test_a_change_that_cannot_be_read_changes_nothing(app_with: Any) -> None:
    app = await app_with(double)
    await planted(app)

    with pytest.raises(ConfigurationError, match="cannot be read"):
        await app.schedules.change("retoma.prune", cron="at noon")
    found = {each.name: each.cron for each in await app.schedules.all()}
    assert found["retoma.prune"] == "23 * * * *"


async def test_recovery_run_now_takes_back_the_jobs_of_a_silent_worker_and_looks_after_batches(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(double)
    await planted(app)
    batch = await app.batch(double, [1], name="x")
    psql.execute(
        "update retoma.batches set state = 'running', was = 'queued', started_at = now(),"
        " last_progress_at = now() - interval '1 hour'"
    )
    psql.execute("update retoma.jobs set run_at = now() - interval '1 hour'")
    heard: list[Event] = []
    forget = listen(heard.append)
    did = await run_now(app, "retoma.recover")
    forget()

    assert did["batches_stalled"] == 1
    assert (await app.batches.get(batch.id)).reason == "no_workers"
    assert [each.batch for each in heard if isinstance(each, BatchStalled)] == [batch.id]


@pytest.mark.parametrize("asked", ["by the clock", "by hand"])
async def test_jobs_that_are_taken_back_are_told_of_whoever_takes_them(
    app_with: Any, psql: psycopg.Connection, asked: str
) -> None:
    app = await app_with(double)
    await planted(app)
    job = await app.enqueue(double, 1)
    psql.execute(
        "with worker as (insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once,"
        " lease_seconds, lease_expires_at) values ('w', 'h', 1, '0', '{}', '{}', 1, 5, now() - interval '1 minute')"
        " returning id) update retoma.jobs set state = 'running', worker_id = worker.id, fence = 1, attempt = 1,"
        " claimed_at = now() from worker"
    )
    heard: list[Event] = []
    forget = listen(heard.append)
    if asked == "by hand":
        await app.jobs.recover()
    else:
        await run_now(app, "retoma.recover")
    forget()

    assert [each.job for each in heard if isinstance(each, JobRecovered)] == [job.id]


@pytest.mark.parametrize(("hours", "ends"), [(23, False), (25, True)])
async def test_the_clean_up_ends_what_has_been_running_for_a_day_by_its_start_not_its_creation(
    app_with: Any, psql: psycopg.Connection, hours: int, ends: bool
) -> None:
    app = await app_with(double)
    await planted(app)
    job = await app.enqueue(double, 1)
    psql.execute(
        "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,"
        " lease_expires_at) values ('w', 'h', 1, '0', '{}', '{}', 1, 1e6, now() + interval '1 day')"
    )
    psql.execute(
        "update retoma.jobs set state = 'running', attempt = 1, fence = 1, created_at = now() - interval '9 days',"
        " worker_id = (select max(id) from retoma.workers), claimed_at = now() - make_interval(hours => %s)",
        [hours],
    )
    assert await run_now(app, "retoma.clean-up") == int(ends)

    found = await app.jobs.get(job.id)
    assert (found.state, found.reason) == ((JobState.FAILED, "overdue") if ends else (JobState.RUNNING, None))


async def test_prune_run_now_removes_old_jobs_and_whole_batches(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(double)
    await planted(app)
    await app.enqueue_many(double, range(3))
    await app.batch(double, range(2), name="old")
    await drain(app)
    new = await app.batch(double, range(2), name="new")
    psql.execute("update retoma.jobs set finished_at = finished_at - interval '31 days'")
    psql.execute("update retoma.batches set finished_at = finished_at - interval '31 days'")
    await run_now(app, "retoma.prune")

    assert [each.id for each in await app.batches.find()] == [new.id]
    assert {each.batch_id for each in await app.jobs.find(pipeline="double")} == {new.id}
    assert psql.execute("select count(*) from retoma.events where batch_id <> %s", [new.id]).fetchone() == (0,)


async def test_a_program_s_own_pipelines_are_told_apart_from_the_chores(app_with: Any) -> None:
    app = await app_with(double)

    assert app.registry.own == ["double"]
    chores = {"retoma.recover", "retoma.clean-up", "retoma.prune", "retoma.deliver"}
    assert set(app.registry.pipelines) == {"double", *chores}


REFUSES = """
create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$;
create trigger refuse before delete on retoma.jobs for each row when (old.key = 'kept') execute function refuse();
"""


async def test_a_kind_that_cannot_be_pruned_holds_up_no_other(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(double)
    await app.enqueue(double, 1, key="kept")
    await app.batch(double, range(3), name="old")
    await drain(app)
    psql.execute("update retoma.jobs set finished_at = finished_at - interval '31 days'")
    psql.execute("update retoma.batches set finished_at = finished_at - interval '31 days'")
    psql.execute(
        "insert into retoma.calls (key, provider, model, request, asked_at)"
        " values ('k', 'p', 'm', '1', now() - interval '31 days')"
    )
    psql.execute(REFUSES)

    with pytest.raises(psycopg.Error, match="not this one"):
        await app.system.prune()

    assert await app.batches.find() == []
    assert [each.key for each in await app.jobs.find()] == ["kept"]
    assert psql.execute("select count(*) from retoma.calls").fetchone() == (0,)
    assert {each.kind for each in await app.system.overstays() if each.seconds > 0} == {"jobs"}
