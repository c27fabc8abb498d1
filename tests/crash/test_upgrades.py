"""The tables change under real workers that are never stopped: no job waits for it, none is lost, none done twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import crash_app
import newer_program
import psycopg
import pytest
from fleet import Fleet, Member, until
from oracle import Oracle

from retoma import Retoma
from retoma.postgres import migrate

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

Queued = Counter[tuple[int, str]]


@pytest.fixture
def ours() -> Path:
    """The folder of revisions of the program as it is."""
    return migrate._folder(migrate.ENGINE)


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """That of a later version."""
    return newer_program.write(tmp_path / "later")


@asynccontextmanager
async def queueing(app: Retoma) -> AsyncIterator[Queued]:
    """Jobs without end, alone and in batches, for as long as the block lasts; the effects that they must have."""
    wanted: Queued = Counter()
    over = asyncio.Event()

    async def queue() -> None:
        while not over.is_set():
            single = await app.enqueue_many(crash_app.effect, range(3))
            wanted.update((each.id, "record") for each in single)
            steps = await app.enqueue(crash_app.five, 0.01)
            wanted.update((steps.id, f"step/{number}") for number in (2, 4))
            batch = await app.batch(crash_app.effect, range(2), name="while the tables change")
            wanted.update((each.id, "record") for each in await app.jobs.find(batch_id=batch.id))
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as group:  # a queueing that fails ends the block
        group.create_task(queue())
        try:
            yield wanted
        finally:
            over.set()


async def change(fleet: Fleet, folder: Path, *words: str) -> str:
    """What a real ``retoma db`` says, once it has ended well."""
    program = fleet.call("-".join(words[:1]), "newer_program.py", folder, "db", *words)
    assert await program.exit_code() == 0, program.words()
    return program.words()


async def more_is_done(oracle: Oracle) -> None:
    """Some jobs that were queued from now on have ended."""
    last = oracle.one("select max(id) from retoma.jobs") or 0
    sql = "select count(*) from retoma.jobs where id > %s and state = 'completed'"
    await until(lambda: oracle.one(sql, last) > 20, what="the work goes on")


def complaints(member: Member) -> list[str]:
    """What it said that was no plain report; which walls this machine has for children is none of its own doing."""
    lines = [line for line in member.words().splitlines() if line.strip()]
    told = [line for line in lines if json.loads(line)["level"] in {"warning", "error"}]
    return [line for line in told if json.loads(line)["event"] != "sandbox.incomplete"]


def nothing_happened(oracle: Oracle, wanted: Queued) -> None:
    """Each job ended well, had its effects once, at the first attempt."""
    assert set(oracle.states()) == {"completed"}
    assert oracle.effects() == wanted
    assert oracle.one("select max(attempt) from retoma.jobs where queue <> 'retoma'") == 1
    oracle.nothing_is_wrong()


async def test_workers_go_on_while_the_tables_are_taken_beyond_and_down_and_up_again(
    fleet: Fleet, oracle: Oracle, app: Retoma, later: Path, figure: Callable[[str, object], None]
) -> None:
    members = [fleet.start(label, at_once=5) for label in ("ana", "bruno")]
    executors = [await member.ready() for member in members]
    steps = [
        (later, "upgrade"),
        (later, "downgrade", "--to", migrate.HEAD, "--yes"),
        (later, "upgrade"),
        (later, "downgrade", "--to", migrate.HEAD, "--yes"),
    ]
    async with queueing(app) as wanted:
        await more_is_done(oracle)
        for folder, *words in steps:
            await change(fleet, folder, *words)
            await more_is_done(oracle)
    await until(oracle.all_ended, what="all jobs end")

    nothing_happened(oracle, wanted)
    assert [member.executors() for member in members] == executors, "a worker had to be restarted"
    assert [complaints(member) for member in members] == [[], []]
    figure("jobs meanwhile", sum(oracle.states().values()))
    slowest = "select max(extract(epoch from ended_at - claimed_at))::float8 from retoma.attempts"
    figure("seconds of the slowest attempt", round(oracle.one(slowest), 2))


async def test_an_older_program_works_and_starts_on_newer_tables_until_they_no_longer_serve_it(
    fleet: Fleet, oracle: Oracle, app: Retoma, later: Path
) -> None:
    """The older program is the one we are: the newer tables are those of a later version."""
    ana = fleet.start("ana", at_once=5)
    executors = await ana.ready()
    async with queueing(app) as wanted:
        await more_is_done(oracle)
        await change(fleet, later, "upgrade")
        bruno = fleet.start("bruno", at_once=5)
        (pid,) = await bruno.ready()
        await until(lambda: any(mark.pid == pid for mark in oracle.marks("began")), what="bruno works too")
    await until(oracle.all_ended, what="all jobs end")

    nothing_happened(oracle, wanted)
    assert ana.executors() == executors
    assert [complaints(member) for member in (ana, bruno)] == [[], []]

    oracle.connection.execute(f"comment on table retoma.alembic_version is 'serves {newer_program.NEWEST}'")
    clara = fleet.start("clara")
    assert await clara.exit_code() == 2
    assert (
        f"at revision {newer_program.NEWEST}, and this program needs {migrate.HEAD}; "
        f"they serve programs from {newer_program.NEWEST} on"
    ) in clara.words()


async def test_a_program_does_not_start_on_tables_that_are_older_than_it_needs(fleet: Fleet, ours: Path) -> None:
    await change(fleet, ours, "downgrade", "--to", "0004", "--yes")

    member = fleet.start("ana")

    assert await member.exit_code() == 2
    said, next = member.words().splitlines()
    assert said == f"The Retoma tables are at revision 0004, and this program needs {migrate.HEAD}."
    assert "retoma db upgrade" in next


async def test_nobody_waits_behind_an_upgrade_that_waits_for_somebody_else(
    fleet: Fleet, oracle: Oracle, app: Retoma, later: Path
) -> None:
    member = fleet.start("ana", at_once=5)
    executors = await member.ready()
    waiting = (
        "select pid from pg_stat_activity where application_name = 'retoma db' and wait_event_type = 'Lock'"
        " and datname = current_database()"
    )
    with psycopg.connect(fleet.url, application_name="a dump that takes hours") as holder:
        holder.execute("lock table retoma.jobs in access share mode")
        upgrade = fleet.call("upgrade", "newer_program.py", later, "db", "upgrade")
        for number in range(3):
            await until(lambda: oracle.one(waiting), what="the upgrade stands in the line for the table")
            # Whoever comes now stands behind it, and is served all the same, for the upgrade steps back.
            job = (await app.enqueue(crash_app.effect, number)).id
            await until(lambda job=job: oracle.state(job) == "completed", what="a job was queued, taken and ended")
            assert not upgrade.ended, upgrade.words()
            assert oracle.one("select version_num from retoma.alembic_version") == migrate.HEAD
        pid = holder.info.backend_pid

    assert await upgrade.exit_code() == 0
    assert f"retoma.jobs is held by pid {pid} (a dump that takes hours, idle in transaction for" in upgrade.words()
    assert oracle.one("select version_num from retoma.alembic_version") == newer_program.NEWEST
    assert oracle.states() == {"completed": 3}
    assert member.executors() == executors
    assert complaints(member) == []
    oracle.nothing_is_wrong()
