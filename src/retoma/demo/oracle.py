"""The oracle: what the diary, the checkpoints and the rows say, put side by side. Nothing here is assumed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retoma import Attempt, Checkpoint, Job, Retoma
from retoma.demo.diary import Line

_CRASHED = "crashed"
_LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run of the demo came to."""

    documents: int
    completed: int
    rows: int
    rows_twice: int
    missing: int
    steps: int
    ran: int
    run_again: int
    given_back: int
    recovered_from_executor: int
    recovered_from_worker: int
    executor_seconds: float | None
    worker_seconds: float | None
    restart_steps: int
    restart_seconds: float
    example: tuple[str, Sequence[str]]

    @property
    def cut_off(self) -> int:
        """Steps that were in the middle when their process was killed: nothing of them had been saved."""
        return self.ran - self.steps

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        whole = self.completed == self.documents == self.rows and self.missing == 0 and self.rows_twice == 0
        return whole and self.run_again == 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one job."""

    job: Job
    attempts: Sequence[Attempt]
    checkpoints: Sequence[Checkpoint]


async def gather(app: Retoma, queue: str) -> list[Facts]:
    """Everything the database knows of the jobs of *queue*."""
    jobs: list[Job] = []
    while page := await app.jobs(queue=queue, before=jobs[-1].id if jobs else None, limit=1000):
        jobs += page
    few = asyncio.Semaphore(8)

    async def facts(job: Job) -> Facts:
        async with few:
            # Of a job that was claimed once there is nothing to tell but its checkpoints.
            attempts = await app.attempts(job.id) if job.fence > 1 else []
            return Facts(job, attempts, await app.checkpoints(job.id))

    return list(await asyncio.gather(*map(facts, jobs)))


async def rows_of(app: Retoma, run: str) -> list[tuple[str, list[str]]]:
    """What the pipeline wrote: document and keywords."""
    async with app.transaction() as connection:
        found: Any = await connection.execute(
            "select document, keywords from retoma_demo where run = %s order by document", (run,)
        )
        return list(await found.fetchall())


def weigh(
    names: Sequence[str],
    facts: Sequence[Facts],
    diary: Sequence[Line],
    rows: Sequence[tuple[str, list[str]]],
    *,
    executor_killed: datetime,
    worker_killed: datetime,
) -> Report:
    """Put it all side by side."""
    saved = {(each.job_id, each.step): each for one in facts for each in one.checkpoints}
    attempts = [attempt for one in facts for attempt in one.attempts]
    crashed = [attempt for attempt in attempts if attempt.ending == _CRASHED]
    lost = [attempt for attempt in attempts if attempt.ending == _LOST]
    per_document = Counter(document for document, _keywords in rows)
    before = [each for killed in (executor_killed, worker_killed) for each in saved.values() if each.saved_at < killed]
    return Report(
        documents=len(names),
        completed=sum(one.job.state == "completed" for one in facts),
        rows=len(rows),
        rows_twice=sum(count - 1 for count in per_document.values()),
        missing=len(set(names) - set(per_document)),
        steps=len(saved),
        ran=len(diary),
        run_again=run_again(diary, saved),
        given_back=sum(each.fence < one.job.fence for one in facts for each in one.checkpoints),
        recovered_from_executor=len({attempt.job_id for attempt in crashed}),
        recovered_from_worker=len({attempt.job_id for attempt in lost}),
        executor_seconds=_seconds(crashed, executor_killed),
        worker_seconds=_seconds(lost, worker_killed),
        restart_steps=len(before),
        restart_seconds=sum(each.seconds or 0.0 for each in before),
        example=rows[len(rows) // 2] if rows else ("none", []),
    )


def run_again(diary: Sequence[Line], saved: dict[tuple[int, str], Checkpoint]) -> int:
    """How often a step ran although an earlier attempt had saved it, or twice in one attempt."""
    twice = sum(count - 1 for count in Counter(diary).values())
    late = {line for line in diary if (line.job, line.step) in saved and line.fence > saved[line.job, line.step].fence}
    return twice + len(late)


def _seconds(attempts: Sequence[Attempt], killed: datetime) -> float | None:
    """From the kill until the last of these jobs was back in the queue."""
    return max(((attempt.ended_at - killed).total_seconds() for attempt in attempts), default=None)
