"""Quotes by as many workers as the seed asks for, and by one that goes over its limit of memory."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from fleet import Fleet, Member, until
from oracle import Oracle

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import read_text

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900), pytest.mark.usefixtures("crowd")]

REPLICAS, AT_ONCE = 5, 20
OWN = 12
GIGABYTES = 2
COST = Decimal("0.01")


@pytest.fixture
async def library(fleet: Fleet) -> AsyncIterator[Quotes]:
    async with Retoma(fleet.url, extensions=[QUOTES]) as app:
        for model in ("search", "product"):
            await app.calls.set_price("shopping", model, unit=COST)
        yield Quotes(app)


def processes(member: Member) -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in (member.pid, *member.executors())]


def bill(fleet: Fleet) -> Counter[str]:
    file = fleet.folder / "bill.log"
    return Counter(file.read_text().splitlines() if file.exists() else [])


async def test_five_workers_of_twenty_do_a_hundred_quotes_at_once_with_postgresql_alone(
    fleet: Fleet, oracle: Oracle, library: Quotes, figure: Callable[[str, object], None]
) -> None:
    halt = Path(fleet.folder / "halt")
    halt.mkdir()
    (halt / "page").touch()
    workers = [
        fleet.start(f"worker-{number}", app="quotes_app:app", queues=["quotes"], at_once=AT_ONCE, lease_seconds=30)
        for number in range(REPLICAS)
    ]
    listed = read_text(";".join(f"Mesa {number}" for number in range(REPLICAS * AT_ONCE)))
    id, _ = await library.create_batch(listed, name="Cem")

    def held() -> list[int]:
        rows = "select count(*) from retoma.jobs where state = 'running' and pipeline = 'process-quote'"
        return [count for (count,) in oracle.rows(f"{rows} group by worker_id order by 1")]

    await until(lambda: held() == [AT_ONCE] * REPLICAS, seconds=400, what="each worker holds twenty quotes")
    await until(
        lambda: sum(times for line, times in bill(fleet).items() if line.startswith("page ")) == REPLICAS * AT_ONCE,
        seconds=400,
        what="a hundred pages are being read",
    )
    at_work = await library.stats()
    everybody = [each for worker in workers for each in processes(worker)]
    spoken_to = {each.raddr.port for one in everybody for each in one.net_connections("tcp") if each.raddr}
    connections = oracle.rows(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and application_name like 'retoma%%'"
    )[0][0]
    memory = [sum(each.memory_info().rss for each in processes(worker)) for worker in workers]
    figure("connections of five workers", connections)
    figure("largest worker in MB", max(memory) >> 20)
    (halt / "page").unlink()

    def ended() -> bool:
        return bool(oracle.rows("select 1 from retoma.batches where id = %s and state = 'completed'", id))

    await until(ended, seconds=400, what="all quotes are done")
    standing, now = await library.batch_status(id), await library.stats()

    assert at_work.total_processing == REPLICAS * AT_ONCE
    assert spoken_to == {urlsplit(fleet.url).port}, "no broker, and nobody else"
    assert connections <= REPLICAS * (AT_ONCE + OWN), "each has one for each quote at most, and a few for itself"
    assert max(memory) < GIGABYTES << 30
    assert standing.status_distribution == {"DONE": REPLICAS * AT_ONCE}
    assert (now.total_processing, now.stuck_count) == (0, 0)
    oracle.nothing_is_wrong()


async def test_two_of_five_workers_killed_leave_no_quote_stuck(fleet: Fleet, oracle: Oracle, library: Quotes) -> None:
    halt = Path(fleet.folder / "halt")
    halt.mkdir()
    (halt / "page").touch()
    workers = [
        fleet.start(f"worker-{number}", app="quotes_app:app", queues=["quotes"], at_once=4, watchdog_seconds=0.5)
        for number in range(REPLICAS)
    ]
    listed = read_text(";".join(f"Mesa {number}" for number in range(20)))
    id, _ = await library.create_batch(listed, name="Vinte")
    await until(lambda: bill(fleet)["page https://a.com.br/a"] == 20, seconds=300, what="twenty pages are being read")
    for worker in workers[:2]:
        worker.send(signal.SIGKILL, executors=True)
    (halt / "page").unlink()

    def ended() -> bool:
        return bool(oracle.rows("select 1 from retoma.batches where id = %s and state = 'completed'", id))

    await until(ended, seconds=300, what="all quotes are done")
    stats = await library.stats()

    assert (await library.batch_status(id)).status_distribution == {"DONE": 20}
    assert (stats.stuck_count, stats.total_processing) == (0, 0)
    assert await library.stuck() == []
    recovered = oracle.rows("select count(*) from quotes.quote_requests where attempt_number = 2")
    assert recovered == [(8,)], "those of the two that were killed"
    assert all(times == 1 for line, times in bill(fleet).items() if line.startswith("search ")), "none was paid twice"
    oracle.nothing_is_wrong()


@pytest.mark.parametrize("how", ["killed", "refused"])
async def test_a_worker_over_its_limit_of_memory_costs_a_quote_nothing_but_time(
    fleet: Fleet, oracle: Oracle, library: Quotes, how: str
) -> None:
    """Either the machine kills a process that is over its limit, or it gives it no more."""
    hunger = fleet.folder / "hunger"
    hunger.touch()
    worker = fleet.start(
        "ana", app="quotes_hungry_app:app", queues=["quotes"], at_once=5, watchdog_seconds=0.5, lease_seconds=30
    )
    (pid,) = await worker.ready()
    executor = psutil.Process(pid)
    if how == "refused":
        space = executor.memory_info().vms + (100 << 20)
        executor.rlimit(psutil.RLIMIT_AS, (space, space))
    limit = executor.memory_info().rss + (100 << 20)
    id = await library.create("Mesa")
    if how == "killed":
        await until(lambda: executor.memory_info().rss > limit, what="it is over its limit")
        executor.kill()
    else:
        failed = "select 1 from retoma.attempts where reason = 'MemoryError' or error like '%%MemoryError%%'"
        await until(lambda: oracle.rows(failed), what="an attempt had no memory")
    before = bill(fleet)
    hunger.unlink()

    def ended() -> bool:
        return bool(oracle.rows("select 1 from quotes.quote_requests where id = %s and status = 'DONE'", id))

    await until(ended, what="the quote is done")
    quote = await library.quote(id)
    after = bill(fleet)

    assert before["search mesa"] == after["search mesa"] == 1, "the search was not paid again"
    assert before["product a"] == after["product a"] == 1
    assert quote.attempt_number == (2 if how == "killed" else 1)
    assert len(await library.sources(id)) == 3
    oracle.nothing_is_wrong()
