"""A worker whose first word is still on its way when it says it again: the ledger must come to know that it counted.

The connection breaks after the statement has been sent; the server goes on with it, and commits only while the
repetition already waits for the same row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import psycopg
from store_hand import Hand, answer, checkpoint, completed

from retoma.model.job import Ended
from retoma.postgres.database import Database
from retoma.postgres.faults import Outages
from retoma.store import checkpoints
from retoma.store.query import Query
from retoma.worker.journal import Journal

Hands = Callable[..., Hand]


class SlowToCommit:
    """A database whose first connection breaks, and whose server commits as soon as somebody waits for that."""

    def __init__(self, broken: Hand, good: Hand) -> None:
        self.broken = broken
        self.good = good
        self.cut = False
        self.outages = Outages()

    async def all(self, query: Query[Any]) -> list[Any]:
        if not self.cut:
            self.cut = True
            self.broken.begin()
            self.broken.ask(query)
            raise psycopg.OperationalError("the connection was cut")
        asked = self.good.start(query)
        if self.good.has_to_wait_for(self.broken, asked):
            self.broken.commit()
        return answer(asked)


def ledger_of(database: SlowToCommit, worker: int, ended: Callable[[Ended, str | None], None]) -> Journal:
    def tell(group: Sequence[tuple[Ended, str | None]]) -> None:
        for each, state in group:
            ended(each, state)

    return Journal(cast(Database, database), worker, ended=tell, lost=lambda _job: None)


async def test_an_ending_that_was_written_in_the_end_is_told_as_written(hand: Hands) -> None:
    one, two = hand(), hand()
    worker = one.hello()
    claim = one.claimed(worker)
    told: list[tuple[int, str | None]] = []
    ledger = ledger_of(SlowToCommit(one, two), worker, lambda ended, state: told.append((ended.id, state)))

    ledger.end(completed(claim))
    await ledger.settled()

    assert two.state(claim.id) == "completed"
    assert told == [(claim.id, "completed")]


async def test_a_step_that_was_written_in_the_end_is_neither_refused_nor_written_twice(hand: Hands) -> None:
    one, two = hand(), hand()
    worker = one.hello()
    claim = one.claimed(worker)
    ledger = ledger_of(SlowToCommit(one, two), worker, lambda _ended, _state: None)

    await ledger.save(checkpoint(claim))

    assert len(two.ask(checkpoints.history(claim.id))) == 1
