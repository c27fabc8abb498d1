"""The story of the demo: a batch over sample documents, and everything that goes wrong with it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from retoma import Job, Retoma, RetomaError
from retoma.demo import oracle, samples
from retoma.demo.oracle import Happened, Report
from retoma.demo.program import PATIENCE
from retoma.demo.samples import Fate, Sample
from retoma.demo.stage import AT_ONCE, LEASE, Stage, Worker
from retoma.model.batch import Progress
from retoma.model.ids import BatchId
from retoma.model.job import AttemptEnding
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Result
from retoma.postgres.migrate import HEAD

STALL_SECONDS = 3.0
USUAL_STALL_SECONDS = 300.0
_KILL_AT, _OUTAGE_AT = 0.15, 0.5
_SHORTEST = 20.0  # seconds that the documents take at least, however quick the machine is: there must be a half-way
_SLOWEST_ANSWER = 2.0
_LOOK = 0.15
_LONGEST = 300.0
_RETRIES = 1
_READING_SECONDS = 10.0


class Screen(Protocol):
    """Where the story is told."""

    def say(self, key: str, /, **values: Any) -> None:
        """Say the sentence *key*."""

    def see(self, progress: Progress) -> None:
        """Show how far the batch has come."""

    def live(self) -> AbstractContextManager[object]:
        """While this lasts, progress may be shown."""

    async def pause(self, seconds: float) -> None:
        """Leave a person the time to read."""


@dataclass(slots=True)
class Scene:
    """What is on the stage."""

    stage: Stage
    screen: Screen
    app: Retoma
    library: Classification
    samples: list[Sample]
    exits: ExitStack
    refused: list[str] = field(default_factory=list)
    workers: dict[str, Worker] = field(default_factory=dict)
    happened: Happened = field(default_factory=Happened)
    batch_id: BatchId = field(default_factory=lambda: BatchId(0))
    deadline: float = field(default_factory=lambda: time.monotonic() + _LONGEST)
    killed_at: datetime | None = None
    held: list[Job] = field(default_factory=list)
    """What the killed worker had in hand."""

    def start(self, label: str) -> Worker:
        """One more worker."""
        worker = self.exits.enter_context(Worker(self.stage, label))
        self.workers[label] = worker
        return worker

    async def until(self, ready: Callable[[Progress], Awaitable[bool]]) -> Progress:
        """Watch the batch until it is *ready*; a worker that ends meanwhile, or a batch that does, ends the demo."""
        while True:
            now = await self.app.batches.progress(self.batch_id)
            self.screen.see(now)
            await self._look_after_the_held()
            if await ready(now):
                return now
            ended = next((worker for worker in self.workers.values() if worker.ended()), None)
            if ended is not None or now.state.ended or time.monotonic() > self.deadline:
                what = "took too long" if ended is None else f"lost its worker {ended.label}: {ended.last_words()}"
                raise RetomaError(
                    f"The demo {what} (batch {now.state}, {now.done} of {now.total} documents).",
                    next="'retoma doctor' looks at this machine.",
                )
            await asyncio.sleep(_LOOK)

    async def _look_after_the_held(self) -> None:
        """Say when another worker may take what the killed one had in hand."""
        if self.killed_at is None or self.happened.given_back_seconds is not None:
            return
        jobs = [await self.app.jobs.get(job.id) for job in self.held]
        if any(now.state == "running" and now.fence == then.fence for now, then in zip(jobs, self.held, strict=True)):
            return
        attempts = [
            each for job in self.held for each in await self.app.jobs.attempts(job.id) if each.fence == job.fence
        ]
        ends = [each.ended_at for each in attempts if each.ending == AttemptEnding.LOST]
        told = self.happened
        # What the server was just writing down when the worker died is done, and need not be given back.
        told.held, told.given_back = told.held - (len(attempts) - len(ends)), len(ends)
        told.given_back_seconds = (max(ends, default=self.killed_at) - self.killed_at).total_seconds()
        self.screen.say("given_back", n=told.given_back, seconds=told.given_back_seconds, lease=LEASE)

    async def results(self) -> list[Result]:
        """Every result of the batch, in the order of the documents."""
        found: list[Result] = []
        while page := await self.library.results(self.batch_id, after=found[-1].id if found else 0):
            found += page
        return found


async def play(stage: Stage, screen: Screen, *, documents: int, seed: int) -> Report:
    """Play it, from an empty folder to the report."""
    began = time.monotonic()
    made = samples.write(stage.documents, documents, seed=seed)
    unlucky = [sample.name for sample in made if sample.fate is Fate.UNLUCKY]
    stage.switches.unlucky.write_text("\n".join(unlucky), encoding="utf-8")
    latency = min(_SLOWEST_ANSWER, round(2 * AT_ONCE * _SHORTEST / documents, 2))
    stage.switches.latency.write_text(str(latency))
    async with stage.app() as app:
        with ExitStack() as exits:
            scene = Scene(stage, screen, app, Classification(app), made, exits)
            screen.say(
                "server",
                version=(await app.system.health()).version,
                seconds=time.monotonic() - began,
                migrations=int(HEAD),
            )
            await _begin(scene, latency)
            with screen.live():
                await _kill(scene)
                await _stall(scene)
                await scene.until(_ended)
            await _retry(scene)
            for worker in scene.workers.values():
                worker.drain()
            for worker in scene.workers.values():
                worker.wait(30)
        return await _report(scene, began)


async def _begin(scene: Scene, latency: float) -> None:
    """Documents, project, workers, batch."""
    library, screen = scene.library, scene.screen
    forms = Counter(sample.name.rpartition(".")[2] for sample in scene.samples)
    languages = Counter(sample.language for sample in scene.samples)
    screen.say("documents", n=len(scene.samples), **forms, **languages)
    screen.say("bad", n=sum(sample.fate in {Fate.TRUNCATED, Fate.GARBLED} for sample in scene.samples))
    for label in ("w-1", "w-2"):
        scene.start(label)
    project = await library.create_project(name="Demo", at_once=2 * AT_ONCE, max_retries=_RETRIES)
    intake = await library.add_folder(project.id, scene.stage.documents)
    scene.refused = [refused.filename for refused in intake.refused]
    batch = await library.start(project.id)
    scene.batch_id = batch.id
    screen.say("workers", labels=", ".join(f"{each.label} ({each.pid})" for each in scene.workers.values()))
    screen.say("batch", id=batch.id, n=len(intake.added), latency=latency)
    if scene.refused:
        screen.say("refused", n=len(scene.refused))


async def _kill(scene: Scene) -> None:
    """A worker is killed half-way, with documents in hand; what it held is taken over."""
    app, happened = scene.app, scene.happened
    victim = scene.workers["w-2"]

    async def at_work(now: Progress) -> bool:
        return now.done >= _KILL_AT * now.total and bool(await _held_by(scene, victim))

    await scene.until(at_work)
    plan = await app.batches.plan(scene.batch_id)
    killed_at = await app.database.now()
    del scene.workers[victim.label]
    victim.kill()
    scene.held = await _held_by(scene, victim)
    scene.killed_at = killed_at
    happened.killed, happened.held = 1, len(scene.held)
    happened.saved_seconds += plan.seconds_saved
    scene.screen.say("killed", label=victim.label, pid=victim.pid, n=len(scene.held))
    other = scene.start("w-3")
    scene.screen.say("replaced", label=other.label, pid=other.pid, done=plan.skips)


async def _held_by(scene: Scene, worker: Worker) -> list[Job]:
    running = await scene.app.jobs.find(state="running", batch_id=scene.batch_id)
    return [job for job in running if job.worker == worker.label]


async def _stall(scene: Scene) -> None:
    """The provider falls silent, the watchdog says so, and the batch is resumed."""
    app, happened, screen = scene.app, scene.happened, scene.screen

    async def half_way(now: Progress) -> bool:
        held = [await app.jobs.get(job.id) for job in scene.held]
        return now.done >= _OUTAGE_AT * now.total and all(job.state.ended for job in held)

    await scene.until(half_way)
    # A few seconds, instead of the five minutes of production; only now, for a cold start is no stall.
    await app.batches.change(scene.batch_id, stall_seconds=STALL_SECONDS)
    scene.stage.switches.outage.touch()
    screen.say("outage", patience=PATIENCE)
    resumed = None
    while resumed is None or not resumed.changed:
        now = await scene.until(_stalled)
        batch = await app.batches.get(scene.batch_id)
        if batch.cause is None:
            continue  # a last request was on its way, and the batch moved again by itself
        happened.stalled, happened.cause = happened.stalled + 1, batch.reason
        silent = now.silent_seconds or 0.0
        screen.say("stalled", done=now.done, total=now.total, key=now.last_key, seconds=silent, limit=STALL_SECONDS)
        screen.say("cause", verdict=batch.reason, evidence=batch.cause)
        screen.say("resume_with", id=scene.batch_id)
        plan = await app.batches.plan(scene.batch_id)
        resumed = await scene.library.resume(scene.batch_id, by="demo")
    scene.stage.switches.outage.unlink()
    await app.batches.change(scene.batch_id, stall_seconds=USUAL_STALL_SECONDS)
    happened.resumed = int(resumed.changed)
    happened.skipped_on_resume = plan.skips
    happened.saved_seconds += plan.seconds_saved
    screen.say(
        "resumed",
        n=resumed.batch.resumes,
        most=resumed.batch.max_resumes,
        skips=plan.skips,
        continues=plan.continues,
        begins=plan.begins,
    )


async def _ended(now: Progress) -> bool:
    return now.state.ended


async def _stalled(now: Progress) -> bool:
    return now.state == "stalled"


async def _retry(scene: Scene) -> None:
    """Only what failed is tried again; what the file itself is to blame for fails again, and says why."""
    app, happened, screen = scene.app, scene.happened, scene.screen
    before = Counter(map(oracle.reason_of, await _failed(scene)))
    now = await app.batches.progress(scene.batch_id)
    screen.say("completed", done=now.done, total=now.total, seconds=now.elapsed or 0.0, n=before.total())
    screen.say("reasons", reasons=before)
    await screen.pause(_READING_SECONDS)
    scene.stage.switches.unlucky.unlink()
    happened.retried = (await scene.library.retry_failed(scene.batch_id)).jobs
    screen.say("retrying", n=happened.retried, id=scene.batch_id)
    with screen.live():
        await scene.until(_ended)
    left = len(await _failed(scene))
    happened.recovered = before.total() - left
    screen.say("retried", n=happened.recovered, left=left)


async def _failed(scene: Scene) -> list[Result]:
    return [result for result in await scene.results() if result.state == oracle.FAILED]


async def _report(scene: Scene, began: float) -> Report:
    for job in scene.held:
        saved = await scene.app.jobs.checkpoints(job.id)
        scene.happened.steps_reused += sum(each.fence == job.fence and each.set_aside_at is None for each in saved)
    results = await scene.results()
    right, letters = await asyncio.to_thread(oracle.accuracy, scene.samples, results)
    return oracle.weigh(
        scene.samples,
        scene.refused,
        results,
        scene.stage.diary.read(),
        scene.happened,
        spent=(await scene.app.batches.progress(scene.batch_id)).spent,
        accuracy=right,
        baseline=letters,
        breaches=len(await scene.app.system.verify()),
        seconds=time.monotonic() - began,
    )
