"""What the store should answer: the same life of a job in plain Python, over a dict and a clock that is a number.

A time is a pair of seconds and a moment. Every operation has a moment of its own, so that what happened earlier
in the same second is earlier; what is due is judged by the seconds alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from retoma.store.jobs import ALONE_FROM, BESIDE, MOST_BESIDE, MOST_CRASHES, Blame

Time = tuple[float, int]

FINAL = frozenset({"completed", "skipped", "review", "cancelled"})
FREE = frozenset({"postponed", "waiting", "released"})
ENDED = frozenset({"completed", "skipped", "failed", "review", "cancelled"})


@dataclass
class Job:
    id: int
    lane: int
    run_at: Time
    expires_at: Time | None
    max_attempts: int
    priority: int = 0
    state: str = "queued"
    reason: str | None = None
    attempt: int = 0
    crashes: int = 0
    alone: bool = False
    beside: int = 0
    fence: int = 0
    signals: int = 0
    worker: int | None = None
    token: object = None
    taken: int = 0
    """How many had been taken when it was."""
    stop_asked: bool = False
    finished_at: Time | None = None
    heard: dict[str, str] = field(default_factory=dict)

    def let_go(self, state: str, at: Time) -> None:
        self.state = state
        self.worker = self.token = None
        self.finished_at = at if state in ENDED else None


@dataclass
class Worker:
    lease_until: Time
    at_once: int
    stopped: bool = False


@dataclass(frozen=True)
class Taken:
    """What a claim gave to a worker."""

    id: int
    attempt: int
    fence: int
    crashes: int
    signals: int
    lane: int


@dataclass(frozen=True)
class Said:
    """How a worker says that its attempt ended."""

    id: int
    fence: int
    ending: str
    again: bool = False
    delay: float | None = None
    signals: int = 0


@dataclass(frozen=True)
class Step:
    id: int
    fence: int
    name: str
    value: str
    generation: int = 0
    aside: bool = False


def must_run_alone(job: Job) -> bool:
    return job.alone or job.crashes >= ALONE_FROM


def in_line(job: Job) -> tuple[int, Time, int]:
    return job.priority, job.run_at, job.id


class Reference:
    """Every answer of the store, as it should be."""

    def __init__(self, *, lease: float) -> None:
        self.lease = lease
        self.seconds = 0.0
        self.moment = 0
        self.taken = 0
        self.jobs: dict[int, Job] = {}
        self.workers: dict[int, Worker] = {}
        self.at_once: dict[int, int | None] = {0: None}
        self.attempts: dict[tuple[int, int], tuple[int, int, str]] = {}
        self.steps: list[Step] = []
        self.paused = False

    # — the clock —

    def later(self, delay: float) -> Time:
        return self.seconds + delay, self.moment

    @property
    def now(self) -> Time:
        return self.seconds, self.moment

    def tick(self, seconds: float) -> None:
        self.seconds += seconds

    def _due(self, job: Job) -> bool:
        expired = job.expires_at is not None and job.expires_at <= self.now
        return job.run_at <= self.now and not expired

    # — workers —

    def hello(self, id: int, at_once: int) -> None:
        self.moment += 1
        self.workers[id] = Worker(self.later(self.lease), at_once)

    def beat(self, ids: Iterable[int]) -> list[int]:
        self.moment += 1
        alive = [id for id in ids if id in self.workers and not self.workers[id].stopped]
        for id in alive:
            self.workers[id].lease_until = self.later(self.lease)
        return sorted(alive)

    def held_by(self, worker: int) -> list[Job]:
        return [job for job in self._in_order() if job.worker == worker]

    def _in_order(self) -> list[Job]:
        return sorted(self.jobs.values(), key=lambda job: job.id)

    # — a job's life —

    def enqueue(
        self, ids: Sequence[int], *, lane: int, priority: int, delay: float, expires: float | None, max_attempts: int
    ) -> None:
        self.moment += 1
        for id in ids:
            expires_at = None if expires is None else self.later(delay + expires)
            self.jobs[id] = Job(id, lane, self.later(delay), expires_at, max_attempts, priority)

    def claim(self, worker: int, limit: int, token: object, after: int, suspects: bool) -> list[Taken]:
        self.moment += 1
        if self.paused or worker not in self.workers or self.workers[worker].stopped:
            return []
        waiting = [job for job in self.jobs.values() if job.state == "queued"]
        # Those that have something to give, and a place for it.
        lanes = {job.lane for job in waiting if job.run_at <= self.now and self._room(job.lane) > 0}
        lanes = {lane for lane in lanes if not suspects or self._alone_next(lane)}
        share = limit if len(lanes) <= 2 else ceil(2 * limit / len(lanes))
        ready = []
        for lane in lanes:
            line = self._line(lane)
            fit = [job for job in line if must_run_alone(job) == suspects]
            for turn, job in enumerate(fit[: min(share, self._room(lane))]):
                ready.append((job.priority, turn, lane <= after, lane, job.id))
        picked = [id for *_, id in sorted(ready)][:limit]
        return [self._take(self.jobs[id], worker, token) for id in picked]

    def _line(self, lane: int) -> list[Job]:
        waiting = (job for job in self.jobs.values() if job.state == "queued" and job.lane == lane)
        return sorted((job for job in waiting if self._due(job)), key=in_line)

    def _alone_next(self, lane: int) -> bool:
        """Those that must run alone are looked for only where one of them is next."""
        return [must_run_alone(job) for job in self._line(lane)[:1]] == [True]

    def _room(self, lane: int) -> int:
        at_once = self.at_once[lane]
        running = sum(job.lane == lane and job.state == "running" for job in self.jobs.values())
        return 10**6 if at_once is None else at_once - running

    def _take(self, job: Job, worker: int, token: object) -> Taken:
        job.state, job.reason, job.worker, job.token = "running", None, worker, token
        job.attempt += 1
        job.fence += 1
        self.taken += 1
        job.taken = self.taken
        return self._taken(job)

    @staticmethod
    def _taken(job: Job) -> Taken:
        return Taken(job.id, job.attempt, job.fence, job.crashes, job.signals, job.lane)

    def adopt(self, worker: int, token: object) -> list[Taken]:
        return [self._taken(job) for job in self.held_by(worker) if job.token == token]

    def holds(self, worker: int, id: int, fence: int) -> bool:
        job = self.jobs.get(id)
        return job is not None and job.worker == worker and job.fence == fence

    def end(self, worker: int, endings: Sequence[Said]) -> list[tuple[int, str]]:
        self.moment += 1
        return [self._end(self.jobs[each.id], each) for each in endings if self.holds(worker, each.id, each.fence)]

    def _end(self, job: Job, said: Said) -> tuple[int, str]:
        free = said.ending in FREE
        final = said.ending in FINAL or (said.ending == "failed" and not said.again)
        over = final or (not free and job.attempt >= job.max_attempts)
        back = "cancelled" if job.stop_asked else "queued"
        state = said.ending if final else "failed" if over else back
        self._write(job, said.ending)
        if not over and said.ending == "waiting" and job.signals > said.signals:
            job.run_at = self.now
        elif not over and said.delay is not None:
            job.run_at = self.later(said.delay)
        job.reason = said.ending
        job.attempt -= free
        if said.ending != "released":
            job.expires_at = None
        job.let_go(state, self.now)
        return job.id, state

    def _write(self, job: Job, ending: str) -> None:
        assert job.worker is not None
        self.attempts[job.id, job.fence] = (job.attempt, job.worker, ending)

    def ended(self, endings: Sequence[Said]) -> list[tuple[int, str]]:
        return [
            (each.id, self.jobs[each.id].state)
            for each in endings
            if self.attempts.get((each.id, each.fence), (0, 0, ""))[2] == each.ending
        ]

    # — those who are gone —

    def bury(self, worker: int, blamed: dict[int, Blame]) -> list[tuple[object, ...]]:
        self.moment += 1
        buried = self.workers[worker]
        buried.stopped = True
        buried.lease_until = min(buried.lease_until, self.now)
        return [self._bury(job, blamed.get(job.id, Blame(job.id, "released"))) for job in self.held_by(worker)]

    def _bury(self, job: Job, blame: Blame) -> tuple[object, ...]:
        ending, delay, again = str(blame.ending), blame.delay, blame.again
        self._write(job, ending)
        job.beside += blame.reason == BESIDE
        job.alone = job.alone or blame.alone or (blame.reason == BESIDE and job.beside >= MOST_BESIDE)
        if ending == "crashed":
            job.crashes = self._earlier_crashes(job) + 1
        over = ending == "crashed" and job.crashes >= MOST_CRASHES
        if ending == "cancelled" or job.stop_asked:
            state = "cancelled"
        elif ending != "released" and (over or not again or job.attempt >= job.max_attempts):
            state = "failed"
        else:
            state = "queued"
        job.reason = "quarantine" if state == "failed" and over else None if ending == "released" else ending
        job.attempt -= ending == "released"
        if ending != "released" or blame.seconds is not None:
            job.expires_at = None
        if state == "queued" and delay > 0:
            job.run_at = self.later(delay)
        job.let_go(state, self.now)
        return job.id, job.state, job.reason, job.attempt, job.crashes, ending

    def _earlier_crashes(self, job: Job) -> int:
        """None that count, when the attempt that died came further than those before it."""
        further = any((each.id, each.fence) == (job.id, job.fence) for each in self.steps)
        return 0 if further else job.crashes

    def recover(self, limit: int) -> list[tuple[object, ...]]:
        self.moment += 1
        silent = [
            id
            for id, worker in sorted(self.workers.items())
            if (not worker.stopped or self.held_by(id)) and worker.lease_until < self.now
        ][:limit]
        begun = {}
        for id in silent:
            self.workers[id].stopped = True
            for place, job in enumerate(sorted(self.held_by(id), key=lambda job: job.taken)):
                begun[job.id] = place < self.workers[id].at_once
        return [self._recover(self.jobs[id]) if begun[id] else self._untouched(self.jobs[id]) for id in sorted(begun)]

    def _untouched(self, job: Job) -> tuple[object, ...]:
        self._write(job, "released")
        job.reason = None
        job.attempt -= 1
        job.let_go("cancelled" if job.stop_asked else "queued", self.now)
        return job.id, job.state, job.reason, job.attempt, job.crashes, "released"

    def _recover(self, job: Job) -> tuple[object, ...]:
        self._write(job, "lost")
        job.crashes = self._earlier_crashes(job) + 1
        over = job.crashes >= MOST_CRASHES
        ends = over or job.attempt >= job.max_attempts
        state = "cancelled" if job.stop_asked else "failed" if ends else "queued"
        job.reason = "quarantine" if state == "failed" and over else "lost"
        job.expires_at = None
        job.let_go(state, self.now)
        return job.id, job.state, job.reason, job.attempt, job.crashes, "lost"

    def expire(self) -> list[int]:
        self.moment += 1
        late = [
            job
            for job in self._in_order()
            if job.state == "queued" and job.expires_at is not None and job.expires_at <= self.now
        ]
        for job in late:
            job.reason = "expired"
            job.let_go("failed", self.now)
        return [job.id for job in late]

    # — what people ask —

    def cancel(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        self.moment += 1
        told = []
        for id in sorted(set(ids) & set(self.jobs)):
            job = self.jobs[id]
            if job.state == "queued":
                job.reason = "person"
                job.let_go("cancelled", self.now)
            elif job.state != "running":
                continue
            job.stop_asked = True
            told.append((id, job.state))
        return told

    def retry(self, ids: Iterable[int], attempts: int | None) -> list[tuple[int, str]]:
        self.moment += 1
        wanted = [
            self.jobs[id]
            for id in sorted(set(ids) & set(self.jobs))
            if self.jobs[id].state in ("failed", "cancelled", "review")
        ]
        for job in wanted:
            self._again(job, None, attempts or max(job.max_attempts - job.attempt, 1))
        return [(job.id, "queued") for job in wanted]

    def restart(self, id: int, begins_with: int, attempts: int) -> list[tuple[int, str]]:
        self.moment += 1
        job = self.jobs.get(id)
        if job is None or job.state not in ENDED:
            return []
        job.attempt = begins_with
        self._again(job, "restart", attempts)
        job.heard.clear()
        self.steps = [replace(each, aside=True) if each.id == id else each for each in self.steps]
        return [(id, "queued")]

    def _again(self, job: Job, reason: str | None, attempts: int) -> None:
        job.state, job.reason, job.run_at, job.expires_at = "queued", reason, self.now, None
        job.max_attempts = job.attempt + attempts
        job.crashes, job.alone, job.stop_asked, job.finished_at = 0, False, False, None

    def signal(self, id: int, name: str) -> list[tuple[int, str]]:
        self.moment += 1
        job = self.jobs.get(id)
        if job is None or job.state in ENDED or name in job.heard:
            return []
        job.heard[name] = "1"
        job.signals += 1
        if job.state == "queued" and job.reason == "waiting":
            job.run_at = self.now
        return [(id, job.state)]

    def prune(self, older_than: float) -> list[int]:
        self.moment += 1
        gone = [
            job.id
            for job in self._in_order()
            if job.finished_at is not None and job.finished_at < (self.seconds - older_than, self.moment)
        ]
        for id in gone:
            del self.jobs[id]
        self.attempts = {key: value for key, value in self.attempts.items() if key[0] not in gone}
        self.steps = [each for each in self.steps if each.id not in gone]
        return gone

    # — steps —

    def save(self, worker: int, steps: Sequence[Step]) -> list[tuple[int, str]]:
        self.moment += 1
        known = self.saved(steps)
        held = [each for each in steps if self.holds(worker, each.id, each.fence) and (each.id, each.name) not in known]
        for each in held:
            earlier = [step.generation for step in self.steps if (step.id, step.name) == (each.id, each.name)]
            self.steps.append(replace(each, generation=max(earlier, default=0) + 1))
        return [(each.id, each.name) for each in held]

    def saved(self, steps: Sequence[Step]) -> list[tuple[int, str]]:
        return [
            (each.id, each.name)
            for each in steps
            if any(
                (step.id, step.fence, step.name, step.value) == (each.id, each.fence, each.name, each.value)
                and not step.aside
                for step in self.steps
            )
        ]

    def set_aside(self, id: int, fence: int, name: str) -> list[tuple[str, int]]:
        self.moment += 1
        job = self.jobs.get(id)
        if job is None or job.state != "running" or job.fence != fence:
            return []
        found = [each for each in self.steps if (each.id, each.name, each.aside) == (id, name, False)]
        self.steps = [replace(each, aside=True) if each in found else each for each in self.steps]
        return sorted((each.name, each.generation) for each in found)
