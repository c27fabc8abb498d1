"""A hand that also knows batches: it runs whole commands, each in a transaction of its own, and lets them age."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import psycopg
from store_hand import PIPELINE, QUEUE, Hand, checkpoint

from retoma import BatchEnd, Retry, Run, pipeline
from retoma.commands import batch_actions, maintenance, verification
from retoma.commands import batches as batch_commands
from retoma.commands import operations as operation_commands
from retoma.commands.batches import BatchOptions
from retoma.model.batch import Batch, Breach, Event, Progress, Resumed
from retoma.model.evidence import Evidence
from retoma.model.job import Claim, Ended, Receipt
from retoma.postgres.connections import run_on_sync
from retoma.store import batches, checkpoints, operations
from retoma.store.query import Command
from retoma.values.fingerprints import checksum

T = TypeVar("T")

STALL = 300.0
EMPTY_BATCHES = "delete from retoma.events; delete from retoma.operations; delete from retoma.batches"

AGE_BATCHES = """
with span as materialized (select make_interval(secs => %(seconds)s::float8) as ago),
aged_events as (update retoma.events set at = at - ago from span)
update retoma.batches
   set created_at = created_at - ago, sealed_at = sealed_at - ago, expires_at = expires_at - ago,
       started_at = started_at - ago, stalled_at = stalled_at - ago, finished_at = finished_at - ago,
       last_progress_at = last_progress_at - ago, paced_at = paced_at - ago
  from span
"""


@pipeline("finish", queue=QUEUE, retry=Retry(attempts=3))
async def finish(batch: BatchEnd, _run: Run) -> int:
    return batch.total


@pipeline(PIPELINE, queue=QUEUE, retry=Retry(attempts=3), stall_seconds=STALL)
async def read(number: int, _run: Run) -> int:
    return number


class BatchHand(Hand):
    """What people, workers and the watchdog do to batches, over one connection."""

    def inside(self, command: Command[T]) -> T:
        """A command in the transaction that is open."""
        return run_on_sync(self.connection, command)

    def age(self, seconds: float) -> None:
        super().age(seconds)
        self.sql(AGE_BATCHES, seconds=seconds)

    # — making —

    def batch(self, jobs: int = 3, *, name: str = "letters", **options: Any) -> int:
        """A sealed batch; the keys of its jobs are k0, k1, …"""
        command = batch_commands.create(read, range(jobs), key, name, BatchOptions(**options))
        return self.do(command).id

    def finished_batch(self, jobs: int = 3, *, at: float = 1.0, **options: Any) -> tuple[int, int]:
        """A sealed batch with a last step, and the job of that."""
        last = replace(read, finish=finish, finish_at=at)
        batch = self.do(batch_commands.create(last, range(jobs), key, "letters", BatchOptions(**options)))
        assert batch.finish is not None
        assert batch.finish.job_id is not None
        return batch.id, batch.finish.job_id

    def finishing(self, id: int) -> tuple[str, bool, int, str, bool]:
        """Where its last step stands: (finishing, owed, run, the state of its job, whether its lane is open)."""
        (row,) = self.sql(
            "select batch.finishing, batch.finish_owed, batch.finish_run, job.state, lane.closed_at is null"
            "  from retoma.batches as batch join retoma.jobs as job on job.id = batch.finish_job_id"
            "  join retoma.lanes as lane on lane.id = batch.finish_lane_id where batch.id = %(id)s",
            id=id,
        )
        return tuple(row)  # type: ignore[return-value]

    def open(self, *, expires: float = 3600.0, **options: Any) -> int:
        return self.do(batch_commands.open(read, "letters", BatchOptions(**options), expires=expires)).id

    def fill(self, id: int, *numbers: int, **options: Any) -> list[Receipt]:
        return self.do(batch_commands.fill(id, read, numbers, key, BatchOptions(**options)))

    def seal(self, id: int, *, expected: int | None = None) -> Batch:
        return self.do(batch_commands.seal(id, expected=expected))

    # — asking —

    def resume(self, id: int, *, epoch: int | None = None, max_resumes: int | None = None) -> Resumed:
        return self.do(batch_actions.resume(id, epoch=epoch, max_resumes=max_resumes, by="person"))

    def retry_failed(
        self, id: int, *, fingerprint: str | None = None, cancelled: bool = False, attempts: int | None = None
    ) -> Resumed:
        return self.do(batch_actions.retry_failed(id, fingerprint=fingerprint, cancelled=cancelled, attempts=attempts))

    def pause(self, id: int) -> Batch:
        return self.do(batch_actions.pause(id, reason="person"))

    def cancel(self, id: int) -> Batch:
        return self.do(batch_actions.cancel(id, reason="person"))

    def restart(self, id: int, *, configuration: dict[str, Any] | None = None) -> Resumed:
        return self.do(batch_actions.restart(id, configuration=configuration))

    def look_after(self) -> maintenance.Round:
        did = self.do(maintenance.look_after())
        while any([self.do(operation_commands.piece(id)) for id in self.ask(operations.open())]):  # noqa: C419 - all of them
            pass
        return did

    # — working —

    def take(self, worker: int, id: int, limit: int = 1, *, suspects: bool = False) -> list[Claim]:
        """Claims of this batch, and of no other."""
        claims = self.claim(worker, limit, suspects=suspects)
        assert [each.batch_id for each in claims] == [id] * len(claims)
        return claims

    def save(self, worker_id: int, claim: Claim, step: str = "step", value: str = "1") -> list[tuple[int, str]]:
        """A step as a worker saves it, with its true checksum: the tables of these tests are sound."""
        return self.ask(checkpoints.save(worker_id, [checkpoint(claim, step, value, checksum(value))]))

    def finish(self, worker: int, *endings: str, **more: Any) -> list[int]:
        """Take as many jobs as there are endings, and end them so, in one statement."""
        claims = self.claim(worker, len(endings))
        assert len(claims) == len(endings), f"only {len(claims)} of {len(endings)} jobs could be taken"
        ended = sorted(
            (ending(each, word, **more) for each, word in zip(claims, endings, strict=True)), key=lambda e: e.id
        )
        self.end(worker, *ended)
        return [each.id for each in claims]

    # — looking —

    def one(self, id: int) -> Batch:
        return self.ask(batches.one(id))[0]

    def is_(self, id: int) -> str:
        return str(self.one(id).state)

    def counts(self, id: int) -> tuple[int | None, int, int]:
        """What the row says: (total, unfinished, failures)."""
        batch = self.one(id)
        return batch.total, batch.unfinished, batch.failures

    def progress(self, id: int) -> Progress:
        return self.ask(batches.progress(id))[0]

    def events(self, id: int) -> list[Event]:
        return self.ask(batches.events(id, after=0, limit=10_000))

    def told(self, id: int) -> list[str]:
        """The story without the jobs: how the batch itself went on."""
        return [each.kind for each in self.events(id) if each.kind != "jobs"]

    def evidence(self, id: int) -> Evidence:
        return self.ask(batches.evidence(id))[0]

    def jobs_of(self, id: int) -> list[int]:
        return [row[0] for row in self.sql("select id from retoma.jobs where batch_id = %(id)s order by id", id=id)]

    def states_of(self, id: int) -> list[str]:
        return [row[0] for row in self.sql("select state from retoma.jobs where batch_id = %(id)s order by id", id=id)]

    def breaches(self, *, quick: bool = False) -> list[Breach]:
        found: list[Breach] = []
        following: str | None = ""
        how = verification.How(sweep_seconds=5.0, quick=quick)
        while following is not None:
            piece = run_on_sync(self.connection, verification.piece(following, how))
            found, following = found + piece.found, piece.next
        return found

    # — states, reached as anybody would reach them —

    def stall(self, id: int, verdict: str = "silent") -> None:
        """What the watchdog does when it has found out why."""
        now = self.one(id)
        cause = '{"sentence": "Nothing moves."}'
        query = batches.stall(id, epoch=now.epoch, event_seq=now.event_seq, verdict=verdict, cause=cause)
        assert self.ask(query) == [id]


def key(number: int) -> str:
    return f"k{number}"


def ending(claim: Claim, word: str, **more: Any) -> Ended:
    """An ending as a worker would write it down; "again" is a failure that may be tried again."""
    if word == "again":
        return Ended(claim, "failed", again=True, delay=0.0, reason="OSError", error="OSError: it broke", **more)
    if word == "failed":
        return Ended(claim, "failed", reason="OSError", error="OSError: it broke", **more)
    return Ended(claim, word, output='"done"' if word == "completed" else None, **more)


def hands(room: str) -> Iterator[Callable[..., BatchHand]]:
    """Makes hands that know batches, in a room without any."""
    empty(room)
    made: list[BatchHand] = []

    def make(*, hot: bool = True) -> BatchHand:
        made.append(BatchHand(room, hot=hot))
        return made[-1]

    yield make
    for each in made:
        each.close()
    empty(room)


def empty(room: str) -> None:
    with psycopg.connect(room, autocommit=True) as connection:
        connection.execute(EMPTY_BATCHES)
