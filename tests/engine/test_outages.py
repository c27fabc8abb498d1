"""A database that cannot do what it is asked: read-only, refusing, silent. Nothing is dropped, no job pays for it."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg
import pytest

from retoma import JobState, Retoma, Retry, Run, Settings, SyncRun, pipeline
from retoma.model.job import Ended
from retoma.postgres.database import Database, SyncDatabase, fetch
from retoma.postgres.faults import StatementHung
from retoma.providers import Answer, Chat, Prompt, Usage
from retoma.store import batches, checkpoints, jobs
from retoma.store.query import Query
from retoma.telemetry.events import AttemptStarted, DatabaseLost, Event, JobForgotten
from retoma.testing import drain
from retoma.testing.draining import an_executor
from retoma.worker.executor import Executor
from retoma.worker.journal import Journal

AppWith = Callable[..., Awaitable[Retoma]]
ONCE = Retry(attempts=1)


@asynccontextmanager
async def working(app: Retoma, *, at_once: int = 4) -> AsyncIterator[Executor]:
    async with an_executor(app, at_once, None) as executor:
        running = asyncio.create_task(executor.run())
        yield executor
        executor.stop()
        async with asyncio.timeout(240):
            await running


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(240):
        while not condition():
            await asyncio.sleep(0.01)


def cut(psql: psycopg.Connection) -> None:
    psql.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where pid <> pg_backend_pid() and datname = current_database() and application_name = 'retoma'"
    )


@contextmanager
def read_only(psql: psycopg.Connection) -> Iterator[None]:
    """As a managed server is when its disk is nearly full: who reads is served, who writes is told no."""
    name = psql.info.dbname
    psql.execute(f"alter database {name} set default_transaction_read_only = on")
    cut(psql)
    try:
        yield
    finally:
        psql.execute(f"alter database {name} reset default_transaction_read_only")
        cut(psql)


def lost(heard: list[Event], doing: str) -> list[str]:
    return [event.error for event in heard if isinstance(event, DatabaseLost) and event.doing == doing]


# — read-only —


async def test_a_read_only_server_is_waited_for_and_nothing_is_dropped_or_charged(
    app_with: AppWith, psql: psycopg.Connection, heard: list[Event]
) -> None:
    gate, saving = asyncio.Event(), 0
    effects: list[int] = []
    psql.execute("create table rows (number int)")

    async def keep(connection: psycopg.AsyncConnection[Any], number: int) -> int:
        await connection.execute("insert into rows values (%s)", (number,))
        return number

    async def work(number: int) -> int:
        nonlocal saving
        await gate.wait()
        effects.append(number)
        saving += 1
        return number

    @pipeline("steady", retry=ONCE)
    async def steady(number: int, run: Run) -> int:
        await run.step("work", work, number)
        return await run.transact("keep", keep, number)

    app = await app_with(steady, poll_seconds=0.05)
    await app.enqueue_many(steady, range(12))
    async with working(app, at_once=8) as executor:
        await until(lambda: len(executor._running) == 8)
        with read_only(psql):
            gate.set()  # saves, endings, transactions and claims all meet it
            await until(lambda: saving == 8)
            await until(lambda: "ReadOnlySqlTransaction" in lost(heard, "saving steps"))
        await until(lambda: executor.totals.completed == 12)

    assert sorted(effects) == list(range(12)), "a step whose result was there was done again"
    assert sorted(number for (number,) in psql.execute("select number from rows")) == list(range(12))
    assert {(job.state, job.attempt) for job in await app.jobs.find()} == {(JobState.COMPLETED, 1)}
    assert len(lost(heard, "saving steps")) < 6, "an outage is not a line for each try"


async def test_a_claim_that_was_refused_is_no_reason_to_end(
    app_with: AppWith, psql: psycopg.Connection, heard: list[Event]
) -> None:
    @pipeline("quick", retry=ONCE)
    async def quick(number: int, _run: Run) -> int:
        return number

    app = await app_with(quick, poll_seconds=0.05)
    async with working(app) as executor:
        await until(lambda: executor.totals.ready)
        await app.enqueue(quick, 1)
        await until(lambda: executor.totals.completed == 1)
        with read_only(psql):
            executor._wake.set()
            await until(lambda: "ReadOnlySqlTransaction" in lost(heard, "claiming"))
        await app.enqueue(quick, 2)
        await until(lambda: executor.totals.completed == 2)


async def test_a_read_only_transaction_of_a_handler_costs_no_attempt_and_its_own_mistake_does(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    told: list[str] = []

    async def write(connection: psycopg.AsyncConnection[Any]) -> None:
        if not told:
            told.append("read-only")
            await connection.execute("set transaction read only")
        await connection.execute("create table made (number int)")

    async def mistake(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("insert into a_table_that_nobody_made values (1)")

    @pipeline("sick", retry=ONCE)
    async def sick(_: None, run: Run) -> None:
        await run.transact("write", write)

    @pipeline("wrong", retry=ONCE)
    async def wrong(_: None, run: Run) -> None:
        await run.transact("mistake", mistake)

    app = await app_with(sick, wrong)
    excused, blamed = await app.enqueue(sick, None), await app.enqueue(wrong, None)
    await drain(app)

    postponed = psql.execute("select ending, reason from retoma.attempts where job_id = %s", [excused.id]).fetchall()
    assert postponed == [("postponed", "database")]
    assert (await app.jobs.get(excused.id)).attempt == 0
    failed = await app.jobs.get(blamed.id)
    assert (failed.state, failed.reason) == (JobState.FAILED, "UndefinedTable")


async def test_an_error_of_a_database_that_a_handler_opened_itself_is_an_ordinary_failure(
    app_with: AppWith, database_url: str
) -> None:
    @pipeline("elsewhere", retry=ONCE)
    async def elsewhere(_: None, _run: Run) -> None:
        async with await psycopg.AsyncConnection.connect(database_url) as theirs:
            await theirs.execute("select pg_terminate_backend(pg_backend_pid())")

    app = await app_with(elsewhere)
    receipt = await app.enqueue(elsewhere, None)
    await drain(app)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt, job.reason) == (JobState.FAILED, 1, "AdminShutdown")


# — a backend that dies inside a statement —


async def killed_while_they_wait(psql: psycopg.Connection, many: int) -> None:
    """Backends of ours that wait for a lock are ended, until so *many* were."""
    waiting = (
        "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
        " and datname = current_database() and application_name = 'retoma' and backend_type = 'client backend'"
    )
    killed = 0

    def kill() -> bool:
        nonlocal killed
        killed += len(psql.execute(waiting).fetchall())
        return killed >= many

    await until(kill)


@pytest.mark.parametrize("table", ["calls", "limits"])
async def test_nor_does_one_that_dies_while_a_model_is_to_be_asked(
    app_with: AppWith, psql: psycopg.Connection, database_url: str, table: str
) -> None:
    gate, asked = asyncio.Event(), []

    class Clerk:
        provider, model = "clerks", "clerk"

        async def chat(self, _prompt: Prompt, *, timeout: float) -> Answer:
            asked.append(timeout)
            return Answer(raw="yes", text="yes", model="clerk", usage=Usage())

    @pipeline("asking", retry=ONCE)
    async def asking(_: None, run: Run, *, chat: Chat) -> str:
        await gate.wait()
        return await run.ask("question", chat, "is it?")

    app = await app_with(asking, providers={Chat: Clerk()}, poll_seconds=0.05)
    receipt = await app.enqueue(asking, None)
    async with working(app) as executor:
        await until(lambda: executor._running)
        with psycopg.connect(database_url) as locking:
            locking.execute(f"lock table retoma.{table} in exclusive mode")
            gate.set()
            await killed_while_they_wait(psql, 1)
            locking.rollback()
        await until(lambda: executor.totals.completed == 1)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt, len(asked)) == (JobState.COMPLETED, 1, 1)


@pytest.mark.parametrize("table", ["jobs", "checkpoints", "attempts"])
async def test_a_backend_that_dies_inside_a_statement_costs_nothing(
    app_with: AppWith, psql: psycopg.Connection, database_url: str, table: str
) -> None:
    gate = asyncio.Event()

    @pipeline("quick", retry=ONCE)
    async def quick(number: int, run: Run) -> int:
        await gate.wait()
        return await run.step("double", lambda: 2 * number)

    app = await app_with(quick, poll_seconds=0.05)
    receipts = await app.enqueue_many(quick, range(4))
    async with working(app) as executor:
        await until(lambda: len(executor._running) == 4)
        with psycopg.connect(database_url) as locking:
            locking.execute(f"lock table retoma.{table} in exclusive mode")
            gate.set()
            await killed_while_they_wait(psql, 2)
            locking.rollback()
        await until(lambda: executor.totals.completed == 4)

    found = [await app.jobs.get(receipt.id) for receipt in receipts]
    assert {(job.state, job.attempt, job.fence) for job in found} == {(JobState.COMPLETED, 1, 1)}
    assert psql.execute("select count(*), max(generation) from retoma.checkpoints").fetchone() == (4, 1)


async def test_a_commit_whose_answer_cannot_be_understood_is_looked_for(
    app_with: AppWith, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    psql.execute("create table rows (number int)")
    odd: list[int] = []

    async def keep(connection: psycopg.AsyncConnection[Any], number: int) -> int:
        await connection.execute("insert into rows values (%s)", (number,))
        return number

    @pipeline("pooled", retry=ONCE)
    async def pooled(number: int, run: Run) -> int:
        return await run.transact("keep", keep, number)

    app = await app_with(pooled)
    receipt = await app.enqueue(pooled, 7)
    async with an_executor(app, 1, None) as executor:
        once = executor.journal._transactions.transaction

        @asynccontextmanager
        async def oddly() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
            async with once() as connection:
                yield connection
            odd.append(1)
            raise psycopg.InternalError("received 2 results from command 'COMMIT'")

        monkeypatch.setattr(executor.journal._transactions, "transaction", oddly)
        await executor.drain()

    job = await app.jobs.get(receipt.id)
    assert (odd, job.state, job.attempt) == ([1], JobState.COMPLETED, 1)
    assert psql.execute("select number from rows").fetchall() == [(7,)]


# — the first plain transaction —


async def test_an_outage_at_the_first_plain_transaction_heals(
    app_with: AppWith, psql: psycopg.Connection, server: str
) -> None:
    def keep(connection: psycopg.Connection[Any]) -> str:
        row = connection.execute("select current_database()").fetchone()
        assert row is not None
        return str(row[0])

    @pipeline("plain", retry=ONCE)
    def plain(_number: int, run: SyncRun) -> str:
        return run.transact("keep", keep)

    app = await app_with(plain, poll_seconds=0.05, connect_timeout=1)
    async with working(app) as executor:
        await executor.database.now()  # what queues and what writes endings is connected; soon what claims is, too
        connected = "select count(*) >= 3 from pg_stat_activity where datname = %s and application_name = 'retoma'"
        await until(lambda: psql.execute(connected, [psql.info.dbname]).fetchone() == (True,))
        change = f"alter database {psql.info.dbname} allow_connections"
        with psycopg.connect(server, autocommit=True) as other:
            other.execute(f"{change} false")  # who is connected stays
            first = await app.enqueue(plain, 1)
            await until(
                lambda: psql.execute("select 1 from retoma.attempts where reason = 'database'").fetchone() is not None
            )
            other.execute(f"{change} true")
        later = [await app.enqueue(plain, number) for number in range(2, 6)]
        await until(lambda: executor.totals.completed == 5)

    assert {(await app.jobs.get(each.id)).attempt for each in (first, *later)} == {1}


# — a server that does not answer —


@contextmanager
def stopped(psql: psycopg.Connection, pid: int) -> Iterator[None]:
    """A backend that does not move, while its connection stays open."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        psql.execute("select pg_terminate_backend(%s)", [pid])


PROCESS = Query("select pg_backend_pid()", int)


async def test_a_statement_without_an_answer_is_given_up_and_its_connection_with_it(
    database_url: str, psql: psycopg.Connection
) -> None:
    database = Database(database_url, Settings.load(), most=1, deadline=0.5)
    await database.open()
    [before] = await database.all(PROCESS)

    with stopped(psql, before):
        async with asyncio.timeout(240):
            with pytest.raises(StatementHung, match=r"did not answer within 0\.5 s"):
                await database.all(Query("select 1", int))
            [after] = await database.all(PROCESS)

    assert after != before
    await database.close()


async def test_what_can_be_repeated_is_repeated_on_another_connection(
    database_url: str, psql: psycopg.Connection
) -> None:
    database = Database(database_url, Settings.load(statement_seconds=0.4, answer_seconds=0.1), most=1)
    await database.open()
    [before] = await database.all(PROCESS)

    with stopped(psql, before):
        async with asyncio.timeout(240):
            [after] = await database.persist(PROCESS)

    assert after != before
    await database.close()


async def test_also_a_transaction_is_given_up(database_url: str, psql: psycopg.Connection) -> None:
    database = Database(database_url, Settings.load(), deadline=0.5)
    await database.open()

    async def inside() -> None:
        async with database.transaction() as connection:
            [pid] = await fetch(connection, PROCESS)
            with stopped(psql, pid):
                await connection.execute("select 1")

    async with asyncio.timeout(240):
        with pytest.raises(StatementHung):
            await inside()
        await database.all(PROCESS)
    await database.close()


def test_nor_do_those_wait_who_do_not_await(database_url: str, psql: psycopg.Connection) -> None:
    database = SyncDatabase(database_url, Settings.load(), most=1, deadline=0.5)
    database.open()
    [before] = database.all(PROCESS)

    with stopped(psql, before):
        with pytest.raises(StatementHung, match=r"did not answer within 0\.5 s"):
            database.all(Query("select 1", int))
        [after] = database.all(PROCESS)

    assert after != before
    database.close()


async def test_a_statement_that_is_slow_and_within_its_time_is_not_given_up(database_url: str) -> None:
    database = Database(database_url, Settings.load(), deadline=20.0)
    await database.open()

    slow = Query("select pg_backend_pid() from pg_sleep(1.2)", int)
    assert await database.all(slow) == await database.all(PROCESS)
    await database.close()


async def test_an_answer_that_is_here_and_only_unread_is_not_given_up(database_url: str) -> None:
    database = Database(database_url, Settings.load(), most=1, deadline=0.5)
    await database.open()
    [before] = await database.all(PROCESS)

    asking = asyncio.ensure_future(database.all(PROCESS))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    threading.Event().wait(2.0)  # a handler that stops the loop; the answer lies in the socket

    assert await asking == [before]
    await database.close()


# — the executor's own life —


async def test_a_job_that_nobody_here_knows_of_is_given_back_and_runs_elsewhere(
    app_with: AppWith, psql: psycopg.Connection, heard: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    @pipeline("leaked", retry=ONCE)
    async def leaked(number: int, _run: Run) -> int:
        done.append(number)
        return number

    app = await app_with(leaked, poll_seconds=0.05, heartbeat_seconds=0.2, lease_seconds=30.0)
    async with working(app) as first:
        take, dropped = first._take, []

        def drop(claims: Any) -> None:
            if not dropped and claims:
                dropped.extend(claims)
                first.stop()  # and claims nothing more itself
                first.draining = False
            else:
                take(claims)

        monkeypatch.setattr(first, "_take", drop)
        monkeypatch.setattr(first, "_room", lambda: 0 if dropped else 4)
        receipts = await app.enqueue_many(leaked, range(3))
        await until(lambda: dropped)
        async with working(app) as second:
            await until(lambda: second.totals.completed == len(receipts))

    assert sorted(done) == [0, 1, 2]
    forgotten = [event for event in heard if isinstance(event, JobForgotten)]
    assert sorted(event.job for event in forgotten) == sorted(claim.id for claim in dropped)
    endings = psql.execute("select ending, reason, count(*) from retoma.attempts group by 1, 2 order by 1").fetchall()
    assert endings == [("completed", None, 3), ("released", "forgotten", len(dropped))]
    assert {job.attempt for job in await app.jobs.find()} == {1}, "being forgotten costs no attempt"


async def test_what_is_known_is_not_given_back(app_with: AppWith, heard: list[Event]) -> None:
    """Jobs that run, wait here, or whose ending waits for the database, over many looks."""
    gate = asyncio.Event()

    @pipeline("kept", retry=ONCE)
    async def kept(_number: int, _run: Run) -> None:
        await gate.wait()

    app = await app_with(kept, poll_seconds=0.05, heartbeat_seconds=0.02)
    await app.enqueue_many(kept, range(6))
    looks = 0
    async with working(app, at_once=3) as executor:
        held = executor._claimer.held

        async def counted() -> Any:
            nonlocal looks
            looks += 1
            return await held()

        executor._claimer.held = counted  # type: ignore[method-assign]
        end = executor.journal._endings._write

        async def slowly(group: Any) -> Any:
            before = looks
            while looks < before + 3:
                await asyncio.sleep(0.01)
            return await end(group)

        executor.journal._endings._write = slowly
        await until(lambda: looks > 5)
        gate.set()
        await until(lambda: executor.totals.completed == 6)

    assert not [event for event in heard if isinstance(event, JobForgotten)]


async def test_an_answer_to_a_claim_that_is_still_looked_for_is_known(app_with: AppWith) -> None:
    @pipeline("doubted", retry=ONCE)
    async def doubted(_number: int, _run: Run) -> None: ...

    app = await app_with(doubted, heartbeat_seconds=0.02)
    await app.enqueue_many(doubted, range(3))
    async with an_executor(app, 3, None) as executor:
        claiming = executor._claimer
        claims = await claiming.claim(3)
        [(_, token), *_] = await claiming.held()
        assert token is not None
        assert not claiming.knows(token), "they were handed over"
        claiming._doubts[token] = (0.0, set())
        assert claiming.knows(token)
        executor._take(claims)
        await executor.drain()


async def test_an_executor_whose_loop_fails_says_so_and_blames_no_job(
    app_with: AppWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    @pipeline("innocent", retry=ONCE)
    async def innocent(_: None, _run: Run) -> None:
        await gate.wait()

    app = await app_with(innocent, poll_seconds=0.05)
    await app.enqueue(innocent, None)
    async with an_executor(app, 2, None) as executor:
        running = asyncio.create_task(executor.run())
        await until(executor.board.notes)

        def fail() -> None:
            raise RuntimeError("planted")

        monkeypatch.setattr(executor, "_overdue", fail)
        with pytest.raises(RuntimeError, match="planted"):
            async with asyncio.timeout(20):
                await running
        assert not executor.board.notes()
        gate.set()
        await until(lambda: not executor._running)


async def test_a_listener_that_fails_leaves_no_job_without_an_ending(
    app_with: AppWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    @pipeline("told", retry=ONCE)
    async def told(number: int, _run: Run) -> int:
        return number

    def broken(kind: type, _facts: object) -> None:
        if kind is AttemptStarted:
            raise OSError("no words")

    app = await app_with(told)
    receipt = await app.enqueue(told, 1)
    monkeypatch.setattr("retoma.worker.executor.heard", lambda _kind: True)
    monkeypatch.setattr("retoma.worker.executor.emit_all", broken)
    await drain(app)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.reason) == (JobState.FAILED, "OSError")


async def test_a_configuration_that_could_not_be_read_is_asked_for_again(
    app_with: AppWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    @pipeline("configured", retry=Retry(attempts=2, wait=0.0))
    async def configured(_number: int, run: Run) -> str:
        return str(run.configuration["model"])

    app = await app_with(configured)
    batch = await app.batch(configured, [1, 2, 3], name="b", configuration={"model": "m"})
    async with an_executor(app, 3, None) as executor:
        ask, refused = executor.database.all, []

        async def refuse_once(query: Query[Any]) -> list[Any]:
            if query.sql == batches.SQL["configuration"] and not refused:
                refused.append(query)
                raise psycopg.errors.NumericValueOutOfRange("planted")
            return await ask(query)

        monkeypatch.setattr(executor.database, "all", refuse_once)
        await executor.drain()

    assert refused
    assert batch.total == 3
    assert {job.state for job in await app.jobs.find()} == {JobState.COMPLETED}


async def test_a_handler_that_swallowed_a_cancellation_and_is_cancelled_by_what_it_awaits_has_failed(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    @pipeline("oldlib", retry=Retry(attempts=3, wait=0.0))
    async def oldlib(_: None, _run: Run) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):  # without uncancel(), as all did before Python 3.11
            await asyncio.sleep(60)
        assert task.cancelling()
        raise asyncio.CancelledError

    app = await app_with(oldlib)
    receipt = await app.enqueue(oldlib, None)
    await drain(app)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt, job.reason) == (JobState.FAILED, 3, "RuntimeError")
    assert psql.execute("select ending, count(*) from retoma.attempts group by 1").fetchall() == [("failed", 3)]


# — large results —


async def test_groups_of_endings_and_saves_are_cut_by_bytes(app_with: AppWith, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()

    async def read(megabytes: int) -> str:
        await gate.wait()
        return "x" * megabytes * 1_000_000

    @pipeline("large", retry=ONCE)
    async def large(megabytes: int, run: Run) -> str:
        return await run.step("read", read, megabytes)

    app = await app_with(large)
    await app.enqueue_many(large, [3] * 9 + [12])
    sizes: dict[str, list[int]] = {"saves": [], "endings": []}
    async with an_executor(app, 10, None) as executor:
        ask = executor.database.all

        async def measured(query: Query[Any]) -> list[Any]:
            if query.sql == checkpoints.SQL["save"]:
                sizes["saves"].append(len(query.params["saved_values"]))
            if query.sql == jobs.SQL["end_alone"]:
                sizes["endings"].append(len(query.params["outputs"]))
            return await ask(query)

        monkeypatch.setattr(executor.database, "all", measured)
        draining = asyncio.create_task(executor.drain())
        await until(lambda: len(executor._running) == 10)
        gate.set()
        await draining
        assert executor.totals.completed == 10

    for each in sizes.values():
        assert sum(each) > 39_000_000
        assert max(each) < 12_100_000, "one that is longer than a group goes alone"
        assert sorted(each)[-2] < 8_100_000


async def test_a_group_that_takes_too_long_is_halved_until_it_can_be_written(
    database: Database, app_with: AppWith, psql: psycopg.Connection
) -> None:
    """The server ends a statement of more than two endings, as a slow one does with a large group."""

    @pipeline("slow", retry=ONCE)
    async def slow(number: int, _run: Run) -> int:
        return number

    app = await app_with(slow)
    await app.enqueue_many(slow, range(10))
    async with an_executor(app, 10, None) as executor:
        claims = await executor._claimer.claim(10)
        psql.execute(
            "create function too_many() returns trigger language plpgsql as $$ begin"
            " if (select count(*) from ended) > 2 then raise exception using errcode = '57014'; end if;"
            " return null; end $$;"
            "create trigger too_many after insert on retoma.attempts referencing new table as ended"
            " for each statement execute function too_many()"
        )
        ended: list[tuple[int, str | None]] = []
        ledger = Journal(
            database,
            executor.worker_id,
            ended=lambda group: ended.extend((each.id, state) for each, state in group),
            lost=lambda *_: None,
        )
        for claim in claims:
            ledger.end(Ended(claim, "completed", output="1"))
        async with asyncio.timeout(240):
            await ledger.settled()

    assert sorted(ended) == [(claim.id, "completed") for claim in sorted(claims, key=lambda each: each.id)]


async def test_an_output_that_the_database_refuses_fails_its_own_job_and_no_other(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    @pipeline("checked", retry=ONCE)
    async def checked(number: int, _run: Run) -> int:
        return number

    app = await app_with(checked)
    receipts = await app.enqueue_many(checked, range(20))
    psql.execute("alter table retoma.jobs add constraint planted check (output::text <> '7')")
    await drain(app, at_once=20)

    states = {number: await app.jobs.get(receipt.id) for number, receipt in enumerate(receipts)}
    assert {number for number, job in states.items() if job.state is not JobState.COMPLETED} == {7}
    assert (states[7].state, states[7].reason) == (JobState.FAILED, "unstorable")
    assert "CheckViolation" in (states[7].error or "")


# — reading back —


async def test_long_values_are_read_when_their_step_asks_for_them(
    app_with: AppWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def page(name: str, letters: int) -> str:
        done.append(name)
        return name.ljust(letters, "x")

    @pipeline("book", retry=Retry(attempts=2, wait=0.0))
    async def book(_: None, run: Run) -> list[int]:
        read = [len(await run.step(f"page/{number}", page, f"page/{number}", 200_000)) for number in range(5)]
        short = await run.step("short", page, "short", 10)
        if run.attempt == 1:
            raise ConnectionError("the first attempt stops here")
        return [*read, len(short)]

    app = await app_with(book)
    receipt = await app.enqueue(book, None)
    async with an_executor(app, 1, None) as executor:
        ask, recalled, fetched = executor.database.all, [], []

        async def noted(query: Query[Any]) -> list[Any]:
            rows = await ask(query)
            if query.sql == checkpoints.SQL["of"]:
                recalled.extend(rows)
            if query.sql == checkpoints.SQL["value"]:
                fetched.append(query.params["step"])
            return rows

        monkeypatch.setattr(executor.database, "all", noted)
        await executor.drain()

    assert await app.jobs.output(book, receipt.id) == [200_000] * 5 + [10]
    assert {each.step: each.value is None for each in recalled} == {
        **{f"page/{number}": True for number in range(5)},
        "short": False,
    }
    assert fetched == [f"page/{number}" for number in range(5)]
    assert sorted(done) == sorted([f"page/{number}" for number in range(5)] + ["short"]), "nothing was done again"
