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
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from store_hand import Hand, checkpoint
from store_reference import ENDED
from store_twin import Twin, distinct, ending

from retoma.model.job import Claim, Ended
from retoma.store import checkpoints, jobs, queues, workers
from retoma.store.jobs import BESIDE, MOST_BESIDE, Blame

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "150"))
STEPS = 60

WORDS = ("completed", "skipped", "review", "cancelled", "failed", "failed", "postponed", "waiting", "released")
BLAMES = (None, "crashed", "crashed", "alone", "beside", "timeout", "cancelled")
STEP_NAMES = ("chapter/1", "total")


def _blame(id: int, word: str, delay: float, again: bool) -> Blame:
    """What a supervisor says of a job: how it ended, and whether the job did it or was beside it."""
    if word == "beside":
        return Blame(id, "released", "total", delay, 1.0, reason=BESIDE, error="why")
    if word == "alone":
        return Blame(id, "crashed", "total", delay, 1.0, again=again, alone=True)
    return Blame(id, word, "total", delay, again=again)


# A story picks by number among those who are there; mostly one that is alive, held or waiting, at times any other.
PICK = st.integers(0, 11)
USUAL = st.sampled_from((True, True, True, False))
DELAYS = st.sampled_from((None, 0.0, 0.0, 50.0, 550.0))


@dataclass(frozen=True)
class Held:
    """A claim in somebody's hands; whether it still counts is for the store to say."""

    worker: int
    claim: Claim


def holding(story: Story) -> bool:
    return bool(story.claims)


class Story(RuleBasedStateMachine):
    """Any order of what workers, supervisors, people and time may do."""

    hand: ClassVar[Hand]
    told: ClassVar[int] = 0

    @initialize()
    def begin(self) -> None:
        self.twin = Twin(self.hand)
        self.lanes: list[tuple[str, int] | None] = [None]
        for name, at_once in (("wide", None), ("narrow", 1), ("pair", 2)):
            self.lanes.append((name, self.twin.lane(name, at_once)))
        self.claims: list[Held] = []
        self.endings: list[tuple[int, Ended]] = []
        self.twin.hello()
        self.twin.hello()

    def _tell(self) -> Twin:
        type(self).told += 1
        return self.twin

    def _worker(self, pick: int, usual: bool) -> int:
        among = self._alive() if usual else []
        among = among or sorted(self.twin.reference.workers)
        return among[pick % len(among)]

    def _alive(self) -> list[int]:
        return [id for id, worker in sorted(self.twin.reference.workers.items()) if not worker.stopped]

    def _held(self, pick: int, usual: bool) -> Held:
        reference = self.twin.reference
        among = [
            each for each in self.claims if usual and reference.holds(each.worker, each.claim.id, each.claim.fence)
        ]
        among = among or self.claims
        return among[-1 - pick % len(among)]

    def _jobs(self, picks: list[int], states: tuple[str, ...]) -> list[int]:
        known = self.twin.reference.jobs
        among = sorted(id for id in known if known[id].state in states) or sorted(known)
        return list(dict.fromkeys(among[-1 - pick % len(among)] for pick in picks))

    # — workers and time —

    @precondition(lambda self: len(self._alive()) < 3)
    @rule()
    def another_worker_starts(self) -> None:
        self._tell().hello()

    @rule(picks=st.lists(PICK, max_size=2), usual=USUAL)
    def workers_beat(self, picks: list[int], usual: bool) -> None:
        self._tell().beat(*{*self._alive(), *(self._worker(pick, usual) for pick in picks)})

    @rule(hundreds=st.sampled_from((1, 1, 2, 3, 10)))
    def time_passes(self, hundreds: int) -> None:
        self._tell().tick(100.0 * hundreds)

    @rule(hundreds=st.sampled_from((1, 3, 10)))
    def time_passes_and_all_but_one_beat(self, hundreds: int) -> None:
        self._tell().tick(100.0 * hundreds)
        self.twin.beat(*self._alive()[1:])

    @rule(paused=st.sampled_from((False, False, True)))
    def the_queue_is_paused_or_goes_on(self, paused: bool) -> None:
        self._tell().pause(paused)

    # — jobs come and are taken —

    @rule(
        number=st.integers(1, 4),
        lane=st.integers(0, 3),
        priority=st.integers(-1, 1),
        delay=st.sampled_from((0.0, 0.0, 50.0, 150.0)),
        max_attempts=st.integers(1, 6),
    )
    def jobs_are_queued(self, number: int, lane: int, priority: int, delay: float, max_attempts: int) -> None:
        self._tell().enqueue(number, lane=self.lanes[lane], priority=priority, delay=delay, max_attempts=max_attempts)

    @rule(lane=st.integers(0, 3))
    def a_job_waits_too_long(self, lane: int) -> None:
        self._tell().enqueue(lane=self.lanes[lane], expires=50.0)
        self.twin.tick(100.0)

    @rule(
        pick=PICK,
        usual=USUAL,
        limit=st.integers(1, 6),
        after=st.integers(0, 3),
        heard=st.booleans(),
        suspects=st.sampled_from((False, False, True)),
    )
    def a_worker_claims(self, pick: int, usual: bool, limit: int, after: int, heard: bool, suspects: bool) -> None:
        worker, behind, token = self._worker(pick, usual), self.lanes[after], uuid4()
        claims = self._tell().claim(worker, limit, after=behind[1] if behind else 0, token=token, suspects=suspects)
        if not heard:  # the acknowledgement was lost: what was taken is found by the token, and by its owner
            claims = self.twin.adopt(worker, token)
            self.twin.adopt(self._worker(pick + 1, usual), token)
        self.claims += [Held(worker, each) for each in claims]

    # — steps —

    @precondition(holding)
    @rule(pick=PICK, usual=USUAL, name=st.sampled_from(STEP_NAMES), value=st.integers(0, 1))
    def a_step_is_saved(self, pick: int, usual: bool, name: str, value: int) -> None:
        held = self._held(pick, usual)
        self._tell().save(held.worker, checkpoint(held.claim, name, str(value)))
        for each in (0, 1):
            self.twin.saved(checkpoint(held.claim, name, str(each)))

    @precondition(holding)
    @rule(picks=st.lists(PICK, min_size=2, max_size=3), usual=USUAL, name=st.sampled_from(STEP_NAMES))
    def several_steps_are_saved_at_once(self, picks: list[int], usual: bool, name: str) -> None:
        many = [self._held(pick, usual) for pick in picks]
        claims = distinct(each.claim for each in many)
        self._tell().save(many[0].worker, *(checkpoint(each, name) for each in claims))

    @precondition(holding)
    @rule(pick=PICK, name=st.sampled_from(STEP_NAMES), off=st.sampled_from((-1, 1)))
    def a_step_is_saved_with_a_fence_that_is_not_its_own(self, pick: int, name: str, off: int) -> None:
        held = self._held(pick, usual=True)
        claim = replace(held.claim, fence=held.claim.fence + off)
        self._tell().save(held.worker, checkpoint(claim, name))
        self.twin.saved(checkpoint(claim, name))

    @precondition(holding)
    @rule(pick=PICK, other=PICK, name=st.sampled_from(STEP_NAMES))
    def somebody_saves_a_step_of_another(self, pick: int, other: int, name: str) -> None:
        self._tell().save(self._worker(other, usual=True), checkpoint(self._held(pick, usual=True).claim, name))

    # — endings —

    @precondition(holding)
    @rule(pick=PICK, usual=USUAL, word=st.sampled_from(WORDS), again=st.booleans(), delay=DELAYS)
    def an_attempt_ends(self, pick: int, usual: bool, word: str, again: bool, delay: float | None) -> None:
        held = self._held(pick, usual)
        how = ending(held.claim, word, again=again, delay=delay)
        self._tell().end(held.worker, how)
        self.endings.append((held.worker, how))

    @precondition(holding)
    @rule(pick=PICK)
    def a_job_waits_for_a_signal(self, pick: int) -> None:
        held = self._held(pick, usual=True)
        self._tell().end(held.worker, ending(held.claim, "waiting", delay=550.0))

    @precondition(holding)
    @rule(picks=st.lists(PICK, min_size=2, max_size=4), usual=USUAL, words=st.lists(st.sampled_from(WORDS), min_size=4))
    def several_attempts_end_at_once(self, picks: list[int], usual: bool, words: list[str]) -> None:
        many = [self._held(pick, usual) for pick in picks]
        claims = distinct(each.claim for each in many)
        how = [ending(each, word, delay=0.0) for each, word in zip(claims, words, strict=False)]
        self._tell().end(many[0].worker, *how)

    @precondition(lambda self: self.endings)
    @rule(pick=PICK, word=st.sampled_from(WORDS))
    def an_ending_is_said_again(self, pick: int, word: str) -> None:
        worker, how = self.endings[-1 - pick % len(self.endings)]
        self._tell().end(worker, how)
        self.twin.ended(how)
        self.twin.ended(ending(how.claim, word))

    @precondition(holding)
    @rule(pick=PICK, word=st.sampled_from(WORDS), off=st.sampled_from((-1, 1)))
    def an_ending_comes_with_a_fence_that_is_not_its_own(self, pick: int, word: str, off: int) -> None:
        held = self._held(pick, usual=True)
        self._tell().end(held.worker, ending(replace(held.claim, fence=held.claim.fence + off), word))

    @precondition(holding)
    @rule(pick=PICK, other=PICK, word=st.sampled_from(WORDS))
    def somebody_ends_the_job_of_another(self, pick: int, other: int, word: str) -> None:
        held, worker = self._held(pick, usual=True), self._worker(other, usual=True)
        if worker != held.worker:
            self._tell().end(worker, ending(held.claim, word))

    # — those who are gone —

    @rule(limit=st.sampled_from((1, 20)))
    def silent_workers_are_swept(self, limit: int) -> None:
        self._tell().recover(limit)

    @precondition(holding)
    @rule(
        pick=PICK,
        blames=st.lists(st.sampled_from(BLAMES), min_size=4, max_size=4),
        delay=st.sampled_from((0.0, 50.0)),
        again=st.sampled_from((True, True, False)),
    )
    def a_worker_is_buried(self, pick: int, blames: list[str | None], delay: float, again: bool) -> None:
        worker = self._held(pick, usual=True).worker
        held = self.twin.reference.held_by(worker)
        words = zip(held, blames, strict=False)
        self._tell().bury(worker, [_blame(job.id, word, delay, again) for job, word in words if word])

    @precondition(holding)
    @rule(pick=PICK, seconds=st.sampled_from((0.0, 300.0)))
    def a_job_takes_its_worker_down(self, pick: int, seconds: float) -> None:
        held = self._held(pick, usual=True)
        if seconds:
            self._tell().tick(seconds)
            self.twin.recover()
        else:
            self._tell().bury(held.worker, [Blame(held.claim.id, "crashed", alone=True)])
        self.twin.hello()

    # — short lives, so that there is always something that has begun, waits or has ended —

    @rule(
        words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        again=st.booleans(),
        delay=DELAYS,
        meanwhile=st.sampled_from((None, None, "cancel", "signal")),
        afterwards=st.sampled_from((None, "signal", "retry")),
    )
    def a_worker_takes_and_ends(
        self, words: list[str], again: bool, delay: float | None, meanwhile: str | None, afterwards: str | None
    ) -> None:
        twin, worker = self._tell(), self.twin.hello()
        if len(self.twin.reference.jobs) < 4:
            twin.enqueue(len(words))
        claims = twin.claim(worker, len(words))
        for claim, word in zip(claims, words, strict=False):
            self._do(meanwhile, claim.id)
            how = ending(claim, word, again=again, delay=delay)
            twin.end(worker, how)
            self.endings.append((worker, how))
            self._do(afterwards, claim.id)
        twin.bury(worker)

    def _do(self, deed: str | None, id: int) -> None:
        match deed:
            case "cancel":
                self.twin.cancel(id)
            case "signal":
                self.twin.signal(id, "approved")
            case "retry":
                self.twin.retry(id)

    @rule(times=st.integers(1, 3), limit=st.integers(1, 3))
    def workers_crash_in_a_row(self, times: int, limit: int) -> None:
        self._tell()
        for _ in range(times):
            worker = self.twin.hello()
            claims = self.twin.claim(worker, limit) or self.twin.claim(worker, limit, suspects=True)
            self.twin.bury(worker, [Blame(each.id, "crashed") for each in claims])

    @rule()
    def late_jobs_expire(self) -> None:
        self._tell().expire()

    # — people —

    @precondition(lambda self: self.twin.reference.jobs)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3), running=st.booleans())
    def somebody_cancels(self, picks: list[int], running: bool) -> None:
        self._tell().cancel(*self._jobs(picks, ("running",) if running else ("queued", "running", "completed")))

    @precondition(lambda self: self.twin.reference.jobs)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3), attempts=st.sampled_from((None, 1, 2)))
    def somebody_retries(self, picks: list[int], attempts: int | None) -> None:
        self._tell().retry(*self._jobs(picks, tuple(ENDED)), attempts=attempts)

    @precondition(lambda self: self.twin.reference.jobs)
    @rule(pick=PICK)
    def somebody_restarts(self, pick: int) -> None:
        self._tell().restart(*self._jobs([pick], tuple(ENDED)))

    @precondition(lambda self: self.twin.reference.jobs)
    @rule(pick=PICK, name=st.sampled_from(("approved", "paid")), waiting=st.booleans())
    def somebody_signals(self, pick: int, name: str, waiting: bool) -> None:
        known = self.twin.reference.jobs.values()
        wait = sorted(job.id for job in known if job.state == "queued" and job.reason == "waiting")
        [id] = [wait[pick % len(wait)]] if waiting and wait else self._jobs([pick], ("running", "queued", "failed"))
        self._tell().signal(id, name)

    @rule(older_than=st.sampled_from((250.0, 1050.0)))
    def old_jobs_are_pruned(self, older_than: float) -> None:
        self._tell().prune(older_than)


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
    for crash in range(3):
        worker = twin.hello()
        twin.claim(worker)
        twin.claim(worker, suspects=crash > 0)
        twin.bury(worker, [Blame(id, "crashed")])
    twin.claim(twin.hello())
    twin.claim(twin.hello(), suspects=True)


def a_job_that_is_seen_to_do_it_runs_alone_at_once(twin: Twin) -> None:
    culprit, neighbour = twin.enqueue(2, max_attempts=3, expires=5000.0)
    for crash in range(3):
        worker = twin.hello()
        twin.claim(worker)
        twin.claim(worker, suspects=crash > 0)
        twin.bury(worker, [Blame(culprit, "crashed", alone=True), _blame(neighbour, "beside", 0.0, True)])
        if crash == 1:
            worker = twin.hello()
            twin.claim(worker, suspects=True)
            twin.bury(worker)
            twin.claim(twin.hello(), suspects=True)
            twin.tick(300)
            twin.recover()
    twin.retry(culprit)
    twin.claim(twin.hello())


def a_job_is_beside_many_deaths(twin: Twin) -> None:
    [id] = twin.enqueue(max_attempts=1)
    for _ in range(MOST_BESIDE):
        worker = twin.hello()
        twin.claim(worker)
        twin.bury(worker, [_blame(id, "beside", 0.0, True)])
    twin.claim(twin.hello())
    twin.claim(twin.hello(), suspects=True)


def workers_are_lost_with_a_job(twin: Twin) -> None:
    twin.enqueue(max_attempts=9)
    twin.enqueue(max_attempts=1)
    for lost in range(3):
        twin.claim(twin.hello(), suspects=lost > 1)
        twin.tick(300)
        twin.recover()
    twin.claim(twin.hello())


def a_job_comes_further_before_each_crash(twin: Twin) -> None:
    twin.enqueue(max_attempts=9)
    for crash in range(4):
        worker = twin.hello()
        [claim] = twin.claim(worker)
        if crash:
            twin.save(worker, checkpoint(claim, f"page/{crash}"))
        if crash % 2:
            twin.bury(worker, [Blame(claim.id, "crashed")])
        else:
            twin.tick(300)
            twin.recover()
    twin.claim(twin.hello())


def a_worker_is_lost_with_more_than_it_could_begin(twin: Twin) -> None:
    worker = twin.hello()
    claimed_by(twin, worker, 3, max_attempts=1)
    claimed_by(twin, worker, 5, priority=-1, max_attempts=1)
    twin.cancel(*(job.id for job in twin.reference.held_by(worker)[-2:]))
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
    a_worker_is_lost_with_more_than_it_could_begin,
    a_recovered_job_keeps_its_place,
    a_job_takes_its_executors_down,
    workers_are_lost_with_a_job,
    a_job_comes_further_before_each_crash,
    a_job_that_is_seen_to_do_it_runs_alone_at_once,
    a_job_is_beside_many_deaths,
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
    Mutant("claim does not see a pause", jobs.SQL, "claim", "(queue.paused_at is not null and", "(false and"),
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
    Mutant(
        "claim takes everybody",
        jobs.SQL,
        "claim",
        "and (job.alone or job.crashes >= 2) = %(suspects)s::boolean",
        "",
    ),
    Mutant("recover blames what was only fetched", jobs.SQL, "recover", "<= silent.at_once", "> 0"),
    Mutant("recover blames nobody", jobs.SQL, "recover", "<= silent.at_once", "< 0"),
    Mutant("recover counts no crash", jobs.SQL, "recover", "earlier.crashes + 1", "job.crashes"),
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
    Mutant(
        "bury forgets how far it came",
        jobs.SQL,
        "bury",
        "then 0 else job.crashes end",
        "then job.crashes else job.crashes end",
    ),
    Mutant(
        "recover forgets how far it came",
        jobs.SQL,
        "recover",
        "then 0 else job.crashes end",
        "then job.crashes else job.crashes end",
    ),
    Mutant("bury lets no culprit run alone", jobs.SQL, "bury", "or coalesce(blamed.alone, false)", ""),
    Mutant("bury never tires of neighbours", jobs.SQL, "bury", "+ 1 >= %(most_beside)s::integer", "< 0"),
    Mutant("bury lets every neighbour run alone", jobs.SQL, "bury", "+ 1 >= %(most_beside)s::integer", ">= 0"),
    Mutant("bury lets what had begun expire", jobs.SQL, "bury", "and held.seconds is null", ""),
    Mutant("bury forgets who runs alone", jobs.SQL, "bury", "job.alone or coalesce", "coalesce"),
    Mutant("claim knows crashes only", jobs.SQL, "claim", "(job.alone or job.crashes >= 2)", "(job.crashes >= 2)"),
    Mutant("retry leaves it alone", jobs.SQL, "retry", "alone = false,", ""),
    Mutant("bury counts no crash", jobs.SQL, "bury", "(blamed.ending = 'crashed')::integer", "0"),
    Mutant("bury never quarantines", jobs.SQL, "bury", "earlier.crashes + 1 >= %(most_crashes)s::integer", "false"),
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
