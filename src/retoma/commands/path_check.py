"""The path that every job takes, rehearsed: a job is written, claimed and ended, in a transaction that is rolled back.
A server that answers queries and cannot do this is not well.
"""

from __future__ import annotations

from uuid import uuid4

from retoma.errors import DatabaseError
from retoma.model.job import AttemptEnding, Ended
from retoma.store import jobs, workers
from retoma.store.query import Command
from retoma.store.turns import Turns

_NAME = "retoma.health"


def write() -> Command[int]:
    """Write a job, and return its id."""
    order = jobs.Order(
        pipeline=_NAME,
        queue=_NAME,
        batch_id=None,
        priority=0,
        run_at=None,
        delay=0.0,
        expires=None,
        max_attempts=1,
        timeout=1.0,
        correlation_id=None,
        traceparent=None,
    )
    rows = yield jobs.enqueue_one(order, "null", None, notify=True)
    return int(rows[0].id)


def claim(job: int) -> Command[None]:
    """Claim the *job* that was written, as a worker does, and end it."""
    (worker,) = yield workers.hello(
        label=_NAME, host="", pid=0, version="", queues=[_NAME], pipelines=[_NAME], at_once=1, lease=60.0
    )
    claims = yield jobs.claim(worker, [_NAME], [_NAME], limit=1, token=uuid4(), turns=Turns())
    if [each.id for each in claims] != [job]:
        raise DatabaseError("A job that was just written cannot be claimed.", next="retoma verify")
    ended = yield jobs.end(worker, [Ended(claims[0], AttemptEnding.COMPLETED, output="null")])
    if ended != [(job, "completed")]:
        raise DatabaseError("A job that was just claimed cannot be ended.", next="retoma verify")
