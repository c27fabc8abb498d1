"""A hand on the database: one connection that asks the store's queries, waits when it must, and lets time pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLong
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

import psycopg

from retoma import Settings
from retoma.model.job import Attempt, Claim, Ended, Job, NewCheckpoint, Recovered
from retoma.postgres.connections import run_on_sync
from retoma.postgres.database import connection_options, fetch_sync
from retoma.store import attempts, checkpoints, jobs, queues, workers
from retoma.store.query import Command, Query
from retoma.store.turns import Turns

T = TypeVar("T")

TABLES = (
    "slots", "lanes", "queues", "jobs", "attempts", "checkpoints", "signals", "workers", "schedules", "events",
    "batches", "operations", "usage", "submissions", "calls", "prices", "limits", "permits", "api_keys", "replies",
    "sessions", "views", "schedule_runs", "reviews", "decisions", "discards", "cohorts",
    "users", "tries", "sign_ins", "webhook_endpoints", "webhook_deliveries",
    "webhook_attempts",
    "alerts",
)  # fmt: skip
EMPTY = "; ".join(f"delete from retoma.{table}" for table in TABLES)
EMPTY += "; set session_replication_role = replica; delete from retoma.audit; reset session_replication_role"
EMPTY += "; update retoma.duties set last_at = null, taken_by = null"
LEASE = 60.0
QUEUE = "letters"
PIPELINE = "read"
PATIENCE = 60.0

# Nobody waits for an hour here: what is stored moves into the past instead.
AGE = """
with span as materialized (select make_interval(secs => %(seconds)s::float8) as ago),
aged_jobs as (
    update retoma.jobs
       set run_at = run_at - ago, expires_at = expires_at - ago, cancel_requested_at = cancel_requested_at - ago,
           created_at = created_at - ago, claimed_at = claimed_at - ago, finished_at = finished_at - ago
      from span),
aged_attempts as (
    update retoma.attempts set claimed_at = claimed_at - ago, ended_at = ended_at - ago from span),
aged_checkpoints as (
    update retoma.checkpoints set saved_at = saved_at - ago, set_aside_at = set_aside_at - ago from span),
aged_lanes as (
    update retoma.lanes set wake_at = wake_at - ago, unseated_since = unseated_since - ago from span),
aged_discards as (
    update retoma.discards set failed_at = failed_at - ago, discarded_at = discarded_at - ago from span),
aged_signals as (update retoma.signals set sent_at = sent_at - ago from span),
aged_schedules as (
    update retoma.schedules
       set next_run_at = next_run_at - ago, last_run_at = last_run_at - ago, paused_at = paused_at - ago
      from span)
update retoma.workers
   set started_at = started_at - ago, seen_at = seen_at - ago, lease_expires_at = lease_expires_at - ago,
       stopping_at = stopping_at - ago, stopped_at = stopped_at - ago
  from span
"""


class Hand:
    """What a worker, a supervisor or a person does to the store, over one connection."""

    def __init__(self, url: str, *, hot: bool = True) -> None:
        options = connection_options(Settings.load(database_url=url), hot=hot)
        self.connection = psycopg.connect(url, **options)
        self.connection.execute("set synchronous_commit = off")
        self.pid = self.connection.info.backend_pid
        self._thread = ThreadPoolExecutor(1)
        self._waiting: Future[Any] | None = None
        self.ending = jobs.end

    def do(self, command: Command[T]) -> T:
        """A command in a transaction of its own, as the front door runs it."""
        self.begin()
        try:
            done = run_on_sync(self.connection, command)
        except BaseException:
            if not self.connection.closed:
                self.rollback()
            raise
        self.commit()
        return done

    def close(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self.connection.cancel()
        self._thread.shutdown()
        self.connection.close()

    # — asking —

    def ask(self, query: Query[T]) -> list[T]:
        return fetch_sync(self.connection, query)

    def sql(self, text: str, **params: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(text, params or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, text: str, **params: Any) -> Any:
        return self.sql(text, **params)[0][0]

    def begin(self) -> None:
        self.sql("begin")

    def commit(self) -> None:
        self.sql("commit")

    def rollback(self) -> None:
        self.sql("rollback")

    def start(self, ask: Query[T] | Callable[[], T]) -> Future[Any]:
        """Begin something that may have to wait for another hand."""
        self._waiting = self._thread.submit(self.ask, ask) if isinstance(ask, Query) else self._thread.submit(ask)
        return self._waiting

    def waits_for(self, other: Hand, asked: Future[Any]) -> None:
        """Come back as soon as what was *asked* with this hand waits for the *other* one."""
        if not self.has_to_wait_for(other, asked):
            raise AssertionError(f"It did not wait; its answer was {asked.result()!r}")

    def has_to_wait_for(self, other: Hand, asked: Future[Any]) -> bool:
        """Whether what was *asked* waits for the *other* hand, as soon as that is so or an answer has come."""
        give_up = time.monotonic() + PATIENCE
        with psycopg.connect(self.connection.info.dsn, password=self.connection.info.password) as looking:
            looking.autocommit = True
            while time.monotonic() < give_up:
                row = looking.execute("select pg_blocking_pids(%s)", [self.pid]).fetchone()
                if row and other.pid in row[0]:
                    return True
                if asked.done():
                    return False
                time.sleep(0.002)
        raise AssertionError("It neither waited for the other hand nor answered")

    # — those who work —

    def hello(self, label: str = "worker", *, lease: float = LEASE, at_once: int = 10) -> int:
        query = workers.hello(
            label=label,
            host="here",
            pid=1,
            version="0",
            queues=[QUEUE],
            pipelines=[PIPELINE],
            at_once=at_once,
            lease=lease,
        )
        return self.ask(query)[0]

    def beat(self, *ids: int) -> list[int]:
        return sorted(self.ask(workers.heartbeat([workers.Pulse(id) for id in ids])))

    def silence(self, *ids: int) -> None:
        """Let the leases of these workers, and only theirs, be over."""
        self.sql(
            "update retoma.workers set lease_expires_at = now() - interval '1 second',"
            " seen_at = seen_at - interval '1 hour' where id = any (%(ids)s)",
            ids=list(ids),
        )

    def age(self, seconds: float) -> None:
        self.sql(AGE, seconds=seconds)

    # — jobs —

    def lanes(self, *names: str, queue: str = QUEUE, at_once: int | None = None) -> list[int]:
        self.ask(queues.lanes(queue, names, at_once=at_once))
        found = dict(self.sql("select name, id from retoma.lanes where queue = %(queue)s", queue=queue))
        return [found[name] for name in names]

    def enqueue(self, number: int = 1, *, lane: str | None = None, **order: Any) -> list[int]:
        inputs = [str(each) for each in range(number)]
        receipts = self.ask(jobs.enqueue(order_of(**order), inputs, [None] * number, [lane] * number, notify=False))
        return [each.id for each in receipts]

    def one_job(self, **order: Any) -> int:
        return self.enqueue(1, **order)[0]

    def claim(
        self,
        worker_id: int,
        limit: int = 10,
        *,
        queues: Sequence[str] = (QUEUE,),
        pipelines: Sequence[str] = (PIPELINE,),
        token: UUID | None = None,
        turns: Turns | None = None,
        suspects: bool = False,
    ) -> list[Claim]:
        turns = turns or Turns()
        claim = jobs.claim_alone if suspects else jobs.claim
        query = claim(worker_id, queues, pipelines, limit=limit, token=token or uuid4(), turns=turns)
        return turns.heard(self.ask(query))

    def claimed(self, worker_id: int, **order: Any) -> Claim:
        """A new job in the hands of *worker_id*."""
        id = self.one_job(**order)
        claims = self.claim(worker_id, 1)
        assert [each.id for each in claims] == [id]
        return claims[0]

    def end(self, worker_id: int, *endings: Ended) -> list[tuple[int, str]]:
        return self.ask(self.ending(worker_id, endings))

    def recover(self, *, limit: int = 20) -> list[Recovered]:
        return self.ask(jobs.recover(limit=limit))

    def save(self, worker_id: int, claim: Claim, step: str = "step", value: str = "1") -> list[tuple[int, str]]:
        return self.ask(checkpoints.save(worker_id, [checkpoint(claim, step, value)]))

    def job(self, id: int) -> Job:
        return self.ask(jobs.one(id))[0]

    def state(self, id: int) -> str:
        return str(self.job(id).state)

    def attempts(self, id: int) -> list[Attempt]:
        return self.ask(attempts.of(id))

    def seconds_until(self, column: str, id: int, table: str = "jobs") -> float:
        """How far ahead (or, when negative, back) a stored time is."""
        return float(self.value(f"select extract(epoch from {column} - now()) from retoma.{table} where id = {id}"))

    def rest(self) -> list[int]:
        """Let the lanes that have nothing to give rest, as the duty does: which."""
        self.begin()
        idle = [id for _, id in self.ask(queues.idle_lanes(after=0, limit=10_000)) if id is not None]
        rested = sorted(self.ask(queues.rest_lanes(idle)))
        self.commit()
        return rested

    def awake(self) -> list[int]:
        return [id for (id,) in self.sql("select id from retoma.lanes where awake order by id")]

    def seats(self) -> dict[int, int]:
        """Which jobs sit in the slots of which lanes."""
        return dict(self.sql("select job_id, lane_id from retoma.slots where job_id is not null"))


def order_of(**changes: Any) -> jobs.Order:
    """What the jobs of a test have in common, unless it says otherwise."""
    plain = jobs.Order(
        pipeline=PIPELINE,
        queue=QUEUE,
        batch_id=None,
        priority=0,
        run_at=None,
        delay=0.0,
        expires=None,
        max_attempts=5,
        timeout=120.0,
        correlation_id=None,
        traceparent=None,
    )
    return cast(jobs.Order, plain | changes)


def completed(claim: Claim, output: str = '"done"') -> Ended:
    return Ended(claim, "completed", output=output)


def failed(claim: Claim, *, again: bool = True, delay: float = 5.0, reason: str = "OSError") -> Ended:
    return Ended(claim, "failed", again=again, delay=delay, reason=reason, error=f"{reason}: it broke")


def released(claim: Claim) -> Ended:
    return Ended(claim, "released", reason="draining")


def waiting(claim: Claim, *, signals: int | None = None, delay: float | None = 3600.0) -> Ended:
    return Ended(claim, "waiting", reason="waiting", delay=delay, signals=claim.signals if signals is None else signals)


def checkpoint(claim: Claim, step: str = "step", value: str = "1", checksum: str | None = None) -> NewCheckpoint:
    return NewCheckpoint(
        job_id=claim.id,
        fence=claim.fence,
        step=step,
        value=value,
        checksum=checksum or f"sum of {value}",
        fingerprint="print",
        input_hash=None,
        seconds=0.1,
    )


def answer(asked: Future[T]) -> T:
    """What a hand that had to wait was told in the end."""
    try:
        return asked.result(timeout=PATIENCE)
    except TooLong:
        raise AssertionError("It still waits, and nobody holds it") from None
