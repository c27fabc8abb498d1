"""The store and its reference side by side: everything is asked of both, and they must agree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID, uuid4

from store_hand import EMPTY, QUEUE, Hand
from store_reference import ENDED, Reference, Said, Step, Taken

from retoma.model.job import Claim, Ended, NewCheckpoint
from retoma.store import checkpoints, jobs, queues
from retoma.store.jobs import Blame
from retoma.store.turns import Turns

AT_ONCE = 4
LEASE = 250.0  # with ticks of whole hundreds, no lease ever ends at the very moment of a look

# Everything that is compared, in one answer. Times are seconds from now.
LOOK = """
select json_build_object(
    'jobs', (select coalesce(json_agg(json_build_array(
                 job.id, job.state, job.reason, job.attempt, job.max_attempts, job.crashes, job.alone, job.fence,
                 job.signals, job.worker_id, job.lane_id, job.cancel_requested_at is not null,
                 job.finished_at is not null,
                 extract(epoch from job.run_at - now()), extract(epoch from job.expires_at - now())
             ) order by job.id), '[]') from retoma.jobs as job),
    'workers', (select coalesce(json_agg(json_build_array(
                    worker.id, worker.stopped_at is not null, extract(epoch from worker.lease_expires_at - now())
                ) order by worker.id), '[]') from retoma.workers as worker),
    'seats', (select coalesce(json_agg(json_build_array(slot.lane_id, slot.job_id) order by slot.job_id), '[]')
                from retoma.slots as slot where slot.job_id is not null),
    'attempts', (select coalesce(json_agg(json_build_array(
                     attempt.job_id, attempt.fence, attempt.attempt, attempt.worker_id, attempt.ending
                 ) order by attempt.job_id, attempt.fence), '[]') from retoma.attempts as attempt),
    'steps', (select coalesce(json_agg(json_build_array(
                  checkpoint.job_id, checkpoint.step, checkpoint.generation, checkpoint.fence,
                  checkpoint.value, checkpoint.set_aside_at is not null
              ) order by checkpoint.job_id, checkpoint.step, checkpoint.generation), '[]')
                from retoma.checkpoints as checkpoint))::text
"""
CLOSE = 40.0  # seconds: the test itself takes time; what the clock of the test does is coarser than that


def agree(what: str, answered: object, expected: object) -> None:
    assert answered == expected, f"{what}: PostgreSQL says {answered!r}, the reference {expected!r}"


def near(answered: float | None, expected: float | None) -> bool:
    if answered is None or expected is None:
        return answered is expected
    return abs(answered - expected) < CLOSE


class Twin:
    """One story told twice."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.hand.sql(EMPTY)
        self.reference = Reference(lease=LEASE)
        self.given: set[tuple[int, int]] = set()
        self._fences: dict[int, int] = {}
        self._states: dict[int, str] = {}
        self._asked_anew: set[int] = set()

    # — the clock and those who work —

    def tick(self, seconds: float) -> None:
        self.reference.tick(seconds)
        self.hand.age(seconds)
        self.check()

    def lane(self, name: str, at_once: int | None) -> int:
        [lane] = self.hand.lanes(name, at_once=at_once)
        self.reference.at_once[lane] = at_once
        return lane

    def hello(self) -> int:
        id = self.hand.hello(lease=LEASE, at_once=AT_ONCE)
        self.reference.hello(id, AT_ONCE)
        self.check()
        return id

    def beat(self, *ids: int) -> list[int]:
        answered = self.hand.beat(*ids)
        agree("heartbeat", answered, self.reference.beat(ids))
        self.check()
        return answered

    def pause(self, paused: bool) -> None:
        self.reference.paused = paused
        self.hand.ask(queues.pause(QUEUE, reason="person") if paused else queues.resume(QUEUE))

    # — jobs —

    def enqueue(
        self,
        number: int = 1,
        *,
        lane: tuple[str, int] | None = None,
        priority: int = 0,
        delay: float = 0.0,
        expires: float | None = None,
        max_attempts: int = 3,
    ) -> list[int]:
        ids = self.hand.enqueue(
            number,
            lane=lane[0] if lane else None,
            priority=priority,
            delay=delay,
            expires=expires,
            max_attempts=max_attempts,
        )
        self.reference.enqueue(
            ids,
            lane=lane[1] if lane else 0,
            priority=priority,
            delay=delay,
            expires=expires,
            max_attempts=max_attempts,
        )
        self.check()
        return ids

    def claim(
        self,
        worker: int,
        limit: int = 10,
        *,
        after: int = 0,
        token: UUID | None = None,
        suspects: bool = False,
    ) -> list[Claim]:
        token = token or uuid4()
        claims = self.hand.claim(worker, limit, token=token, turns=Turns({QUEUE: after}), suspects=suspects)
        expected = self.reference.claim(worker, limit, token, after, suspects)
        agree("claim", [taken(each) for each in claims], expected)
        for each in claims:
            assert (each.id, each.fence) not in self.given, f"Two claims of job {each.id} have the fence {each.fence}"
            self.given.add((each.id, each.fence))
        self.check()
        return claims

    def adopt(self, worker: int, token: UUID) -> list[Claim]:
        answered = self.hand.ask(jobs.adopt(worker, token))
        agree("adopt", [taken(each) for each in answered], self.reference.adopt(worker, token))
        return answered

    def end(self, worker: int, *endings: Ended) -> list[tuple[int, str]]:
        endings = tuple(sorted(endings, key=lambda each: each.id))
        answered = sorted(self.hand.ask(jobs.end(worker, endings)))
        agree("end", answered, self.reference.end(worker, [said(each) for each in endings]))
        self.check()
        return answered

    def ended(self, *endings: Ended) -> list[tuple[int, str]]:
        answered = sorted(self.hand.ask(jobs.ended(endings)))
        agree("ended", answered, sorted(self.reference.ended([said(each) for each in endings])))
        return answered

    def bury(self, worker: int, blamed: Sequence[Blame] = ()) -> list[tuple[object, ...]]:
        rows = self.hand.ask(jobs.bury(worker, blamed, reason="why", error="why", signal=9))
        answered: list[tuple[object, ...]] = [
            (each.id, each.state, each.reason, each.attempt, each.crashes, each.ending) for each in rows
        ]
        expected = self.reference.bury(worker, {each.id: each for each in blamed})
        agree("bury", answered, expected)
        self.check()
        return answered

    def recover(self, limit: int = 20) -> list[tuple[object, ...]]:
        answered: list[tuple[object, ...]] = [
            (each.id, each.state, each.reason, each.attempt, each.crashes, each.ending)
            for each in self.hand.recover(limit=limit)
        ]
        agree("recover", answered, self.reference.recover(limit))
        self.check()
        return answered

    def expire(self) -> list[int]:
        answered = sorted(self.hand.ask(jobs.expire()))
        agree("expire", answered, self.reference.expire())
        self.check()
        return answered

    def cancel(self, *ids: int) -> list[tuple[int, str]]:
        answered = sorted(self.hand.ask(jobs.cancel(ids)))
        agree("cancel", answered, self.reference.cancel(ids))
        self.check()
        return answered

    def retry(self, *ids: int, attempts: int | None = None) -> list[tuple[int, str]]:
        answered = sorted(self.hand.ask(jobs.retry(ids, attempts=attempts)))
        agree("retry", answered, self.reference.retry(ids, attempts))
        self._asked_anew = {id for id, _ in answered}
        self.check()
        return answered

    def restart(self, id: int, *, attempts: int = 3) -> list[tuple[int, str]]:
        answered = self.hand.ask(jobs.restart(id, attempts=attempts))
        begins_with = self.hand.job(id).attempt if answered else 0  # counted on or anew: only what is left matters
        agree("restart", answered, self.reference.restart(id, begins_with, attempts))
        self._asked_anew = {id for id, _ in answered}
        self.check()
        return answered

    def signal(self, id: int, name: str) -> list[tuple[int, str]]:
        answered = self.hand.ask(jobs.signal(id, name, "1"))
        agree("signal", answered, self.reference.signal(id, name))
        self.check()
        return answered

    def prune(self, older_than: float) -> list[int]:
        answered = sorted(self.hand.ask(jobs.prune(older_than)))
        agree("prune", answered, self.reference.prune(older_than))
        self.check()
        return answered

    # — steps —

    def save(self, worker: int, *news: NewCheckpoint) -> list[tuple[int, str]]:
        news = tuple(sorted(news, key=lambda each: (each.job_id, each.step)))
        answered = sorted(self.hand.ask(checkpoints.save(worker, news)))
        agree("save", answered, self.reference.save(worker, [step(each) for each in news]))
        self.check()
        return answered

    def saved(self, *news: NewCheckpoint) -> list[tuple[int, str]]:
        answered = sorted(set(self.hand.ask(checkpoints.saved(news))))
        agree("saved", answered, sorted(self.reference.saved([step(each) for each in news])))
        return answered

    def set_aside(self, claim: Claim, name: str) -> list[tuple[str, int]]:
        query = checkpoints.set_aside(claim.id, step=name, reason="why", fence=claim.fence)
        answered = sorted(self.hand.ask(query))
        agree("set_aside", answered, self.reference.set_aside(claim.id, claim.fence, name))
        self.check()
        return answered

    # — what must be true at any time —

    def check(self) -> None:
        seen = json.loads(self.hand.value(LOOK))
        self._same(seen)
        self._sound(seen)

    def _same(self, seen: dict[str, list[list[Any]]]) -> None:
        reference = self.reference
        found = [each[:-2] for each in seen["jobs"]]
        expected = [
            [job.id, job.state, job.reason, job.attempt, job.max_attempts, job.crashes, job.alone, job.fence,
             job.signals, job.worker, job.lane, job.stop_asked, job.finished_at is not None]
            for _, job in sorted(reference.jobs.items())
        ]  # fmt: skip
        agree("jobs", found, expected)
        for id, *_, run_at, expires_at in seen["jobs"]:
            job = reference.jobs[id]
            assert near(run_at, job.run_at[0] - reference.seconds), f"job {id} waits for another hour: {run_at}"
            until = None if job.expires_at is None else job.expires_at[0] - reference.seconds
            assert near(expires_at, until), f"job {id} may wait for another time: {expires_at}"
        for id, stopped, lease in seen["workers"]:
            worker = reference.workers[id]
            assert stopped == worker.stopped, f"worker {id} stopped: {stopped}"
            assert near(lease, worker.lease_until[0] - reference.seconds), f"worker {id} has another lease: {lease}"
        agree(
            "attempts",
            [tuple(each) for each in seen["attempts"]],
            [(*key, *value) for key, value in sorted(reference.attempts.items())],
        )
        agree(
            "steps",
            [
                (id, name, generation, fence, str(value), aside)
                for id, name, generation, fence, value, aside in seen["steps"]
            ],
            sorted(
                (each.id, each.name, each.generation, each.fence, each.value, each.aside) for each in reference.steps
            ),
        )

    def _sound(self, seen: dict[str, list[list[Any]]]) -> None:
        workers = {id: (stopped, lease) for id, stopped, lease in seen["workers"]}
        running: dict[int, int] = {}
        history: dict[int, list[int]] = {}
        for job_id, fence, *_ in seen["attempts"]:
            history.setdefault(job_id, []).append(fence)
        for id, state, _, attempt, most, _, _, fence, _, worker, lane, *_ in seen["jobs"]:
            assert fence >= self._fences.get(id, 0), f"the fence of job {id} fell to {fence}"
            before = self._states.get(id, "queued")
            assert before not in ENDED or state == before or id in self._asked_anew, f"job {id} left {before}"
            assert 0 <= attempt <= most - (state == "queued"), f"job {id} is {state} with attempt {attempt} of {most}"
            ended = fence - (state == "running")
            assert history.get(id, []) == list(range(1, ended + 1)), f"job {id}: not one ending for each claim"
            if state == "running":
                stopped, lease = workers[worker]
                assert not stopped or lease <= CLOSE, f"job {id} is held by {worker}, whom no sweep would find"
                running[id] = lane
            self._fences[id], self._states[id] = fence, state
        self._asked_anew = set()
        limited = {id: lane for id, lane in running.items() if self.reference.at_once[lane] is not None}
        agree("seats", {id: lane for lane, id in seen["seats"]}, limited)
        assert len(seen["seats"]) == len(limited), "one job sits in two places"


def taken(claim: Claim) -> Taken:
    return Taken(claim.id, claim.attempt, claim.fence, claim.crashes, claim.signals, claim.lane_id)


def said(ended: Ended) -> Said:
    return Said(ended.id, ended.claim.fence, ended.ending, ended.again, ended.delay, ended.signals)


def step(new: NewCheckpoint) -> Step:
    return Step(new.job_id, new.fence, new.step, new.value)


def ending(claim: Claim, word: str, *, again: bool = False, delay: float | None = None) -> Ended:
    """An ending whose reason is its own word, so that the reference need not keep two."""
    return Ended(claim, word, again=again, delay=delay, reason=word, signals=claim.signals)


def distinct(claims: Iterable[Claim]) -> list[Claim]:
    """The first claim of each job."""
    return list({each.id: each for each in reversed(list(claims))}.values())[::-1]
