"""Batches against a small reference: any story of jobs, people, workers and time leaves the rows, the counts and the
story that plain Python says it must.

What becomes of a single job is proven elsewhere (test_model.py); here the change of each job is read from the table,
and the reference says what that makes of its batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from store_batch import EMPTY_BATCHES, STALL, BatchHand, ending, hands
from store_hand import EMPTY

from retoma.errors import BatchConflict
from retoma.model.job import Claim
from retoma.store import jobs, workers
from retoma.store.jobs import Blame

Hands = Callable[..., BatchHand]

EXAMPLES = int(os.environ.get("BATCH_MODEL_EXAMPLES", "60"))
STEPS = 40

WORDS = ("completed", "completed", "skipped", "review", "cancelled", "failed", "again", "released", "postponed")
PICK = st.integers(0, 11)
OPEN = frozenset({"queued", "running"})
OVER = frozenset({"completed", "failed", "cancelled"})
MOVES = frozenset({
    ("new", "queued"),
    ("queued", "running"), ("queued", "paused"), ("queued", "completed"), ("queued", "cancelled"),
    ("running", "completed"), ("running", "stalled"), ("running", "paused"), ("running", "failed"),
    ("running", "cancelled"),
    ("stalled", "running"), ("stalled", "completed"), ("stalled", "paused"), ("stalled", "failed"),
    ("stalled", "cancelled"),
    ("paused", "running"), ("paused", "queued"), ("paused", "completed"), ("paused", "cancelled"), ("paused", "failed"),
    ("completed", "running"), ("failed", "running"), ("failed", "completed"), ("cancelled", "running"),
})  # fmt: skip

LOOK = """
select json_build_object(
    'jobs', (select coalesce(json_agg(json_build_array(job.batch_id, job.id, job.state)), '[]')
               from retoma.jobs as job),
    'batches', (select coalesce(json_agg(json_build_array(
                    batch.id, batch.state, batch.total, batch.unfinished, batch.failures, batch.resumes,
                    lane.closed_at is null)), '[]')
                  from retoma.batches as batch join retoma.lanes as lane on lane.id = batch.lane_id),
    'events', (select coalesce(json_agg(json_build_array(event.batch_id, event.seq, event.kind, event.data)
                                        order by event.batch_id, event.seq), '[]') from retoma.events as event))::text
"""


@pytest.fixture
def hand(room: str) -> Iterator[Hands]:
    yield from hands(room)


@dataclass
class Run:
    """A batch as it should be."""

    id: int
    rate: float | None
    max_resumes: int
    state: str = "queued"
    sealed: bool = False
    started: bool = False
    total: int = 0
    unfinished: int = 0
    failures: int = 0
    forgiven: int = 0
    forgiven_of: int = 0
    resumes: int = 0
    age: float = 0.0
    silent: bool = False
    """Longer than it allows without anything that ended."""
    moved: bool = False
    """Whether a step of it was saved since it was called stalled."""

    def count(self, states: list[str]) -> None:
        self.sealed = True
        self.total = len(states)
        self.unfinished = sum(each in OPEN for each in states)
        self.failures = states.count("failed")

    def hear(self, moved: list[tuple[str, str]]) -> None:
        """What happened to its jobs, in one statement."""
        moved = [(was, now) for was, now in moved if now != "running"]  # a claim is not told: it ends nothing
        if not self.sealed or not moved:
            return
        ended = sum(was in OPEN and now not in OPEN for was, now in moved)
        revived = sum(was not in OPEN and now in OPEN for was, now in moved)
        self.unfinished += revived - ended
        self.failures += sum(now == "failed" for _, now in moved) - sum(was == "failed" for was, _ in moved)
        if revived:
            self.forgiven, self.forgiven_of = self.failures, self.total - self.unfinished
        if ended:
            self.silent = False
        if self.state in OVER:
            if revived:
                self.go("running")
        elif self.unfinished == 0:
            self.state = "completed"
        elif self.state in {"running", "stalled"}:
            done = self.total - self.unfinished - self.forgiven_of
            if self.rate is not None and self.failures - self.forgiven > self.rate * max(done, min(self.total, 20)):
                self.state = "failed"
            elif self.state == "stalled" and ended:
                self.go("running")

    def go(self, state: str) -> None:
        self.state = state
        if state == "running":
            self.started, self.silent = True, False


class Story(RuleBasedStateMachine):
    """Any order of what people, workers, the watchdog and time may do to batches."""

    hand: ClassVar[BatchHand]
    told: ClassVar[int] = 0
    seen: ClassVar[set[str]] = set()

    @initialize()
    def begin(self) -> None:
        self.db = self.hand
        self.db.sql(EMPTY + "; " + EMPTY_BATCHES)
        self.runs: dict[int, Run] = {}
        self.jobs: dict[int, tuple[int, str]] = {}
        self.claims: list[tuple[int, Claim]] = []
        self.workers = [self.db.hello(lease=1e9)]
        self.number = 0

    # — looking —

    def _moved(self) -> dict[int, list[tuple[str, str]]]:
        """What happened to jobs since the last look, by batch."""
        self.look = json.loads(self.db.value(LOOK))
        moved: dict[int, list[tuple[str, str]]] = {}
        for batch, id, state in self.look["jobs"]:
            was = self.jobs.get(id, (batch, "queued"))[1]
            if state != was:
                moved.setdefault(batch, []).append((was, state))
            self.jobs[id] = (batch, state)
        return moved

    def _states(self, batch: int) -> list[str]:
        return [state for of, state in self.jobs.values() if of == batch]

    def _hear(self, *, person: bool = False) -> None:
        """The reference hears what happened to the jobs, and then everything must agree."""
        type(self).told += 1
        for batch, moved in self._moved().items():
            if not person:
                back = [pair for pair in moved if pair[0] not in OPEN]
                assert not back, f"jobs of batch {batch} went back by themselves: {back}"
            self.runs[batch].hear(moved)
        self._agree()

    def _agree(self) -> None:
        story: dict[int, list[tuple[int, str, dict[str, str]]]] = {}
        for batch, *event in self.look["events"]:
            story.setdefault(batch, []).append(tuple(event))
        for id, state, total, unfinished, failures, resumes, is_open in self.look["batches"]:
            run = self.runs[id]
            type(self).seen.add(state)
            found = (state, total, unfinished, failures, resumes)
            expected = (run.state, run.total if run.sealed else None, run.unfinished, run.failures, run.resumes)
            assert found == expected, f"batch {id}: PostgreSQL says {found}, the reference {expected}"
            assert state == "completed" or is_open == (run.sealed and state in {"queued", "running", "stalled"})
            states = self._states(id)
            if run.sealed:
                assert (len(states), sum(each in OPEN for each in states)) == (total, unfinished)
            self._replayed(id, state, story[id])
        assert self.db.breaches() == []

    def _replayed(self, id: int, state: str, events: list[tuple[int, str, dict[str, str]]]) -> None:
        """The story alone says where the batch and its jobs are."""
        assert [seq for seq, *_ in events] == list(range(1, len(events) + 1))
        now, told = "new", {}
        for _, kind, data in events:
            if kind == "jobs":
                told.update(dict(data["jobs"]))
            elif kind == "created":
                now = "queued"
            elif kind not in {"sealed", "changed"}:
                assert data["before"] == now
                assert (now, kind) in MOVES
                now = kind
        assert now == state
        for job, (of, stands) in self.jobs.items():
            if of == id and stands != "running":
                assert told.get(job, "queued") == stands, f"the story leaves job {job} {told.get(job)}: it is {stands}"

    def _batch(self, pick: int) -> Run:
        return list(self.runs.values())[-1 - pick % len(self.runs)]

    def _job(self, pick: int, states: frozenset[str]) -> int:
        among = [id for id, (_, state) in sorted(self.jobs.items()) if state in states] or sorted(self.jobs)
        return among[-1 - pick % len(among)]

    # — batches come —

    @rule(
        number=st.integers(1, 5),
        rate=st.sampled_from((None, None, 0.0, 0.1, 0.5)),
        max_resumes=st.sampled_from((0, 0, 1, 2)),
        at_once=st.sampled_from((None, None, 1)),
    )
    def somebody_makes_a_batch(self, number: int, rate: float | None, max_resumes: int, at_once: int | None) -> None:
        id = self.db.batch(number, max_failure_rate=rate, max_resumes=max_resumes, at_once=at_once, max_retries=3)
        run = self.runs[id] = Run(id, rate, max_resumes)
        self._moved()
        run.count(self._states(id))
        self._agree()

    @rule(number=st.integers(0, 3))
    def somebody_opens_one(self, number: int) -> None:
        id = self.db.open(max_resumes=1)
        self.runs[id] = Run(id, None, 1)
        if number:
            self.db.fill(id, *range(number))
        self._hear()

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def somebody_fills_one(self, pick: int) -> None:
        run = self._batch(pick)
        self.number += 1
        if run.sealed or run.state != "queued":
            with pytest.raises(BatchConflict):
                self.db.fill(run.id, 100 + self.number)
        else:
            self.db.fill(run.id, 100 + self.number)
        self._hear()

    @precondition(lambda self: any(not run.sealed for run in self.runs.values()))
    @rule(pick=PICK)
    def somebody_seals_one(self, pick: int) -> None:
        among = [run for run in self.runs.values() if not run.sealed]
        run = among[pick % len(among)]
        states = self._states(run.id)
        if run.state == "queued" and "queued" in states:
            self.db.seal(run.id, expected=len(states))
            run.count(states)
        else:
            with pytest.raises(BatchConflict):
                self.db.seal(run.id)
        self._hear()

    # — workers —

    @precondition(lambda self: self.jobs)
    @rule(limit=st.integers(1, 6), again=st.booleans())
    def a_worker_claims(self, limit: int, again: bool) -> None:
        worker = self.workers[-1]
        if again:
            worker = self.db.hello(lease=1e9)
            self.workers.append(worker)
        claims = self.db.claim(worker, limit)
        for claim in claims:
            run = self.runs[claim.batch_id or 0]
            assert run.sealed
            assert run.state in {"queued", "running", "stalled"}
        for id in {claim.batch_id or 0 for claim in claims}:
            if self.runs[id].state == "queued":
                self.runs[id].go("running")
        self.claims += [(worker, each) for each in claims]
        self._hear()

    @precondition(lambda self: self.claims)
    @rule(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
    def attempts_end_in_one_statement(self, words: list[str]) -> None:
        worker = self.claims[-1][0]
        mine = {claim.id: claim for holder, claim in self.claims if holder == worker}
        some = [mine[id] for id in sorted(mine)][: len(words)]
        how = [ending(claim, word, seconds=1.0) for claim, word in zip(some, words, strict=False)]
        for each in how:
            each.delay = 0.0
        self.db.end(worker, *how)
        done = {each.id for each in some}
        self.claims = [each for each in self.claims if each[0] != worker or each[1].id not in done]
        self._hear()

    @precondition(lambda self: self.claims)
    @rule(pick=PICK)
    def a_step_is_saved(self, pick: int) -> None:
        worker, claim = self.claims[pick % len(self.claims)]
        self.db.save(worker, claim, f"step {self.told}")
        if claim.batch_id in self.runs:
            self.runs[claim.batch_id].moved = True
        self._hear()

    @precondition(lambda self: self.claims)
    @rule(ends=st.sampled_from(("crashed", "timeout", "cancelled", None)), lost=st.booleans())
    def a_worker_goes(self, ends: str | None, lost: bool) -> None:
        worker = self.claims[-1][0]
        if lost:
            self.db.silence(worker)
            self.db.recover()
        else:
            blamed = [Blame(claim.id, ends) for holder, claim in self.claims if ends and holder == worker]
            self.db.ask(jobs.bury(worker, blamed[:2], reason="why", error="why"))
        self.workers.append(self.db.hello(lease=1e9))  # its claims stay in hand: whatever it says later must miss
        self._hear()

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK)
    def a_job_waits_too_long(self, pick: int) -> None:
        self.db.sql(
            "update retoma.jobs set expires_at = now() where id = %(id)s and state = 'queued'",
            id=self._job(pick, frozenset({"queued"})),
        )
        self.db.ask(jobs.expire())
        self._hear()

    @precondition(lambda self: self.claims)
    @rule(pick=PICK)
    def a_job_runs_for_more_than_a_day(self, pick: int) -> None:
        self.db.sql(
            "update retoma.jobs set claimed_at = now() - interval '2 days' where id = %(id)s and state = 'running'",
            id=self._job(pick, frozenset({"running"})),
        )
        self.db.ask(jobs.overdue(86_400.0))
        self._hear()

    # — people, with single jobs —

    @precondition(lambda self: self.jobs)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def somebody_cancels_jobs(self, picks: list[int]) -> None:
        self.db.ask(jobs.cancel(sorted({self._job(pick, OPEN) for pick in picks})))
        self._hear()

    @precondition(lambda self: self.jobs)
    @rule(picks=st.lists(PICK, min_size=1, max_size=2))
    def somebody_retries_jobs(self, picks: list[int]) -> None:
        self.db.ask(jobs.retry(sorted({self._job(pick, frozenset({"failed", "review"})) for pick in picks})))
        self._hear(person=True)

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK)
    def somebody_restarts_a_job(self, pick: int) -> None:
        self.db.ask(jobs.restart(self._job(pick, frozenset({"completed", "skipped"}))))
        self._hear(person=True)

    # — people, with batches —

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def somebody_pauses(self, pick: int) -> None:
        run = self._batch(pick)
        if run.state == "paused" or (run.sealed and run.state in {"queued", "running", "stalled"}):
            self.db.pause(run.id)
            run.state = "paused"
        else:
            with pytest.raises(BatchConflict):
                self.db.pause(run.id)
        self._hear()

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def somebody_resumes(self, pick: int) -> None:
        run = self._batch(pick)
        was = run.state
        used_up = was in {"stalled", "failed"} and run.unfinished > 0 and run.resumes >= run.max_resumes
        if not run.sealed or was == "cancelled" or used_up:
            with pytest.raises(BatchConflict):
                self.db.resume(run.id)
        else:
            changed = was in {"paused", "stalled", "failed"}
            assert self.db.resume(run.id).changed == changed
            if changed:
                run.resumes += was != "paused" and run.unfinished > 0
                run.forgiven, run.forgiven_of = run.failures, run.total - run.unfinished
                busy = run.started or run.unfinished < run.total or "running" in self._states(run.id)
                run.go("completed" if run.unfinished == 0 else "running" if busy else "queued")
        self._hear()

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def somebody_cancels(self, pick: int) -> None:
        run = self._batch(pick)
        if run.state in {"completed", "failed"}:
            with pytest.raises(BatchConflict):
                self.db.cancel(run.id)
        else:
            self._cancelled(run)
            self.db.cancel(run.id)
        self._hear()

    def _cancelled(self, run: Run) -> None:
        if not run.sealed and (states := self._states(run.id)):
            run.count(states)
        run.state = "cancelled"

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, cancelled=st.booleans())
    def somebody_retries_what_failed(self, pick: int, cancelled: bool) -> None:
        run = self._batch(pick)
        wanted = {"failed", "cancelled"} if cancelled else {"failed"}
        expected = sum(state in wanted for state in self._states(run.id))
        assert self.db.retry_failed(run.id, cancelled=cancelled).jobs == expected
        self._hear(person=True)

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def somebody_restarts(self, pick: int) -> None:
        run = self._batch(pick)
        if run.state in OVER and run.sealed:
            self.db.restart(run.id)
            run.resumes = run.forgiven = run.forgiven_of = 0
            run.go("running")
        else:
            with pytest.raises(BatchConflict):
                self.db.restart(run.id)
        self._hear(person=True)

    # — time and the watchdog —

    @precondition(lambda self: self.runs)
    @rule(hours=st.sampled_from((0, 0, 2)), saved=st.booleans(), times=st.integers(1, 3))
    def time_passes_and_the_watchdog_looks(self, hours: int, saved: bool, times: int) -> None:
        for _ in range(times):  # nobody does anything in between: that is how a batch is given up
            self._time_passes(hours, saved=saved)

    def _time_passes(self, hours: int, *, saved: bool) -> None:
        stalled = [run for run in self.runs.values() if run.state == "stalled"]
        self.db.age(STALL + 1 + 3600 * hours)
        if saved:
            for worker, claim in self.claims:
                self.db.save(worker, claim, f"step {self.told}")
        for run in self.runs.values():
            run.silent = True
            run.age += STALL + 1 + 3600 * hours
        did = self.db.look_after()
        for run in stalled:
            if run.id in did.advanced:
                assert saved or run.moved
                run.go("running")
        for why in did.stalled:
            run = self.runs[why.batch_id]
            assert (run.state, run.silent) == ("running", True)
            run.state, run.moved = "stalled", False
        before = {run.id for run in stalled}
        for run in self.runs.values():
            # It fails a round after it was called stalled.
            if run.state == "stalled" and run.resumes >= run.max_resumes and run.id in did.failed:
                assert run.id in before
                run.state = "failed"
            if run.age > 3600 and not run.sealed and run.state == "queued":
                self._cancelled(run)
                assert run.id in did.expired
        self._hear()

    @precondition(lambda self: self.runs)
    @rule()
    def the_watchdog_looks_at_once(self) -> None:
        did = self.db.look_after()
        assert not [why for why in did.stalled if not self.runs[why.batch_id].silent]
        for why in did.stalled:
            self.runs[why.batch_id].state, self.runs[why.batch_id].moved = "stalled", False
        for id in did.advanced:
            self.runs[id].go("running")
        for id in did.failed:
            assert self.runs[id].resumes >= self.runs[id].max_resumes
            self.runs[id].state = "failed"
        self._hear()

    @precondition(lambda self: self.claims)
    @rule()
    def workers_hear_what_to_let_go_of(self) -> None:
        believed = [(claim.id, worker, claim.fence) for worker, claim in self.claims]
        for job, worker, fence, why in self.db.ask(workers.called_off(self.workers, believed)):
            batch, state = self.jobs[job]
            if why == "lost":
                with suppress(StopIteration):
                    stale = next(each for each in self.claims if (each[1].id, each[1].fence) == (job, fence))
                    assert self.db.end(worker, ending(stale[1], "completed")) == []
                    self.claims.remove(stale)
                continue
            assert state == "running"
            if why == "released":
                assert self.runs[batch].state in {"paused", "failed"}
        self._hear()


def story_with(hand: BatchHand) -> type[Story]:
    return type("Story", (Story,), {"hand": hand, "told": 0, "seen": set()})


@pytest.mark.timeout(1200)
def test_any_story_of_batches_is_what_its_reference_says(db: BatchHand) -> None:
    story = story_with(db)

    run_state_machine_as_test(
        story,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            phases=[each for each in Phase if each is not Phase.shrink or os.environ.get("BATCH_MODEL_SHRINK")],
            suppress_health_check=list(HealthCheck),
        ),
    )

    assert story.told > EXAMPLES
    assert story.seen == {"queued", "running", "paused", "stalled", "completed", "failed", "cancelled"}
