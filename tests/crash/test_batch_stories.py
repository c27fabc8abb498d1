"""The stories that batches are there for: killed, hanging, deployed, paused, poisoned; each document is done once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from operator import attrgetter

import batch_app
import pytest
from batch_app import Document, documents, keys
from fleet import LEASE, Fleet, Member, until
from onlooker import looking_at, story_of, turns_of
from oracle import Oracle

from retoma import Retoma
from retoma.errors import BatchConflict
from retoma.model.batch import Batch, BatchState
from retoma.model.evidence import Verdict

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

EXPLORE = bool(os.environ.get("EXPLORE"))
Figure = Callable[[str, object], None]
KEY = attrgetter("key")
RUN = ("running", None)
GONE = {"crashed", "lost"}
"""How attempts end whose worker was killed, and which count."""


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Retoma]:
    async with Retoma(fleet.url, pipelines=batch_app.PIPELINES) as app:
        yield app


def start(fleet: Fleet, label: str, *, at_once: int = 4, processes: int = 1, **settings: object) -> Member:
    """A worker whose watchdog looks often. A busy machine must not cost it its lease, where that is not the story."""
    settings = {"watchdog_seconds": 0.5, "lease_seconds": 30, **settings}
    return fleet.start(label, app="batch_app:app", at_once=at_once, processes=processes, **settings)


def kill(*members: Member) -> None:
    """Supervisor and executors: the supervisor is stopped first, so that it cannot say a last word."""
    for member in members:
        member.send(signal.SIGSTOP)
        member.send(signal.SIGKILL, executors=True)


def heal(fleet: Fleet, what: str = batch_app.HEALED) -> None:
    (fleet.folder / what).touch()


async def no_hurry(app: Retoma, batch: Batch) -> None:
    """What comes now may take as long as this machine needs, and is not to be called stalled."""
    await app.batches.change(batch.id, stall_seconds=300)


async def until_state(oracle: Oracle, batch: Batch, state: str, *, seconds: float = 240.0) -> None:
    await until(lambda: oracle.batch(batch.id)[0] == state, seconds=seconds, what=f"{batch.name} is {state}")


async def each_once(app: Retoma, oracle: Oracle, *batches: Batch, revived: bool = False) -> None:
    """Every document of the batches is done, once, and the tables agree."""
    jobs = [job for batch in batches for job in oracle.jobs(batch.id)]
    assert len(jobs) == sum(batch.total or 0 for batch in batches)
    assert oracle.states(jobs) == {"completed": len(jobs)}
    effects = oracle.effects()
    assert {job: effects[job, "record"] for job in jobs} == dict.fromkeys(jobs, 1)
    oracle.nothing_is_wrong(revived=revived)
    assert await app.system.verify() == []


# — killed, and deployed —


async def test_2000_documents_whose_worker_is_killed_at_80_go_on_by_themselves_and_each_is_done_once(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Figure
) -> None:
    first, second = (
        start(fleet, "ana", processes=2, lease_seconds=LEASE),
        start(fleet, "bruno", at_once=8, lease_seconds=LEASE),
    )
    await first.ready(2)
    await second.ready()
    batch = await app.batch(batch_app.work, documents(2000, seconds=0.03), name="2,000 documents", key=KEY)
    held = (
        "select job.id from retoma.jobs as job join retoma.workers as worker on worker.id = job.worker_id"
        " where job.batch_id = %s and job.state = 'running' and worker.label = 'ana'"
    )

    async with looking_at(app, batch.id) as seen:
        await until(lambda: len(oracle.jobs(batch.id, "completed")) >= 80, what="80 are done")
        killed = time.time()
        kill(first)
        done, taken = len(oracle.jobs(batch.id, "completed")), [job for (job,) in oracle.rows(held, batch.id)]
        await until_state(oracle, batch, "completed")

    # What the dead had already said to the server was still written: such a job is done, not lost.
    lost = [job for job in taken if oracle.attempts(job)[0][0] != "completed"]
    assert done < 1000
    assert lost
    figure("killed_at", done)
    figure("recovery_seconds", round(max(oracle.queued_again(lost)) - killed, 3))
    assert len(seen) > 20
    ended = {job: oracle.attempts(job)[0][0] for job in lost}
    assert "lost" in ended.values()
    # What was only fetched had not begun, and that costs no attempt.
    assert {job: oracle.job(job)[2] for job in lost} == {
        job: {"lost": 2, "released": 1}[end] for job, end in ended.items()
    }
    assert await turns_of(app, batch.id) == [RUN, ("completed", None)]
    assert (await app.batches.get(batch.id)).resumes == 0
    assert oracle.again() <= oracle.lost()
    assert not second.ended
    await each_once(app, oracle, batch)


async def test_a_deploy_in_mid_batch_does_nothing_again_and_costs_no_attempt(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    old = start(fleet, "ana", processes=2)
    batch = await app.batch(batch_app.work, documents(60, seconds=0.15, steps=3), name="deploy", key=KEY)

    async with looking_at(app, batch.id):
        await until(lambda: len(oracle.jobs(batch.id, "completed")) >= 10, what="some are done")
        old.send(signal.SIGTERM)
        assert await old.exit_code() == 0
        left = oracle.states()
        start(fleet, "ana", processes=2)
        await until_state(oracle, batch, "completed")

    assert left["queued"] > 10
    assert left["running"] == 0
    handed_back = [job for job in oracle.jobs(batch.id) if len(oracle.attempts(job)) > 1]
    assert handed_back, "nothing was in hand when the worker stopped"
    assert all(oracle.attempts(job)[0][0] == "released" for job in handed_back)
    assert {oracle.job(job)[2:4] for job in oracle.jobs(batch.id)} == {(1, 0)}, "an attempt was spent"
    assert oracle.again() == 0, "a step was begun twice"
    assert await turns_of(app, batch.id) == [RUN, ("completed", None)]
    await each_once(app, oracle, batch)


async def test_a_batch_without_workers_is_stalled_and_advances_by_itself_once_there_is_one(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    members = [start(fleet, label, lease_seconds=LEASE) for label in ("ana", "bruno")]
    # Longer than the lease: until that is over, those who were killed count as alive.
    patience = LEASE + 1.5
    batch = await app.batch(
        batch_app.work, documents(40, seconds=0.3), name="nobody works", key=KEY, stall_seconds=patience
    )

    async with looking_at(app, batch.id):
        await until(lambda: len(oracle.jobs(batch.id, "completed")) >= 8, what="some are done")
        kill(*members)
        rounds = []
        while oracle.batch(batch.id)[0] != "stalled":  # what 'retoma watchdog' does on a machine without workers
            rounds.append(await app.batches.look_after())
            assert len(rounds) < 300, await app.batches.explain(batch.id)
            await asyncio.sleep(0.1)
        why, stalled = await app.batches.explain(batch.id), await app.batches.get(batch.id)
        await no_hurry(app, batch)
        start(fleet, "clara")
        await until_state(oracle, batch, "completed")

    assert [each.verdict for did in rounds for each in did.stalled] == [Verdict.NO_WORKERS]
    assert (stalled.state, stalled.reason) == (BatchState.STALLED, "no_workers")
    assert (why.verdict, why.needs_help, why.action) == (Verdict.NO_WORKERS, True, "start_worker")
    assert stalled.cause is not None
    assert stalled.cause["last_key"] == stalled.last_key
    assert stalled.cause["unfinished"] == stalled.unfinished > 0
    assert await turns_of(app, batch.id) == [
        RUN, ("stalled", "no_workers"), ("running", "advanced"), ("completed", None)
    ]  # fmt: skip
    assert (await app.batches.get(batch.id)).resumes == 0
    await each_once(app, oracle, batch)


# — stalled, explained, resumed —


async def test_a_hanging_provider_stalls_the_batch_and_a_resume_finishes_it_each_document_once(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    # Both clients are deaf. The first worker has all the patience of the world; the second ends its executor.
    start(fleet, "ana", at_once=3, grace_seconds=300)
    start(fleet, "bruno", at_once=3)
    batch = await app.batch(batch_app.ask, documents(24, seconds=0.25, how="deaf", quick=12), name="provider", key=KEY)

    async with looking_at(app, batch.id) as seen:
        await until_state(oracle, batch, "stalled")
        stalled, why = await app.batches.get(batch.id), await app.batches.explain(batch.id)
        asked = {mark.job for mark in oracle.marks("began")} - set(oracle.jobs(batch.id, "completed"))
        heal(fleet)
        did = await app.batches.resume(batch.id)
        await no_hurry(app, batch)
        await until_state(oracle, batch, "completed")
        assert {now.state for now in seen if now.done < 12} <= {BatchState.QUEUED, BatchState.RUNNING}

    assert (stalled.reason, why.verdict, why.action) == ("hanging", Verdict.HANGING, "resume")
    cause = stalled.cause
    assert cause is not None
    assert cause["last_key"] == stalled.last_key
    assert stalled.last_key in keys(range(12))
    assert cause["oldest_key"] in keys(range(12, 24))
    assert "hang" in cause["sentence"]
    silence = datetime.fromisoformat(cause["now"]) - datetime.fromisoformat(cause["last_progress_at"])
    assert silence >= timedelta(seconds=batch_app.ask.stall_seconds), "it was called stalled before its time"
    assert len(asked) == 6
    assert (did.changed, did.word, did.jobs, did.batch.resumes) == (True, "resumed", 6, 1)
    assert {oracle.attempts(job)[0][0] for job in asked} == {"released"}
    assert {oracle.job(job)[2:4] for job in oracle.jobs(batch.id)} == {(1, 0)}, "a resume cost an attempt"

    # Those that the patient worker asked are answered now, when others have long done their work.
    rows = "select id, state, fence, attempt, output::text, finished_at from retoma.jobs where batch_id = %s order by 1"
    before, then = oracle.rows(rows, batch.id), await app.batches.get(batch.id)
    heal(fleet, batch_app.ANSWERED)
    await until(lambda: len(oracle.marks("answered")) == 3, what="the late answers arrive")
    await asyncio.sleep(1.5)
    late = {(mark.job, mark.fence) for mark in oracle.marks("answered")}
    assert not [mark for mark in oracle.marks("done") if (mark.job, mark.fence) in late]
    assert oracle.rows(rows, batch.id) == before
    assert await app.batches.get(batch.id) == then
    assert then.resumes == 1
    assert await turns_of(app, batch.id) == [
        RUN, ("stalled", "hanging"), ("running", "resumed"), ("completed", None)
    ]  # fmt: skip
    await each_once(app, oracle, batch)


@pytest.mark.parametrize("callers", [2, 20])
async def test_of_many_processes_that_resume_at_once_one_does_it(
    callers: int, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = start(fleet, "ana", at_once=2)
    batch = await app.batch(
        batch_app.ask, documents(6, seconds=0.1, how="hangs", quick=4), name="clicks", key=KEY, stall_seconds=1
    )
    await until_state(oracle, batch, "stalled")
    kill(member)  # nobody is there who could call it stalled a second time
    heal(fleet)

    clicking = fleet.call("clicks", "batch_callers.py", "resume", fleet.url, batch.id, callers)
    assert await clicking.exit_code(60) == 0, clicking.words()

    said = [json.loads(line) for line in clicking.words().splitlines()]
    assert len(said) == callers
    assert [each["jobs"] for each in said if each["changed"]] == [2]
    assert {each["word"] for each in said if not each["changed"]} == {"already_running"}
    assert len({each["resumes"] for each in said}) == 1
    await no_hurry(app, batch)
    start(fleet, "bruno")
    await until_state(oracle, batch, "completed")
    assert (await app.batches.get(batch.id)).resumes <= 1
    assert await turns_of(app, batch.id) == [
        RUN, ("stalled", "hanging"), ("running", "resumed"), ("completed", None)
    ]  # fmt: skip
    await each_once(app, oracle, batch)


async def test_a_batch_that_stalls_after_its_last_resume_has_failed_until_somebody_allows_one_more(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    start(fleet, "ana", at_once=3)
    batch = await app.batch(
        batch_app.ask, documents(12, seconds=0.1, how="hangs", quick=4), name="again", key=KEY,
        stall_seconds=2.5, max_resumes=2,
    )  # fmt: skip
    for number in (1, 2):
        await until_state(oracle, batch, "stalled")
        did = await app.batches.resume(batch.id)
        assert (did.changed, did.jobs, did.batch.resumes) == (True, 3, number)
    await until_state(oracle, batch, "failed")

    assert oracle.batch(batch.id) == ("failed", "resumes", 2)
    why = await app.batches.explain(batch.id)
    assert (why.verdict, why.action, why.command) == (
        Verdict.FAILED, "fix_and_resume", f"retoma batch resume {batch.id} --max-resumes 3"
    )  # fmt: skip
    for _ in range(2):
        with pytest.raises(BatchConflict) as refused:
            await app.batches.resume(batch.id)
        assert refused.value.code == "resume_limit_reached"
    assert oracle.states(oracle.jobs(batch.id))["completed"] == 4, "what is done stays done"

    heal(fleet)
    heal(fleet, batch_app.ANSWERED)
    did = await app.batches.resume(batch.id, max_resumes=3)
    await no_hurry(app, batch)
    await until_state(oracle, batch, "completed")

    assert (did.changed, did.batch.resumes, did.batch.max_resumes) == (True, 3, 3)
    assert await turns_of(app, batch.id) == [
        RUN,
        *[("stalled", "hanging"), ("running", "resumed")] * 2,
        ("stalled", "hanging"), ("failed", "resumes"), ("running", "resumed"), ("completed", None),
    ]  # fmt: skip
    await each_once(app, oracle, batch)


async def test_a_resume_of_a_failed_batch_takes_back_what_hangs(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    """The provider answers new questions; the ones it had swallowed are never answered."""
    start(fleet, "ana", at_once=2)
    batch = await app.batch(
        batch_app.ask, documents(6, seconds=0.1, how="hangs", quick=4), name="for good", key=KEY,
        stall_seconds=1, max_resumes=0,
    )  # fmt: skip
    await until_state(oracle, batch, "failed")

    heal(fleet)
    did = await app.batches.resume(batch.id, max_resumes=1)

    assert (did.changed, did.jobs) == (True, 2)
    await until_state(oracle, batch, "completed")
    await each_once(app, oracle, batch)


async def test_a_resume_after_a_pause_takes_back_what_hangs(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    start(fleet, "ana", at_once=2)
    batch = await app.batch(
        batch_app.ask, documents(6, seconds=0.1, how="hangs", quick=4), name="for good", key=KEY, stall_seconds=1
    )
    await until_state(oracle, batch, "stalled")
    await app.batches.pause(batch.id)

    heal(fleet)
    did = await app.batches.resume(batch.id)

    assert (did.changed, did.jobs) == (True, 2)
    await until_state(oracle, batch, "completed")
    await each_once(app, oracle, batch)


async def behind_the_hanging(fleet: Fleet, oracle: Oracle, app: Retoma) -> tuple[Batch, set[int]]:
    """A batch whose one worker was quick, fetched ahead, and then met two documents that hang; and what it fetched."""
    start(fleet, "ana", at_once=2)
    papers = [
        *documents(300),
        Document(300, how="hangs"),
        Document(301, how="hangs"),
        *[Document(number, 0.3) for number in range(302, 320)],
    ]
    batch = await app.batch(batch_app.ask, papers, name="fetched", key=KEY, stall_seconds=3)
    hanging = oracle.jobs(batch.id)[300:302]
    await until(lambda: all(oracle.begun(job, "ask") for job in hanging), what="two hang")
    await until(lambda: len(oracle.jobs(batch.id, "completed")) == 300, what="those before them are done")
    claimed = {job for (job,) in oracle.rows("select distinct job from changes where state = 'running'")}
    fetched = claimed & set(oracle.jobs(batch.id)) - {mark.job for mark in oracle.marks("began")}
    assert fetched
    return batch, fetched


async def test_what_was_only_fetched_is_not_begun_any_more_once_a_resume_has_taken_it_back(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    batch, fetched = await behind_the_hanging(fleet, oracle, app)
    await until_state(oracle, batch, "stalled")
    heal(fleet)
    await app.batches.resume(batch.id)
    await no_hurry(app, batch)
    await until_state(oracle, batch, "completed")

    assert {oracle.begun(job, "ask") for job in fetched} == {1}, "the provider was asked twice"
    await each_once(app, oracle, batch)


async def test_what_was_only_fetched_does_not_wait_behind_what_hangs_while_another_worker_has_room(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    batch, fetched = await behind_the_hanging(fleet, oracle, app)
    await no_hurry(app, batch)
    start(fleet, "bruno", at_once=2)
    await until(lambda: len(oracle.jobs(batch.id, "queued")) == 0, what="the other takes what it can")

    await until(lambda: oracle.states(list(fetched)) == {"completed": len(fetched)}, what="it does what was fetched")
    await until(lambda: len(oracle.jobs(batch.id, "completed")) == 318, what="all are done but the two that hang")
    oracle.nothing_is_wrong()
    assert await app.system.verify() == []


# — slow is not stuck —


async def test_a_document_that_waits_for_its_time_does_not_stall_its_batch(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    start(fleet, "ana")
    start(fleet, "bruno")
    ways = [Document(0), Document(1), Document(2, how="postpone"), Document(3, how="retry_after")]
    batch = await app.batch(batch_app.wait, ways, name="ten minutes", key=KEY)
    waiting = "select count(*) from retoma.jobs where batch_id = %s and state = 'queued' and run_at > now()"
    await until(lambda: oracle.one(waiting, batch.id) == 2, what="two wait for their time")
    # One that does hang, by the same threshold and later: once it is called stalled, the watchdogs have looked.
    other = await app.batch(batch_app.ask, documents(6, how="hangs", quick=2), name="hangs", key=KEY, stall_seconds=1)
    await until_state(oracle, other, "stalled")
    silent = (
        "select now() - last_progress_at > 4 * make_interval(secs => stall_seconds) from retoma.batches where id = %s"
    )
    await until(lambda: oracle.one(silent, batch.id), what="nothing has moved for many thresholds")
    rounds = [await app.batches.look_after() for _ in range(3)]

    assert not [each for did in rounds for each in did.stalled if each.batch_id == batch.id]
    assert oracle.batch(batch.id) == ("running", None, 0)
    why = await app.batches.explain(batch.id)
    first = min(oracle.rows("select run_at from retoma.jobs where batch_id = %s and state = 'queued'", batch.id))[0]
    assert (why.verdict, why.needs_help, why.action) == (Verdict.WAITING, False, "wait")
    assert f"until {first.astimezone(UTC):%H:%M}" in why.sentence

    # What follows is not about the threshold, which a busy machine passes before it takes a job that has become due.
    oracle.connection.execute("update retoma.batches set stall_seconds = 600 where id = %s", (batch.id,))
    oracle.connection.execute("update retoma.jobs set run_at = now() where batch_id = %s", (batch.id,))
    oracle.connection.execute("update retoma.lanes set awake = true, wake_at = null")
    heal(fleet)
    await app.batches.resume(other.id)
    await until_state(oracle, batch, "completed")
    await until_state(oracle, other, "completed")

    assert await turns_of(app, batch.id) == [RUN, ("completed", None)]
    postponed, refused = oracle.jobs(batch.id)[2:]
    assert [ending for ending, *_ in oracle.attempts(postponed)] == ["postponed", "completed"]
    assert [ending for ending, *_ in oracle.attempts(refused)] == ["failed", "completed"]
    await each_once(app, oracle, batch, other)


async def test_a_healthy_slow_batch_is_never_called_stalled(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    start(fleet, "ana", watchdog_seconds=0.2)
    start(fleet, "bruno", watchdog_seconds=0.2)
    slow = [Document(number, 3.0 + 0.1 * number) for number in range(8)]
    stepwise = [Document(number, 0.8, steps=4) for number in range(8, 16)]
    batch = await app.batch(batch_app.work, slow + stepwise, name="slow", key=KEY, stall_seconds=1)

    verdicts: Counter[Verdict] = Counter()
    async with looking_at(app, batch.id) as seen:
        while oracle.batch(batch.id)[0] != "completed":
            verdicts[(await app.batches.explain(batch.id)).verdict] += 1
            await asyncio.sleep(0.1)

    assert {now.state for now in seen} <= {BatchState.QUEUED, BatchState.RUNNING, BatchState.COMPLETED}
    assert verdicts[Verdict.SLOW], "it was never silent for longer than its threshold"
    assert not [now for now in verdicts if now in {Verdict.HANGING, Verdict.SILENT, Verdict.WORKER_LOST}]
    assert await turns_of(app, batch.id) == [RUN, ("completed", None)]
    await each_once(app, oracle, batch)


# — paused, cancelled —


async def test_a_paused_batch_rests_after_the_step_at_hand_and_its_neighbour_goes_on(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    start(fleet, "ana", at_once=6)
    # Far longer than a heartbeat: who is in the middle when it is paused does not come to its end.
    batch = await app.batch(batch_app.work, documents(3, seconds=0.4, steps=16), name="rests", key=KEY, at_once=3)
    other = await app.batch(batch_app.work, documents(60, seconds=0.3, steps=2), name="goes on", key=KEY, at_once=3)
    jobs = set(oracle.jobs(batch.id))
    await until(lambda: sum(mark.job in jobs for mark in oracle.marks("done")) >= 6, what="it is in the middle")

    paused = await app.batches.pause(batch.id)
    await until(lambda: not oracle.jobs(batch.id, "running"), what="nothing of it runs")
    begun = [mark for mark in oracle.marks() if mark.job in jobs]
    neighbours = len(oracle.jobs(other.id, "completed"))
    await until(lambda: len(oracle.jobs(other.id, "completed")) >= neighbours + 12, what="the other goes on")

    assert paused.state is BatchState.PAUSED
    assert (await app.batches.explain(batch.id)).verdict is Verdict.PAUSED
    assert [mark for mark in oracle.marks() if mark.job in jobs] == begun, "something of it ran"
    assert not oracle.jobs(batch.id, "completed")
    assert {oracle.attempts(job)[0][0] for job in jobs} == {"released"}
    assert {oracle.job(job)[2:4] for job in jobs} == {(0, 0)}

    assert (await app.batches.resume(batch.id)).changed
    await until_state(oracle, batch, "completed")
    await until_state(oracle, other, "completed")
    assert oracle.again() == 0, "a step was begun twice"
    assert {oracle.job(job)[2] for job in jobs} == {1}
    assert (await app.batches.get(batch.id)).resumes == 0
    assert await turns_of(app, batch.id) == [RUN, ("paused", "person"), ("running", "resumed"), ("completed", None)]
    await each_once(app, oracle, batch, other)


async def test_a_cancelled_batch_stops_and_what_was_left_can_be_finished_later(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    start(fleet, "ana", processes=2)
    batch = await app.batch(
        batch_app.ask,
        documents(300, seconds=0.05, how="hangs", quick=290),
        name="cancelled",
        key=KEY,
        stall_seconds=300,
    )
    hanging = oracle.jobs(batch.id)[290:]
    # Let some that hang come first, so that there are handlers to stop while others flow.
    oracle.connection.execute("update retoma.jobs set priority = -1 where id = any (%s)", (hanging[:4],))
    await until(
        lambda: len(oracle.jobs(batch.id, "completed")) >= 20 and all(oracle.begun(job, "ask") for job in hanging[:4]),
        what="some are done, some hang",
    )

    cancelled = await app.batches.cancel(batch.id)
    await until(lambda: len(oracle.marks("cancelled")) >= 4, what="the handlers are stopped")
    await until(lambda: not oracle.jobs(batch.id, "queued", "running"), what="all its jobs have ended")
    ended = oracle.states(oracle.jobs(batch.id))
    marks = oracle.marks()
    await asyncio.sleep(1.5)

    assert cancelled.state is BatchState.CANCELLED
    assert (await app.batches.cancel(batch.id)).epoch == cancelled.epoch, "the first terminal state was left"
    for refused in (app.batches.pause, app.batches.resume):
        with pytest.raises(BatchConflict):
            await refused(batch.id)
    assert set(ended) == {"completed", "cancelled"}
    assert ended["cancelled"] >= 4 + 6
    assert oracle.states(oracle.jobs(batch.id)) == ended
    assert oracle.marks() == marks, "something of it ran"
    assert sum(oracle.effects().values()) == ended["completed"]
    oracle.nothing_is_wrong()
    assert await app.system.verify() == []

    heal(fleet)
    did = await app.batches.retry_failed(batch.id, cancelled=True)
    await until_state(oracle, batch, "completed")

    assert did.jobs == ended["cancelled"]
    assert await turns_of(app, batch.id) == [
        RUN, ("cancelled", "person"), ("running", "retried"), ("completed", None)
    ]  # fmt: skip
    await each_once(app, oracle, batch, revived=True)


# — poison, fairness —


async def test_a_document_that_kills_its_executor_is_quarantined_and_the_rest_is_done(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    start(fleet, "ana", at_once=3)
    papers = [Document(number, 0.1, how="kills" if number == 7 else "") for number in range(24)]
    batch = await app.batch(batch_app.bite, papers, name="poison", key=KEY)

    async with looking_at(app, batch.id):
        await until_state(oracle, batch, "completed")

    jobs = oracle.jobs(batch.id)
    killer = jobs.pop(7)
    assert oracle.job(killer)[:2] == ("failed", "quarantine")
    assert [ending for ending, *_ in oracle.attempts(killer) if ending != "released"] == ["crashed"] * 3
    assert oracle.begun(killer, "bite") == 3
    assert oracle.begun(killer, "look") == 1, "a finished step was run again"
    assert oracle.states(jobs) == {"completed": 23}
    assert oracle.effects() == {(job, "record"): 1 for job in jobs}
    end = await app.batches.get(batch.id)
    assert (end.state, end.failures, end.unfinished) == (BatchState.COMPLETED, 1, 0)
    (group,) = await app.batches.errors(batch.id)
    assert (group.jobs, group.reason, group.first_jobs, group.first_keys) == (1, "quarantine", [killer], ["doc-0007"])
    assert "signal 9" in (group.example or "")
    oracle.nothing_is_wrong()
    assert await app.system.verify() == []


async def test_a_small_batch_does_not_wait_for_a_large_one(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    start(fleet, "ana")
    large = await app.batch(batch_app.work, documents(2000, seconds=0.03), name="large", key=KEY)
    await until(lambda: len(oracle.jobs(large.id, "completed")) >= 50, what="the large one is at work")
    before = len(oracle.jobs(large.id, "completed"))
    small = await app.batch(batch_app.work, documents(3, seconds=0.03), name="small", key=KEY)

    await until_state(oracle, small, "completed")

    meanwhile = len(oracle.jobs(large.id, "completed")) - before
    assert meanwhile < 500, f"{meanwhile} of the large one were done first"
    assert (await app.batches.get(large.id)).unfinished > 1000
    await app.batches.cancel(large.id)
    await until(lambda: not oracle.jobs(large.id, "queued", "running"), what="the rest is called off")
    await each_once(app, oracle, small)


# — all at once —


async def test_random_kills_under_three_watchdogs_leave_the_tables_sound_and_the_story_whole(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Figure
) -> None:
    # `make explore` kills for longer.
    seconds, count, chance = 18.0 if EXPLORE else 9.0, 300 if EXPLORE else 150, random.Random(20_263)
    papers = [Document(number, chance.uniform(0.05, 0.25), steps=3) for number in range(count)]
    batch = await app.batch(batch_app.work, papers, name="havoc", key=KEY, stall_seconds=1)
    watchdogs = fleet.call("watchdogs", "batch_callers.py", "watch", fleet.url, batch.id, 3)
    members: dict[str, Member] = {}
    kills: Counter[str] = Counter()

    def keep_alive() -> None:
        for label in ("ana", "bruno", "clara"):
            if label not in members or members[label].ended:
                members[label] = start(fleet, label, lease_seconds=LEASE)

    async with looking_at(app, batch.id):
        keep_alive()
        await until(lambda: oracle.jobs(batch.id, "completed"), what="it is at work")
        end = time.monotonic() + seconds
        while time.monotonic() < end or (sum(kills.values()) < 3 and oracle.jobs(batch.id, "queued")):
            keep_alive()
            await asyncio.sleep(chance.uniform(0.5, 1.5))
            victim, both = members[chance.choice(sorted(members))], chance.random() < 0.5
            if oracle.jobs(batch.id, "running") and victim.executors():
                kills["worker" if both else "executor"] += 1
                victim.send(signal.SIGKILL, executors=True, supervisor=both)
        keep_alive()
        await until_state(oracle, batch, "completed")

    rounds = watchdogs.words().count("round\n")
    assert not watchdogs.ended, watchdogs.words()
    # Three kills of its executor look like a document that kills; three of the whole worker use up its attempts.
    given_up = oracle.jobs(batch.id, "failed")
    assert {oracle.job(job)[1] for job in given_up} <= {"quarantine", "lost"}
    for job in given_up:
        assert sum(ending in GONE for ending, *_ in oracle.attempts(job)) >= 3, oracle.attempts(job)
    assert await app.system.verify() == []
    if given_up:  # a person looks, and tries again
        assert (await app.batches.retry_failed(batch.id)).jobs == len(given_up)
        await until_state(oracle, batch, "completed")

    figure("kills", dict(kills))
    figure("given up", len(given_up))
    figure("rounds", rounds)
    assert not [member.label for member in fleet.members if "deadlock" in member.words()]
    assert sum(kills.values()) >= 3
    assert rounds > 30
    story = await story_of(app, batch.id)
    assert (await app.batches.get(batch.id)).event_seq == len(story)
    figure("stalled", dict(Counter(event.data["why"] for event in story if event.kind == "stalled")))
    assert oracle.again() <= oracle.lost()
    await each_once(app, oracle, batch, revived=bool(given_up))
