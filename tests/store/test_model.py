"""The store against its reference: any story, told to both, must have the same answers and the same end.

The clock is moved by ageing what is stored (see store_hand). Every rule compares the rows that come back, and then
everything that is stored; store_twin holds what must be true at any time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from store_hand import Hand, checkpoint
from store_twin import Twin, distinct, ending

from retoma.model import Claim, Ended
from retoma.store import checkpoints, jobs, queues, workers
from retoma.store.jobs import Blame

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "400"))
STEPS = 60

WORDS = ("completed", "skipped", "review", "cancelled", "failed", "failed", "postponed", "waiting", "released")
BLAMES = (None, "crashed", "timeout", "cancelled")
STEP_NAMES = ("chapter/1", "chapter/2", "total")


@dataclass(frozen=True)
class Held:
    """A claim in somebody's hands; whether it still counts is for the store to say."""

    worker: int
    claim: Claim


class Story(RuleBasedStateMachine):
    """Any order of what workers, supervisors, people and time may do."""

    hand: ClassVar[Hand]
    told: ClassVar[int] = 0

    workers: Bundle[int] = Bundle("workers")
    jobs: Bundle[int] = Bundle("jobs")
    claims: Bundle[Held] = Bundle("claims")
    endings: Bundle[tuple[int, Ended]] = Bundle("endings")

    @initialize(target=workers)
    def begin(self) -> MultipleResults[int]:
        self.twin = Twin(self.hand)
        self.lanes: list[tuple[str, int] | None] = [None]
        for name, at_once in (("wide", None), ("narrow", 1), ("pair", 2)):
            self.lanes.append((name, self.twin.lane(name, at_once)))
        return multiple(self.twin.hello(), self.twin.hello())

    def _count(self) -> None:
        type(self).told += 1

    # — workers and time —

    @precondition(lambda self: len(self.twin.reference.workers) < 8)
    @rule(target=workers)
    def another_worker_starts(self) -> int:
        self._count()
        return self.twin.hello()

    @rule(ids=st.lists(workers, min_size=1, max_size=3, unique=True))
    def workers_beat(self, ids: list[int]) -> None:
        self._count()
        self.twin.beat(*ids)

    @rule(hundreds=st.sampled_from((1, 2, 3, 10)))
    def time_passes(self, hundreds: int) -> None:
        self._count()
        self.twin.tick(100.0 * hundreds)

    @rule(paused=st.booleans())
    def the_queue_is_paused_or_goes_on(self, paused: bool) -> None:
        self._count()
        self.twin.pause(paused)

    # — jobs come and are taken —

    @rule(
        target=jobs,
        number=st.integers(1, 4),
        lane=st.integers(0, 3),
        priority=st.integers(-1, 1),
        delay=st.sampled_from((0.0, 0.0, 50.0, 150.0)),
        max_attempts=st.integers(1, 4),
    )
    def jobs_are_queued(
        self, number: int, lane: int, priority: int, delay: float, max_attempts: int
    ) -> MultipleResults[int]:
        self._count()
        return multiple(
            *self.twin.enqueue(number, lane=self.lanes[lane], priority=priority, delay=delay, max_attempts=max_attempts)
        )

    @rule(target=jobs, lane=st.integers(0, 3))
    def a_job_waits_too_long(self, lane: int) -> MultipleResults[int]:
        self._count()
        ids = self.twin.enqueue(lane=self.lanes[lane], expires=50.0)
        self.twin.tick(100.0)
        return multiple(*ids)

    @rule(target=claims, worker=workers, limit=st.integers(1, 6), after=st.integers(0, 3), heard=st.booleans())
    def a_worker_claims(self, worker: int, limit: int, after: int, heard: bool) -> MultipleResults[Held]:
        self._count()
        behind = self.lanes[after]
        token = uuid4()
        claims = self.twin.claim(worker, limit, after=behind[1] if behind else 0, token=token)
        if not heard:  # the acknowledgement was lost: what was taken is found by the token
            claims = self.twin.adopt(worker, token)
        return multiple(*(Held(worker, each) for each in claims))

    # — steps —

    @rule(held=claims, name=st.sampled_from(STEP_NAMES), value=st.integers(0, 1))
    def a_step_is_saved(self, held: Held, name: str, value: int) -> None:
        self._count()
        new = checkpoint(held.claim, name, str(value))
        self.twin.save(held.worker, new)
        self.twin.saved(new)

    @rule(many=st.lists(claims, min_size=2, max_size=3), names=st.lists(st.sampled_from(STEP_NAMES), min_size=3))
    def several_steps_are_saved_at_once(self, many: list[Held], names: list[str]) -> None:
        self._count()
        news = {(held.claim.id, name): checkpoint(held.claim, name) for held, name in zip(many, names, strict=False)}
        self.twin.save(many[0].worker, *news.values())

    @rule(held=claims, name=st.sampled_from(STEP_NAMES), off=st.sampled_from((-1, 1)))
    def a_step_is_saved_with_a_fence_that_was_never_given(self, held: Held, name: str, off: int) -> None:
        self._count()
        new = checkpoint(held.claim, name)
        new.fence += off
        self.twin.save(held.worker, new)

    # — endings —

    @rule(
        target=endings,
        held=consumes(claims),
        word=st.sampled_from(WORDS),
        again=st.booleans(),
        delay=st.sampled_from((None, 0.0, 50.0, 150.0)),
    )
    def an_attempt_ends(self, held: Held, word: str, again: bool, delay: float | None) -> tuple[int, Ended]:
        self._count()
        how = ending(held.claim, word, again=again, delay=delay)
        self.twin.end(held.worker, how)
        return held.worker, how

    @rule(many=st.lists(claims, min_size=2, max_size=4), words=st.lists(st.sampled_from(WORDS), min_size=4))
    def several_attempts_end_at_once(self, many: list[Held], words: list[str]) -> None:
        self._count()
        claims = distinct(each.claim for each in many)
        self.twin.end(
            many[0].worker, *(ending(each, word, delay=0.0) for each, word in zip(claims, words, strict=False))
        )

    @rule(said=endings)
    def an_ending_is_said_again(self, said: tuple[int, Ended]) -> None:
        self._count()
        worker, how = said
        self.twin.end(worker, how)
        self.twin.ended(how)

    @rule(held=claims, word=st.sampled_from(WORDS), off=st.sampled_from((-1, 1)))
    def an_ending_comes_with_a_fence_that_was_never_given(self, held: Held, word: str, off: int) -> None:
        self._count()
        self.twin.end(held.worker, ending(replace(held.claim, fence=held.claim.fence + off), word))

    @rule(held=claims, other=workers, word=st.sampled_from(WORDS))
    def somebody_ends_the_job_of_another(self, held: Held, other: int, word: str) -> None:
        self._count()
        if other != held.worker:
            self.twin.end(other, ending(held.claim, word))

    # — those who are gone —

    @rule(limit=st.sampled_from((1, 20)))
    def silent_workers_are_swept(self, limit: int) -> None:
        self._count()
        self.twin.recover(limit)

    @rule(
        worker=workers,
        blames=st.lists(st.sampled_from(BLAMES), min_size=4, max_size=4),
        delay=st.sampled_from((0.0, 50.0)),
    )
    def a_worker_is_buried(self, worker: int, blames: list[str | None], delay: float) -> None:
        self._count()
        held = self.twin.reference.held_by(worker)
        blamed = [Blame(job.id, word, "total", delay) for job, word in zip(held, blames, strict=False) if word]
        self.twin.bury(worker, blamed)

    @rule()
    def late_jobs_expire(self) -> None:
        self._count()
        self.twin.expire()

    # — people —

    @rule(ids=st.lists(jobs, min_size=1, max_size=3, unique=True))
    def somebody_cancels(self, ids: list[int]) -> None:
        self._count()
        self.twin.cancel(*ids)

    @rule(ids=st.lists(jobs, min_size=1, max_size=3, unique=True), attempts=st.sampled_from((None, 1, 2)))
    def somebody_retries(self, ids: list[int], attempts: int | None) -> None:
        self._count()
        self.twin.retry(*ids, attempts=attempts)

    @rule(id=jobs)
    def somebody_restarts(self, id: int) -> None:
        self._count()
        self.twin.restart(id)

    @rule(id=jobs, name=st.sampled_from(("approved", "paid")))
    def somebody_signals(self, id: int, name: str) -> None:
        self._count()
        self.twin.signal(id, name)

    @rule(older_than=st.sampled_from((250.0, 1050.0)))
    def old_jobs_are_pruned(self, older_than: float) -> None:
        self._count()
        self.twin.prune(older_than)


def story_with(hand: Hand) -> type[Story]:
    return type("Story", (Story,), {"hand": hand, "told": 0})


@pytest.mark.timeout(600)
def test_any_story_has_the_answers_and_the_end_of_its_reference(db: Hand) -> None:
    story = story_with(db)

    run_state_machine_as_test(
        story,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=False,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )

    assert story.told > EXAMPLES


# — and the reference can tell —

# A story each, told by hand: the shortest ones in which a fence, a lease, a limit or a count is what matters.


def claimed_by(twin: Twin, worker: int, number: int = 1, **order: Any) -> list[Claim]:
    twin.enqueue(number, **order)
    return twin.claim(worker, number)


def one_comes_back_after_its_lease(twin: Twin) -> None:
    first, second = twin.hello(), twin.hello()
    [stale] = claimed_by(twin, first)
    twin.tick(300)
    twin.beat(second)
    twin.recover()
    twin.save(first, checkpoint(stale))
    twin.end(first, ending(stale, "completed"))
    [claim] = twin.claim(second)
    twin.beat(first)
    twin.save(first, checkpoint(stale))
    twin.saved(checkpoint(stale))
    twin.end(first, ending(stale, "completed"))
    twin.ended(ending(stale, "completed"))
    twin.enqueue()
    twin.claim(first)
    twin.save(second, checkpoint(claim))
    twin.end(second, ending(claim, "completed"))
    twin.ended(ending(stale, "completed"))
    twin.saved(checkpoint(stale))
    twin.end(first, ending(stale, "failed"))


def one_takes_the_same_job_twice(twin: Twin) -> None:
    worker = twin.hello()
    [stale] = claimed_by(twin, worker)
    twin.end(worker, ending(stale, "released"))
    twin.end(worker, ending(stale, "completed"))
    twin.claim(worker)
    twin.save(worker, checkpoint(stale))
    twin.end(worker, ending(stale, "completed"))


def a_live_worker_is_left_alone(twin: Twin) -> None:
    live, silent = twin.hello(), twin.hello()
    claimed_by(twin, live)
    claimed_by(twin, silent)
    twin.tick(200)
    twin.beat(live)
    twin.tick(100)
    twin.recover()
    twin.recover()


def a_recovered_job_keeps_its_place(twin: Twin) -> None:
    first, second = twin.hello(), twin.hello()
    claimed_by(twin, first, 2)
    twin.tick(300)
    twin.beat(second)
    twin.enqueue()
    twin.recover()
    twin.claim(second, 1)


def a_job_takes_its_executors_down(twin: Twin) -> None:
    [id] = twin.enqueue(max_attempts=9)
    twin.enqueue(max_attempts=1)
    for _ in range(3):
        worker = twin.hello()
        twin.claim(worker)
        twin.bury(worker, [Blame(id, "crashed")])
    twin.claim(twin.hello())


def workers_are_lost_with_a_job(twin: Twin) -> None:
    twin.enqueue(max_attempts=9)
    twin.enqueue(max_attempts=1)
    for _ in range(3):
        twin.claim(twin.hello())
        twin.tick(300)
        twin.recover()
    twin.claim(twin.hello())


def attempts_are_used_up(twin: Twin) -> None:
    worker = twin.hello()
    twin.enqueue(max_attempts=2)
    for word in ("postponed", "failed", "released", "waiting", "failed"):
        [claim] = twin.claim(worker)
        twin.end(worker, ending(claim, word, again=True, delay=0.0))
    twin.claim(worker)


def somebody_stops_what_runs_and_what_waits(twin: Twin) -> None:
    workers = [twin.hello() for _ in range(3)]
    claims = [claimed_by(twin, worker)[0] for worker in workers]
    [waiting] = twin.enqueue()
    twin.cancel(waiting, *(each.id for each in claims))
    twin.end(workers[0], ending(claims[0], "failed", again=True, delay=0.0))
    twin.bury(workers[1], [Blame(claims[1].id, "crashed")])
    twin.tick(300)
    twin.recover()
    twin.cancel(waiting, *(each.id for each in claims))


def what_has_ended_stays_ended(twin: Twin) -> None:
    worker = twin.hello()
    claims = claimed_by(twin, worker, 5)
    words = ("completed", "skipped", "review", "cancelled", "failed")
    twin.end(worker, *(ending(each, word) for each, word in zip(claims, words, strict=True)))
    ids = [each.id for each in claims]
    twin.cancel(*ids)
    for id in ids:
        twin.signal(id, "approved")
    twin.recover()
    twin.expire()
    twin.bury(worker)
    twin.retry(*ids)
    twin.restart(ids[0])


def a_signal_wakes_a_waiting_job(twin: Twin) -> None:
    worker = twin.hello()
    one, two = claimed_by(twin, worker, 2)
    twin.signal(two.id, "approved")
    twin.end(worker, ending(one, "waiting", delay=550.0), ending(two, "waiting", delay=550.0))
    twin.claim(worker)
    twin.signal(one.id, "approved")
    twin.signal(one.id, "approved")
    twin.claim(worker)


def a_lane_lets_only_one_run(twin: Twin) -> None:
    worker, lane = twin.hello(), ("narrow", twin.lane("narrow", 1))
    twin.enqueue(3, lane=lane)
    twin.enqueue(3)
    [claim] = [each for each in twin.claim(worker) if each.lane_id == lane[1]]
    twin.claim(worker)
    twin.end(worker, ending(claim, "completed"))
    twin.claim(worker)
    twin.bury(worker)
    other = twin.hello()
    twin.claim(other)
    twin.tick(300)
    twin.recover()


def what_is_not_due_or_too_late_waits(twin: Twin) -> None:
    worker = twin.hello()
    twin.enqueue(delay=150.0)
    twin.enqueue(expires=50.0)
    twin.tick(100)
    twin.claim(worker)
    twin.expire()
    twin.tick(100)
    twin.claim(worker)


def an_answer_to_a_claim_is_lost(twin: Twin) -> None:
    worker, other = twin.hello(), twin.hello()
    twin.enqueue(3)
    one, two = uuid4(), uuid4()
    twin.claim(worker, 1, token=one)
    twin.claim(worker, 1, token=two)
    twin.claim(other, 1, token=one)
    twin.adopt(worker, one)
    twin.adopt(worker, two)
    twin.adopt(other, two)


def a_paused_queue_gives_nothing(twin: Twin) -> None:
    worker = twin.hello()
    twin.enqueue()
    twin.pause(True)
    twin.claim(worker)
    twin.pause(False)
    twin.claim(worker)


def a_step_is_saved_again(twin: Twin) -> None:
    worker = twin.hello()
    [claim] = claimed_by(twin, worker)
    for value in ("1", "2"):
        twin.save(worker, checkpoint(claim, value=value))
    twin.saved(checkpoint(claim, value="3"))
    twin.end(worker, ending(claim, "completed"))
    twin.enqueue()
    twin.tick(300)
    twin.prune(250.0)


SCENES: tuple[Callable[[Twin], None], ...] = (
    one_comes_back_after_its_lease,
    one_takes_the_same_job_twice,
    a_live_worker_is_left_alone,
    a_recovered_job_keeps_its_place,
    a_job_takes_its_executors_down,
    workers_are_lost_with_a_job,
    attempts_are_used_up,
    somebody_stops_what_runs_and_what_waits,
    what_has_ended_stays_ended,
    a_signal_wakes_a_waiting_job,
    a_lane_lets_only_one_run,
    what_is_not_due_or_too_late_waits,
    an_answer_to_a_claim_is_lost,
    a_paused_queue_gives_nothing,
    a_step_is_saved_again,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_this_story_has_the_answers_of_its_reference(db: Hand, scene: Callable[[Twin], None]) -> None:
    scene(Twin(db))


@dataclass(frozen=True)
class Mutant:
    """The store with one thought missing: in *block*, *text* (spaces count as any space) becomes *instead*."""

    name: str
    sql: dict[str, str] = field(repr=False)
    block: str
    text: str
    instead: str

    def mutated(self) -> str:
        pattern = r"\s+".join(re.escape(word) for word in self.text.split())
        mutated, found = re.subn(pattern, lambda _: self.instead, self.sql[self.block])
        assert found, f"{self.block} has no {self.text!r} any more: find where that thought lives now"
        return mutated


MUTANTS = (
    Mutant("end asks for no fence", jobs.SQL, "end", "and job.fence = said.fence", ""),
    Mutant("end does not ask who holds it", jobs.SQL, "end", "and job.worker_id = %(worker_id)s::bigint", ""),
    Mutant("end keeps the place in the lane", jobs.SQL, "end", "where slot.job_id = ended.id", "where false"),
    Mutant(
        "end lets a free ending cost",
        jobs.SQL,
        "end",
        "attempt = job.attempt - said.free::integer",
        "attempt = job.attempt",
    ),
    Mutant(
        "end forgets that somebody asked to stop",
        jobs.SQL,
        "end",
        "when job.cancel_requested_at is not null then 'cancelled'",
        "",
    ),
    Mutant("end forgets the attempts", jobs.SQL, "end", "not said.free and job.attempt >= job.max_attempts", "false"),
    Mutant("end does not hear a signal", jobs.SQL, "end", "job.signals > said.signals", "false"),
    Mutant("ended asks for no fence", jobs.SQL, "ended", "and attempt.fence = said.fence", ""),
    Mutant("ended takes any word", jobs.SQL, "ended", "and attempt.ending = said.ending", ""),
    Mutant("adopt asks for no token", jobs.SQL, "adopt", "and job.claim_token = %(claim_token)s::uuid", ""),
    Mutant("adopt does not ask who", jobs.SQL, "adopt", "and job.worker_id = %(worker_id)s::bigint", ""),
    Mutant("claim raises no fence", jobs.SQL, "claim", "fence = job.fence + 1", "fence = job.fence"),
    Mutant("claim counts no attempt", jobs.SQL, "claim", "attempt = job.attempt + 1", "attempt = job.attempt"),
    Mutant("claim serves those who are over", jobs.SQL, "claim", "and worker.stopped_at is null", ""),
    Mutant("claim does not wait for the hour", jobs.SQL, "claim", "and job.run_at <= now()", ""),
    Mutant(
        "claim takes what is too late", jobs.SQL, "claim", "and (job.expires_at is null or job.expires_at > now())", ""
    ),
    Mutant("claim does not see a pause", jobs.SQL, "claim", "and paused.paused_at is not null", "and false"),
    Mutant("claim sits nobody down", jobs.SQL, "claim", "set job_id = pick.id", "set job_id = null"),
    Mutant("recover does not look at the lease", jobs.SQL, "recover", "and worker.lease_expires_at < now()", ""),
    Mutant(
        "recover revives what was asked to stop",
        jobs.SQL,
        "recover",
        "when job.cancel_requested_at is not null then 'cancelled'",
        "",
    ),
    Mutant(
        "recover forgets the attempts", jobs.SQL, "recover", "when job.attempt >= job.max_attempts then 'failed'", ""
    ),
    Mutant("recover counts no crash", jobs.SQL, "recover", "job.crashes + 1", "job.crashes"),
    Mutant(
        "recover sends to the end of the line",
        jobs.SQL,
        "recover",
        "crashes = held.crashes,",
        "crashes = held.crashes, run_at = now(),",
    ),
    Mutant(
        "recover leaves the worker alive",
        jobs.SQL,
        "recover",
        "set stopped_at = coalesce(worker.stopped_at, now()),",
        "set",
    ),
    Mutant("recover keeps the place in the lane", jobs.SQL, "recover", "where slot.job_id = held.id", "where false"),
    Mutant(
        "recover writes no history",
        jobs.SQL,
        "recover",
        "held.claimed_at from held",
        "held.claimed_at from held where false",
    ),
    Mutant(
        "bury blames everybody",
        jobs.SQL,
        "bury",
        "coalesce(blamed.ending, 'released')",
        "coalesce(blamed.ending, 'crashed')",
    ),
    Mutant("bury counts no crash", jobs.SQL, "bury", "(blamed.ending = 'crashed')::integer", "0"),
    Mutant("bury never quarantines", jobs.SQL, "bury", "job.crashes + 1 >= %(most_crashes)s::integer", "false"),
    Mutant("bury revives what was asked to stop", jobs.SQL, "bury", "or job.cancel_requested_at is not null", ""),
    Mutant(
        "bury leaves the worker alive", jobs.SQL, "bury", "set stopped_at = coalesce(worker.stopped_at, now()),", "set"
    ),
    Mutant("bury keeps the place in the lane", jobs.SQL, "bury", "where slot.job_id = held.id", "where false"),
    Mutant("expire does not look at the clock", jobs.SQL, "expire", "and job.expires_at <= now()", ""),
    Mutant("cancel stops what has ended", jobs.SQL, "cancel", "and job.state in ('queued', 'running')", ""),
    Mutant(
        "retry revives what ended well",
        jobs.SQL,
        "retry",
        "and job.state in ('failed', 'cancelled', 'review')",
        "and job.finished_at is not null",
    ),
    Mutant(
        "signal wakes nobody",
        jobs.SQL,
        "signal",
        "then now() else job.run_at end",
        "then job.run_at else job.run_at end",
    ),
    Mutant("signal speaks to what has ended", jobs.SQL, "signal", "and job.state in ('queued', 'running')", ""),
    Mutant("prune takes what waits", jobs.SQL, "prune", "job.finished_at < now()", "job.created_at < now()"),
    Mutant("save asks for no fence", checkpoints.SQL, "save", "and job.fence = said.fence", ""),
    Mutant("save does not ask who holds it", checkpoints.SQL, "save", "and job.worker_id = %(worker_id)s::bigint", ""),
    Mutant("save always says the first generation", checkpoints.SQL, "save", "max(earlier.generation)", "min(0)"),
    Mutant("saved asks for no fence", checkpoints.SQL, "saved", "and checkpoint.fence = said.fence", ""),
    Mutant("saved takes any value", checkpoints.SQL, "saved", "and checkpoint.checksum = said.checksum", ""),
    Mutant("heartbeat revives those who are over", workers.SQL, "heartbeat", "and worker.stopped_at is null", ""),
    Mutant(
        "heartbeat does not extend the lease",
        workers.SQL,
        "heartbeat",
        "lease_expires_at = now() + make_interval(secs => worker.lease_seconds),",
        "",
    ),
    Mutant("resume does not resume", queues.SQL, "resume", "set paused_at = null,", "set"),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_store_that_forgets_something_is_found_out(db: Hand, monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    monkeypatch.setitem(mutant.sql, mutant.block, mutant.mutated())

    found_out = []
    for scene in SCENES:
        try:
            scene(Twin(db))
        except (AssertionError, psycopg.IntegrityError, ValueError) as disagreement:
            found_out.append(f"{scene.__name__}: {disagreement}")

    assert found_out, f"Nobody saw that {mutant.name}"
