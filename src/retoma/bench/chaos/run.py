"""``retoma chaos``: jobs under kills, freezes and cuts, and what logs that only grow say of them."""

from __future__ import annotations

import asyncio
import functools
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from retoma import Retoma
from retoma.bench.chaos.faults import Faults
from retoma.bench.chaos.program import BEGAN, DONE, VARIABLE, Line, read, suffer
from retoma.demo.stage import Stage, Worker
from retoma.model.ids import JobId
from retoma.postgres.embedded import server as embedded_server
from retoma.run.pipeline import Pipeline
from retoma.store.query import load

PROGRAM = "retoma.bench.chaos.program:app"
AT_ONCE = 5
_SQL = load("retoma.bench.chaos", "log.sql")
_LOOK = 0.1
_STANDSTILL = 300.0
"""Seconds without a job that ends, after which those that are left count as lost."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is run: our own jobs, or those of a user's *program*, of whose effects nothing is known."""

    program: str = PROGRAM
    pipeline: Pipeline[Any, Any] = suffer
    input: Any = None
    providers: Mapping[type, object] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether the jobs are ours, which write down what they do."""
        return self.pipeline is suffer

    def inputs(self, jobs: int) -> list[Any]:
        """What each job gets."""
        return list(range(jobs)) if self.own else [self.input] * jobs

    def app(self, stage: Stage) -> Retoma:
        """An app on the stage's database that runs nothing itself."""
        return Retoma(settings=stage.settings, pipelines=[self.pipeline], providers=dict(self.providers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run came to. The figures above *breaches* must be 0."""

    seed: int
    jobs: int
    faults: dict[str, int]
    completed: int
    failed: dict[str, int]
    """Jobs that failed and stayed so, by reason."""
    lost: int
    """Jobs that did not come to an end."""
    without_effect: int | None
    doubled_effects: int | None
    doubled_checkpoints: int
    stale_writes: int
    after_the_end: int
    redone: int | None
    """Steps that began again after their handler had been told that they are saved."""
    breaches: list[str]
    """What ``retoma verify`` found."""
    begun_again: int | None
    """Steps that were cut off before they were saved, and began again."""
    attempts_lost: int
    given_up: int
    """Jobs that were killed so often from outside that they counted as poison, and were tried again at the end."""
    given_back_seconds: dict[str, float] | None
    """From the death of a process to the moment when the last of its jobs was there for others."""
    seconds: float

    @property
    def kept(self) -> bool:
        """Whether every promise was kept. That an attempt was lost or a step began again breaks none."""
        nothing = (
            self.lost,
            self.without_effect,
            self.doubled_effects,
            self.doubled_checkpoints,
            self.stale_writes,
            self.after_the_end,
            self.redone,
        )
        return not any(nothing) and not self.failed and not self.breaches

    def as_json(self) -> dict[str, Any]:
        """The report for a program."""
        return {**asdict(self), "kept": self.kept}


async def run(
    stage: Stage, work: Work, *, jobs: int, faults: int, seed: int, tell: Callable[[str, str], None]
) -> Report:
    """Run *jobs* on three workers, do *faults* to them, wait until all is quiet, and count."""
    began, diary = time.monotonic(), stage.folder / "chaos.log"
    with ExitStack() as exits:
        # Held to the end: on a busy machine there is a while in which the app has gone and no worker has come yet, and
        # a server that nobody uses is stopped.
        exits.callback(embedded_server.ensure(stage.home).release)
        async with work.app(stage) as app:
            log = exits.enter_context(psycopg.connect(app.database.url, autocommit=True))
            log.execute(_SQL["tables"])
            ids = [receipt.id for receipt in await app.enqueue_many(work.pipeline, work.inputs(jobs))]
        scene = Faults(
            start=functools.partial(_worker, stage, work.program, diary),
            cut=functools.partial(log.execute, _SQL["cut"]),
            tell=tell,
            chance=Random(seed),  # noqa: S311 - it chooses faults
            exits=exits,
        )
        await _suffering(scene, log, ids, faults)
        # Asked before anybody is revived: a job that is retried goes on after its end.
        after_the_end = _count(log, "after_the_end")
        async with work.app(stage) as app:
            revived = [JobId(id) for (id,) in log.execute(_SQL["given_up"], {"ids": ids}).fetchall()]
            for id in revived:
                await app.jobs.retry(id)
            await _quiet(scene, log, ids)
            breaches = [f"{each.what}: {each.invariant}; {each.found}" for each in await app.system.verify()]
        return _weighed(
            log,
            ids,
            scene,
            own=read(diary) if work.own else None,
            seed=seed,
            jobs=jobs,
            after_the_end=after_the_end,
            breaches=breaches,
            given_up=len(revived),
            seconds=round(time.monotonic() - began, 1),
        )


def _worker(stage: Stage, program: str, diary: Path, label: str) -> Worker:
    return Worker(stage, label, program=program, at_once=AT_ONCE, environment={VARIABLE: str(diary)})


async def _suffering(scene: Faults, log: psycopg.Connection, ids: Sequence[int], faults: int) -> None:
    """Strike by what was done and not by the clock, so that a slow machine is struck no more often than a quick one;
    then let all come to an end.
    """
    left = faults

    async def struck() -> None:
        nonlocal left
        ended = len(ids) - _unended(log, ids)
        if left and ended >= len(ids) * (faults - left) / (faults + 1) and scene.strike():
            left -= 1

    scene.keep_alive()
    await _quiet(scene, log, ids, meanwhile=struck)


async def _quiet(
    scene: Faults,
    log: psycopg.Connection,
    ids: Sequence[int],
    *,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Until all jobs have ended, or none has for very long."""
    before, since = -1, time.monotonic()
    while unended := _unended(log, ids):
        if unended != before:
            before, since = unended, time.monotonic()
        if time.monotonic() - since > _STANDSTILL:
            return
        if meanwhile is not None:
            await meanwhile()
        scene.keep_alive()
        await asyncio.sleep(_LOOK)
    scene.heal()


def _unended(log: psycopg.Connection, ids: Sequence[int]) -> int:
    states = _states(log, ids)
    return sum(jobs for (state, _), jobs in states.items() if state in ("queued", "running"))


def _states(log: psycopg.Connection, ids: Sequence[int]) -> Counter[tuple[str, str]]:
    rows = log.execute(_SQL["states"], {"ids": list(ids)}).fetchall()
    return Counter({(state, reason): jobs for state, reason, jobs in rows})


def _count(log: psycopg.Connection, name: str, ids: Sequence[int] = ()) -> int:
    row = log.execute(_SQL[name], {"ids": list(ids)}).fetchone()
    assert row is not None
    return int(row[0])


def _weighed(
    log: psycopg.Connection, ids: Sequence[int], scene: Faults, *, own: list[Line] | None, **known: Any
) -> Report:
    states = _states(log, ids)
    return Report(
        faults=dict(scene.done),
        completed=states["completed", ""],
        failed={reason or "failed": jobs for (state, reason), jobs in states.items() if state == "failed"},
        lost=sum(jobs for (state, _), jobs in states.items() if state in ("queued", "running")),
        without_effect=None if own is None else _count(log, "without_effect", ids),
        doubled_effects=None if own is None else _count(log, "doubled_effects"),
        doubled_checkpoints=_count(log, "doubled_saves", ids),
        stale_writes=_count(log, "stale_writes"),
        redone=None if own is None else redone(own),
        begun_again=None if own is None else begun_again(own),
        attempts_lost=_count(log, "lost_attempts", ids),
        given_back_seconds=_given_back(log, scene),
        **known,
    )


def redone(lines: Sequence[Line]) -> int:
    """How often a step began whose handler had been told that it is saved."""
    done: set[tuple[int, str]] = set()
    again = 0
    for line in lines:
        if line.what == DONE:
            done.add((line.job, line.step))
        else:
            again += (line.job, line.step) in done
    return again


def begun_again(lines: Sequence[Line]) -> int:
    """How often a step began that had begun before."""
    times = Counter((line.job, line.step) for line in lines if line.what == BEGAN)
    return sum(times.values()) - len(times)


def _given_back(log: psycopg.Connection, scene: Faults) -> dict[str, float] | None:
    found = []
    for death in scene.deaths:
        row = log.execute(_SQL["given_back"], {"pid": death.pid, "at": death.at}).fetchone()
        if row is not None and row[0] is not None:
            found.append(float(row[0]))
    if not found:
        return None
    return {"median": round(statistics.median(found), 2), "longest": round(max(found), 2)}
