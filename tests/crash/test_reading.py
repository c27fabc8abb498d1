"""Documents handed in to a service that reads them for money: killed while they are looked for, and paid once."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
import reading_app
from fleet import LEASE, Fleet, Member, until
from oracle import Oracle
from reading_app import MODEL, PROVIDER, sha256_of

from retoma import Retoma
from retoma.model.batch import Batch
from retoma.testing.wire import Fault, Served

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

Figure = Callable[[str, object], None]
SERVICES = Path(__file__).parents[1] / "servers" / "services.py"
LOOKS = "/analyzeResults/"
RUNNING = Fault(kind="answer", body='{"status": "running"}', path=LOOKS, times=None)
PAGE = Decimal("0.01")
PAGES = 3
"""Of every document, as the service counts them."""


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with Served(str(SERVICES)) as served:
        monkeypatch.setenv("READING_URL", served.url)
        yield served


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Retoma]:
    async with Retoma(fleet.url, pipelines=reading_app.PIPELINES, providers=reading_app.PROVIDERS) as app:
        await app.calls.set_price(PROVIDER, MODEL, unit=PAGE)
        yield app


def start(fleet: Fleet, label: str, **settings: object) -> Member:
    """A busy machine must not cost it its lease, where that is not the story."""
    return fleet.start(label, app="reading_app:app", at_once=8, **{"lease_seconds": 30, **settings})


def papers(folder: Path, count: int) -> list[str]:
    found = []
    for number in range(count):
        path = folder / f"paper-{number}.pdf"
        path.write_bytes(f"%PDF-1.7 {number}".encode())
        found.append(str(path))
    return found


def submitted(services: Served) -> Counter[str]:
    """How often the service took in each document, ever."""
    return Counter(each["sha256"] for each in services.control("GET", "/_told")["submitted"])


def looked_for(services: Served) -> set[str]:
    return {each["path"] for each in services.heard() if LOOKS in each["path"]}


def calls(oracle: Oracle) -> Counter[tuple[str, str]]:
    return Counter(oracle.rows("select kind, state from retoma.calls"))


async def until_completed(oracle: Oracle, batch: Batch, seconds: float = 240.0) -> None:
    await until(lambda: oracle.batch(batch.id)[0] == "completed", seconds=seconds, what="all are read")


async def all_read_once(app: Retoma, oracle: Oracle, batch: Batch, files: list[str]) -> None:
    jobs = oracle.jobs(batch.id)
    assert oracle.states(jobs) == {"completed": len(files)}
    assert oracle.effects() == {(job, "record"): 1 for job in jobs}
    oracle.nothing_is_wrong()
    assert await app.system.verify() == []


@pytest.mark.parametrize("supervisor", [False, True], ids=["the executor", "all of it"])
async def test_a_worker_killed_while_it_looks_hands_nothing_in_again(
    fleet: Fleet, oracle: Oracle, app: Retoma, services: Served, *, supervisor: bool
) -> None:
    files = papers(fleet.folder, 5)
    services.tell(RUNNING)
    member = start(fleet, "ana", lease_seconds=LEASE)
    batch = await app.batch(reading_app.read, files, name="killed", stall_seconds=300)
    await until(lambda: len(looked_for(services)) == len(files), what="each is looked for")
    assert oracle.rows("select distinct state, request_id is not null from retoma.calls") == [("open", True)]

    member.send(signal.SIGKILL, executors=True, supervisor=supervisor)
    if supervisor:
        start(fleet, "bruno", lease_seconds=LEASE)
    await until(lambda: oracle.lost() >= len(files), what="their attempts are lost")
    services.tell()
    await until_completed(oracle, batch)

    assert submitted(services) == {sha256_of(file): 1 for file in files}
    assert calls(oracle) == {("first", "answered"): len(files)}
    assert oracle.rows("select spent, reserved from retoma.batches") == [(len(files) * PAGES * PAGE, 0)]
    await all_read_once(app, oracle, batch, files)


async def test_what_a_frozen_worker_looks_for_is_found_by_another_and_the_thawed_one_changes_nothing(
    fleet: Fleet, oracle: Oracle, app: Retoma, services: Served
) -> None:
    files = papers(fleet.folder, 2)
    services.tell(RUNNING)
    frozen = start(fleet, "ana", lease_seconds=LEASE)
    batch = await app.batch(reading_app.read, files, name="frozen", stall_seconds=300)
    await until(lambda: len(looked_for(services)) == len(files), what="each is looked for")
    frozen.send(signal.SIGSTOP, executors=True)
    services.tell()
    start(fleet, "bruno", lease_seconds=LEASE)
    await until_completed(oracle, batch)
    before = oracle.rows("select * from retoma.calls order by id")
    frozen.wake()
    await until(lambda: frozen.executors() and frozen.events("executor.crashed"), what="it has begun anew")

    assert oracle.rows("select * from retoma.calls order by id") == before
    assert submitted(services) == {sha256_of(file): 1 for file in files}
    await all_read_once(app, oracle, batch, files)


async def test_what_the_service_forgot_meanwhile_is_handed_in_anew_and_the_first_is_in_doubt(
    fleet: Fleet, oracle: Oracle, app: Retoma, services: Served
) -> None:
    files = papers(fleet.folder, 2)
    services.tell(RUNNING)
    member = start(fleet, "ana", lease_seconds=LEASE)
    batch = await app.batch(reading_app.read, files, name="forgotten", stall_seconds=300)
    await until(lambda: len(looked_for(services)) == len(files), what="each is looked for")
    gone = [Fault(kind="answer", status=404, path=path, times=None) for path in looked_for(services)]
    member.send(signal.SIGKILL, executors=True)
    services.tell(*gone)
    start(fleet, "bruno")
    await until_completed(oracle, batch)

    assert submitted(services) == {sha256_of(file): 2 for file in files}
    assert calls(oracle) == {("first", "doubtful"): 2, ("again", "answered"): 2}
    assert oracle.rows("select spent, reserved from retoma.batches") == [(2 * PAGES * PAGE, 2 * PAGE)]
    await all_read_once(app, oracle, batch, files)


async def test_kills_at_random_hand_in_again_no_more_than_what_is_in_doubt(
    fleet: Fleet, oracle: Oracle, app: Retoma, services: Served, figure: Figure
) -> None:
    chance = random.Random(24)
    files = papers(fleet.folder, 60)
    members: dict[str, Member] = {}
    kills = 0

    def keep_alive() -> None:
        for label in ("ana", "bruno"):
            if label not in members or members[label].ended:
                members[label] = start(fleet, label, lease_seconds=LEASE)

    keep_alive()
    batch = await app.batch(reading_app.read, files, name="at random", stall_seconds=300)
    await until(lambda: looked_for(services), what="it is at work")
    while kills < 8 and oracle.jobs(batch.id, "queued"):
        await asyncio.sleep(chance.uniform(0.3, 1.0))
        members[chance.choice(["ana", "bruno"])].send(signal.SIGKILL, executors=True, supervisor=chance.random() < 0.3)
        kills += 1
        keep_alive()
    await until_completed(oracle, batch)
    quarantined = oracle.jobs(batch.id, "failed")
    assert all(oracle.job(job)[1] == "quarantine" for job in quarantined)
    if quarantined:  # three kills from outside look like a document that kills: a person looks, and tries again
        await app.batches.retry_failed(batch.id)
        await until_completed(oracle, batch)

    taken = submitted(services)
    doubts = Counter(
        sha256 for (sha256,) in oracle.rows("select request ->> 'sha256' from retoma.calls where state = 'doubtful'")
    )
    figure("kills", kills)
    figure("handed in, documents, in doubt, attempts lost", (taken.total(), len(files), doubts.total(), oracle.lost()))
    figure("quarantined", len(quarantined))
    assert kills >= 3
    assert set(taken) == {sha256_of(file) for file in files}
    assert all(times <= 1 + doubts[sha256] for sha256, times in taken.items())
    assert doubts.total() < oracle.lost(), "most were found again"
    assert oracle.one("select count(*) from retoma.calls where state = 'answered'") == len(files)
    assert oracle.effects() == {(job, "record"): 1 for job in oracle.jobs(batch.id)}
    oracle.nothing_is_wrong(revived=bool(quarantined))
    assert await app.system.verify() == []
