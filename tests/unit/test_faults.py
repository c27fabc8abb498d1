"""Only the row's own data can be at fault: every other error of the database is waited for, and told once."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from retoma.errors import DatabaseUnreachable, StepsFailed
from retoma.postgres import faults
from retoma.postgres.faults import (
    Outages,
    StatementHung,
    is_lost,
    is_our_outage,
    is_refused,
    jitter,
    must_wait,
    note_ours,
    retrying,
)
from retoma.telemetry import Event, listen
from retoma.telemetry.events import DatabaseLost


@pytest.mark.parametrize(
    "error",
    [
        pg.NumericValueOutOfRange(),
        pg.UntranslatableCharacter(),
        pg.InvalidTextRepresentation(),
        pg.CheckViolation(),
        pg.UniqueViolation(),
        pg.ForeignKeyViolation(),
        pg.StatementTooComplex(),
        psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"),
        ValueError("surrogates not allowed"),
        TypeError("not a number"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_data_is_to_blame_for_is_refused(error: Exception) -> None:
    assert is_refused(error)
    assert not must_wait(error)
    assert not is_lost(error)


@pytest.mark.parametrize(
    "error",
    [
        pg.ReadOnlySqlTransaction(),
        pg.InsufficientPrivilege(),
        pg.UndefinedTable(),
        pg.DiskFull(),
        pg.OutOfMemory(),
        pg.TooManyConnections(),
        pg.QueryCanceled(),
        pg.LockNotAvailable(),
        pg.IoError(),
        pg.InternalError_(),
        pg.DataCorrupted(),
        pg.SerializationFailure(),
        pg.DeadlockDetected(),
        pg.InvalidPassword(),
        pg.FeatureNotSupported(),
        pg.InFailedSqlTransaction(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_server_could_not_do_is_waited_for_and_was_surely_not_done(error: Exception) -> None:
    assert must_wait(error)
    assert not is_refused(error)
    assert not is_lost(error)
    assert isinstance(error, faults.TRANSIENT)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("server closed the connection unexpectedly"),
        psycopg.InterfaceError("the connection is closed"),
        psycopg.InternalError("received 2 results from command 'COMMIT'"),
        pg.ProtocolViolation(),
        pg.ConnectionFailure(),
        pg.AdminShutdown(),
        pg.CrashShutdown(),
        pg.CannotConnectNow(),
        PoolTimeout("no connection in time"),
        StatementHung("no answer"),
    ],
    ids=str,
)
def test_of_what_was_lost_nobody_knows_whether_it_was_done(error: Exception) -> None:
    assert is_lost(error)
    assert must_wait(error)


def test_a_pool_that_we_closed_is_not_waited_for() -> None:
    assert not must_wait(PoolClosed("closed"))
    assert not is_lost(PoolClosed("closed"))


def test_only_our_own_database_excuses_a_handler() -> None:
    ours, theirs, late = pg.ReadOnlySqlTransaction(), pg.ReadOnlySqlTransaction(), pg.IdleInTransactionSessionTimeout()
    data = pg.CheckViolation()
    for error in (ours, late, data):
        note_ours(error)

    assert is_our_outage(ours)
    assert is_our_outage(DatabaseUnreachable("away"))
    assert not is_our_outage(theirs)
    assert not is_our_outage(data)
    assert not is_our_outage(late), "the handler kept its transaction open for too long"
    assert is_our_outage(StepsFailed("both", failures=[("a", ours), ("b", DatabaseUnreachable("away"))]))
    assert not is_our_outage(StepsFailed("one", failures=[("a", ours), ("b", ValueError())]))
    assert is_our_outage(ExceptionGroup("all", [ours]))
    assert not is_our_outage(ExceptionGroup("some", [ours, theirs]))


@pytest.fixture
def told() -> Iterator[list[Event]]:
    events: list[Event] = []
    end = listen(events.append)
    yield events
    end()


async def test_what_can_be_repeated_is_tried_until_the_database_has_done_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "jitter", lambda *_, **__: 0.0)
    answers: list[Exception | str] = [pg.ReadOnlySqlTransaction(), DatabaseUnreachable("away"), "done"]

    async def do() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await retrying(do) == "done"


@pytest.mark.parametrize("error", [pg.CheckViolation(), PoolClosed("closed"), KeyError("a fault of ours")])
async def test_what_would_fail_each_time_is_tried_once(error: Exception) -> None:
    tries = []

    async def do() -> None:
        tries.append(1)
        raise error

    with pytest.raises(type(error)):
        await retrying(do)
    assert len(tries) == 1


async def test_who_must_go_does_not_wait_for_the_database(told: list[Event]) -> None:
    async def do() -> None:
        raise pg.ReadOnlySqlTransaction

    with pytest.raises(pg.ReadOnlySqlTransaction):
        await retrying(do, doing="handing back", outages=Outages(), until=lambda: True)
    assert told == [DatabaseLost(doing="handing back", error="ReadOnlySqlTransaction")]


def test_an_outage_may_last_for_any_number_of_tries() -> None:
    assert all(0.0 <= jitter(attempt) <= 5.0 for attempt in (1, 100, 5000, 10**9))


def test_an_outage_is_told_when_it_begins_and_then_at_growing_intervals(
    told: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(faults.time, "monotonic", lambda: now)
    outages = Outages()
    for _ in range(3000):
        outages.tell("claiming", pg.ReadOnlySqlTransaction())
        now += 0.1

    assert len(told) == 5  # at 0, 10, 30, 70 and 150 s, of 300
    assert told[0] == DatabaseLost(doing="claiming", error="ReadOnlySqlTransaction")

    outages.tell("saving steps", pg.ReadOnlySqlTransaction())
    assert len(told) == 6, "another thing that waits is told for itself"
    for _ in range(5):
        outages.tell("claiming", pg.DiskFull())
    assert told[6:] == [DatabaseLost(doing="claiming", error="DiskFull")], "and another error once"
    now += 3600
    outages.tell("claiming", pg.DiskFull())
    assert len(told) == 8, "after a long silence it is news again"
