"""Rounds of a fleet, and workers that hold a lock by which others see them."""

from __future__ import annotations

from store_hand import LEASE, QUEUE, Hand

from retoma.store import duties, workers
from retoma.store.duties import Due
from retoma.store.workers import Missing
from retoma.system.process_identity import ProcessIdentity

HINT = 7_000_000_000_000_000_001
HERE = ProcessIdentity("boot/4026531836/here", 4711, 123_456)


def look(db: Hand, *rounds: str, seconds: float = 30.0, by: str = "ana", every: float = 5.0) -> Due:
    (due,) = db.ask(duties.look(dict.fromkeys(rounds, seconds), every=every, taken_by=by))
    return due


def worker(db: Hand, hint: int | None = HINT, where: ProcessIdentity = HERE, lease: float = LEASE) -> int:
    return db.ask(
        workers.hello(
            label="worker", host="here", pid=1, version="0", queues=[QUEUE], pipelines=["read"], at_once=10,
            lease=lease, hint=hint, where=where,
        )
    )[0]  # fmt: skip


def hold(db: Hand, hint: int = HINT) -> None:
    db.sql("select pg_advisory_lock_shared(%(hint)s::bigint)", hint=hint)


def missing(db: Hand) -> list[Missing]:
    return db.ask(workers.missing())


def miss(db: Hand, seconds: float) -> None:
    """Let them have been missed for so long."""
    db.sql("update retoma.workers set missing_since = now() - make_interval(secs => %(ago)s)", ago=seconds)
