"""Who is blamed when an executor dies: the job whose code was running, and not those beside it."""

from __future__ import annotations

import crash_app
import pytest
from fleet import Fleet, until
from oracle import Oracle

from retoma import Retoma

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

HOWS = ("kill", "task", "thread")


async def test_however_many_take_their_executor_down_no_neighbour_is_blamed_or_pays_with_an_attempt(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    fleet.start("ana", at_once=20)
    innocent = [receipt.id for receipt in await app.enqueue_many(crash_app.until_told, range(15))]
    await until(lambda: all(oracle.begun(job, "wait") for job in innocent), what="they have begun")
    poisons = [(await app.enqueue(crash_app.poison, how, attempts=1)).id for how in HOWS]
    poisons.append((await app.enqueue(crash_app.sync_poison, 1, attempts=1)).id)
    await until(lambda: oracle.states(poisons) == {"failed": 4}, what="all four have done it")
    fleet.folder.joinpath("go").touch()
    await until(oracle.all_ended, what="the others end")

    assert [oracle.job(job)[:4] for job in poisons] == [("failed", "crashed", 1, 1)] * 4
    crashes = [each for job in poisons for each in oracle.attempts(job) if each[0] == "crashed"]
    assert len(crashes) == 4
    assert all("This job's code was running at that moment" in each[4] for each in crashes)
    assert oracle.states(innocent) == {"completed": 15}
    assert {oracle.job(job)[2:4] for job in innocent} == {(1, 0)}, "a neighbour paid with an attempt or a crash"
    for job in innocent:
        *before, last = oracle.attempts(job)
        assert last[0] == "completed"
        assert before, "it was beside the first death"
        assert {(each[0], each[5]) for each in before} == {("released", "beside")}
        assert all("This job was beside it and is not blamed" in each[4] for each in before)
    oracle.nothing_is_wrong()


async def test_a_job_that_dies_where_no_mark_follows_is_stopped_all_the_same(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    fleet.start("ana", at_once=4)
    innocent = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [0.3] * 3, attempts=9)]
    job = (await app.enqueue(crash_app.poison, "stray")).id

    await until(oracle.all_ended, seconds=240, what="all end")

    assert oracle.job(job)[:4] == ("failed", "quarantine", 3, 3)
    assert "No job's code was running at that moment" in oracle.attempts(job)[-1][4]
    assert oracle.states(innocent) == {"completed": 3}
    oracle.nothing_is_wrong()
