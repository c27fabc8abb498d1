"""A database that lives and cannot work: read-only, refusing, silent, failing over. It is waited out: no attempt is
charged, nothing is dropped, nothing is paid twice, and no process lives on without working.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sick_app
import sick_paid_app
from fleet import Fleet, Member, until
from oracle import Oracle
from paid_app import MODEL, PROVIDER, PROVIDERS
from proxy import Proxy

from retoma import Retoma
from retoma.testing.billing import Biller

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

LEASE = 30  # longer than any window here: what is shown is the waiting, not the recovery


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Retoma]:
    async with Retoma(
        fleet.url, pipelines=[sick_app.six, sick_app.plainly, sick_paid_app.paid], providers=PROVIDERS
    ) as app:
        yield app


@pytest.fixture
def biller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Biller]:
    with Biller(tmp_path / "bill.jsonl", seconds=5.0) as biller:
        monkeypatch.setenv("PAID_URL", biller.base_url)
        yield biller


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where a file plants a fault."""
    folder = tmp_path / "planted"
    folder.mkdir()
    monkeypatch.setenv("PLANTED", str(folder))
    return folder


def start(fleet: Fleet, label: str, *, app: str = "sick_app:app", at_once: int = 10, **settings: object) -> Member:
    return fleet.start(label, app=app, at_once=at_once, **{"lease_seconds": LEASE, **settings})


def cut(oracle: Oracle) -> None:
    oracle.connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where pid <> pg_backend_pid() and datname = current_database() and application_name = 'retoma'"
    )


@contextmanager
def read_only(oracle: Oracle) -> Iterator[None]:
    name = oracle.connection.info.dbname
    oracle.connection.execute(f"alter database {name} set default_transaction_read_only = on")
    cut(oracle)
    yield
    oracle.connection.execute(f"alter database {name} reset default_transaction_read_only")
    cut(oracle)


def said(members: list[Member], doing: str) -> set[str]:
    """The errors that were told of while *doing* something."""
    return {event["error"] for each in members for event in each.events("database.lost") if event["doing"] == doing}


def nothing_was_charged(oracle: Oracle, many: int) -> None:
    assert oracle.states() == {"completed": many}
    rows = oracle.rows("select distinct job.attempt, job.crashes from retoma.jobs as job where job.queue <> 'retoma'")
    assert rows == [(1, 0)], "an attempt or a crash was charged"
    bad = oracle.rows(
        "select ending, reason, error from retoma.attempts"
        " where ending not in ('completed', 'released') and not (ending = 'postponed' and reason = 'database')"
    )
    assert not bad
    oracle.nothing_is_wrong()


def log_is_quiet(member: Member) -> None:
    for doing in ("claiming", "saving steps", "writing endings"):
        told = [event for event in member.events("database.lost") if event["doing"] == doing]
        assert len(told) < 8, "a line for each try"
    assert "never retrieved" not in member.words()


async def test_a_read_only_window_costs_nothing_and_what_was_paid_is_kept(
    fleet: Fleet, oracle: Oracle, app: Retoma, biller: Biller
) -> None:
    await app.calls.set_price(PROVIDER, MODEL, input=1, output=1)
    members = [start(fleet, label, app="sick_paid_app:app") for label in ("ana", "bruno")]
    executors = [await member.ready() for member in members]
    asked = await app.enqueue_many(sick_paid_app.paid, range(2))
    receipts = await app.enqueue_many(sick_app.six, [1.0] * 18)
    await until(lambda: len({mark.job for mark in oracle.marks("began")}) == 20, what="all have begun")
    await until(lambda: oracle.one("select count(*) from retoma.calls") == 2, what="both ask")
    with read_only(oracle):
        await until(lambda: len(biller.bill.calls) == 2, what="the answers come while nothing can be written")
        await until(lambda: "ReadOnlySqlTransaction" in said(members, "saving steps"), what="a save was refused")
        await until(lambda: all("ReadOnlySqlTransaction" in member.words() for member in members), what="both met it")
        await asyncio.sleep(2.0)  # the window; steps that are done meanwhile wait to be saved
    await until(oracle.all_ended, what="all jobs end")

    nothing_was_charged(oracle, len(receipts) + len(asked))
    assert [member.executors() for member in members] == executors, "an executor was replaced"
    assert sorted(biller.bill.by_request.values()) == [1, 1], "each question was paid once"
    assert oracle.rows("select state, count(*) from retoma.calls group by 1") == [("answered", 2)]
    assert await app.system.verify() == []
    for member in members:
        log_is_quiet(member)


async def test_a_failover_that_cuts_then_refuses_then_cuts_again_costs_nothing(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    members = [start(fleet, label) for label in ("ana", "bruno")]
    for member in members:
        await member.ready()
    receipts = await app.enqueue_many(sick_app.six, [0.1] * 20)
    plain = await app.enqueue_many(sick_app.plainly, range(10))
    await until(lambda: len({mark.job for mark in oracle.marks("began")}) >= 10, what="they have begun")
    for _ in range(3):
        cut(oracle)
        with read_only(oracle):
            await asyncio.sleep(0.7)
        await asyncio.sleep(0.3)
    await until(oracle.all_ended, what="all jobs end")

    nothing_was_charged(oracle, len(receipts) + len(plain))


async def test_a_permission_that_was_taken_and_given_again_costs_nothing(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    role = f"clerk_{os.getpid()}"
    oracle.connection.execute(
        f"create role {role} login password 'clerk';"
        f"grant usage on schema retoma to {role}; grant all on all tables in schema retoma, public to {role};"
        f"grant all on all sequences in schema retoma, public to {role}"
    )
    url = fleet.url.partition("://")[0] + f"://{role}:clerk@" + fleet.url.rpartition("@")[2]
    try:
        members = [start(fleet, "ana", url=url)]
        await members[0].ready()
        receipts = await app.enqueue_many(sick_app.six, [0.2] * 12)
        await until(lambda: len({mark.job for mark in oracle.marks("began")}) >= 8, what="they have begun")
        change = f"insert, update on retoma.jobs, retoma.checkpoints, retoma.attempts {{}} {role}"
        oracle.connection.execute("revoke " + change.format("from"))
        await until(lambda: "InsufficientPrivilege" in said(members, "saving steps"), what="a save was refused")
        await asyncio.sleep(1.0)
        oracle.connection.execute("grant " + change.format("to"))
        await until(oracle.all_ended, what="all jobs end")
    finally:
        fleet.clear_away()
        oracle.connection.execute(f"drop owned by {role}; drop role {role}")

    nothing_was_charged(oracle, len(receipts))


async def test_a_server_that_takes_statements_and_answers_none_is_noticed(
    fleet: Fleet, oracle: Oracle, app: Retoma, database_url: str
) -> None:
    async with Proxy(database_url) as proxy:
        member = start(fleet, "ana", url=proxy.url, statement_seconds=2, answer_seconds=1)
        executors = await member.ready()
        receipts = await app.enqueue_many(sick_app.six, [1.0] * 10)
        await until(lambda: len({mark.job for mark in oracle.marks("done")}) >= 8, what="they have saved a step")
        silent = list(proxy.wires)
        for wire in silent:
            wire.swallowing = True  # TCP stays up; new connections would be served
        await until(oracle.all_ended, what="all jobs end")
        assert member.executors() == executors

    assert "StatementHung" in member.words()
    nothing_was_charged(oracle, len(receipts))


async def test_an_executor_whose_loop_fails_ends_at_once_and_one_that_forgets_a_job_gives_it_back(
    fleet: Fleet, oracle: Oracle, app: Retoma, planted: Path
) -> None:
    member = start(fleet, "ana", at_once=4)
    [first] = await member.ready()
    running = await app.enqueue_many(sick_app.six, [0.5] * 4)
    await until(lambda: len({mark.job for mark in oracle.marks("began")}) >= 4, what="they have begun")
    (planted / "loop").touch()
    await until(lambda: member.executors() not in ([first], []), what="another executor took its place")
    assert "planted: the main loop fails" in member.words()
    await until(oracle.all_ended, what="they went on in the other")
    assert not (planted / "loop").exists()

    (planted / "leak").touch()
    leaked = await app.enqueue_many(sick_app.six, [0.0] * 3)
    await until(oracle.all_ended, what="what was forgotten was given back")

    assert not (planted / "leak").exists()
    assert member.events("job.forgotten")
    nothing_was_charged(oracle, len(running) + len(leaked))
