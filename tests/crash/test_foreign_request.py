"""A kind of request that the engine has never heard of, killed at its worst moments: recorded, and paid once."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import foreign_app
import pytest
from fleet import LEASE, Fleet, until
from foreign_app import MODEL, PROVIDER
from oracle import Oracle

from retoma import Retoma

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TEXTS = [f"text {number}" for number in range(4)]
UNIT = Decimal("0.01")


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the service: its bill, and the file that lets it go on."""
    folder = tmp_path / "studio"
    folder.mkdir()
    monkeypatch.setenv("FOREIGN_FOLDER", str(folder))
    return folder


@pytest.fixture
async def app(fleet: Fleet, studio: Path) -> AsyncIterator[Retoma]:  # noqa: ARG001 - workers inherit its variable
    async with Retoma(fleet.url, pipelines=foreign_app.PIPELINES, providers=foreign_app.PROVIDERS) as app:
        await app.calls.set_price(PROVIDER, MODEL, unit=UNIT)
        yield app


def bill(studio: Path) -> Counter[str]:
    return Counter((studio / "bill").read_text().splitlines())


async def all_paid_once(app: Retoma, oracle: Oracle, studio: Path, batch: int, verb: str) -> None:
    await until(lambda: oracle.batch(batch)[0] == "completed", what="all are done")
    jobs = oracle.jobs(batch)
    assert bill(studio) == {f"{verb} {text}": 1 for text in TEXTS}
    assert Counter(oracle.rows("select kind, state from retoma.calls")) == {("first", "answered"): len(TEXTS)}
    assert oracle.rows("select spent, reserved from retoma.batches") == [(len(TEXTS) * UNIT, 0)]
    assert oracle.effects() == {(job, "record"): 1 for job in jobs}
    assert await app.system.verify() == []


@pytest.mark.parametrize("lost", [False, True], ids=["restored", "checkpoints lost"])
async def test_a_worker_killed_after_the_answer_does_not_ask_again(
    fleet: Fleet, oracle: Oracle, app: Retoma, studio: Path, *, lost: bool
) -> None:
    member = fleet.start("ana", app="foreign_app:app", lease_seconds=LEASE)
    batch = await app.batch(foreign_app.translate, TEXTS, name="killed", stall_seconds=300)
    await until(lambda: len(oracle.marks("began")) == len(TEXTS), what="each waits after its answer")

    member.send(signal.SIGKILL, executors=True)
    if lost:  # as if the worker had died between the answer and the checkpoint
        oracle.connection.execute("delete from retoma.checkpoints")
    (studio / "open").touch()
    fleet.start("bruno", app="foreign_app:app", lease_seconds=LEASE)

    await all_paid_once(app, oracle, studio, batch.id, "translate")
    assert oracle.lost() >= len(TEXTS)
    assert [await app.jobs.output(foreign_app.translate, job) for job in oracle.jobs(batch.id)] == [
        text[::-1] for text in TEXTS
    ]


async def test_a_worker_killed_while_it_polls_submits_nothing_again(
    fleet: Fleet, oracle: Oracle, app: Retoma, studio: Path
) -> None:
    member = fleet.start("ana", app="foreign_app:app", lease_seconds=LEASE)
    batch = await app.batch(foreign_app.dub, TEXTS, name="killed", stall_seconds=300)
    await until(lambda: len(list(studio.glob("looked-*"))) == len(TEXTS), what="each is looked for")

    member.send(signal.SIGKILL, executors=True)
    await until(lambda: member.ended, what="the worker is gone")
    (studio / "open").touch()
    fleet.start("bruno", app="foreign_app:app", lease_seconds=LEASE)

    await all_paid_once(app, oracle, studio, batch.id, "dub")
    assert oracle.lost() >= len(TEXTS)
