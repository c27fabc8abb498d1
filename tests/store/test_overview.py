"""The whole system at a glance, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from store_batch import BatchHand, hands
from store_hand import QUEUE

from retoma.store import overview, queues


@pytest.fixture
def hand(room: str) -> Iterator[Callable[..., BatchHand]]:
    yield from hands(room)


class TestLook:
    def test_what_runs_waits_failed_and_costs_is_counted_in_one_look(self, db: BatchHand) -> None:
        worker, silent = db.hello(lease=1e6), db.hello()
        db.silence(silent)
        batch = db.batch(6)
        db.finish(worker, "completed", "failed", "failed", "review")
        db.take(worker, batch)
        db.pause(db.batch(1))
        done = db.batch(1)
        db.cancel(done)
        db.sql(
            "insert into retoma.calls (key, provider, model, state, kind, request, answer, answered_at, cost)"
            " values ('a', 'p', 'm', 'answered', 'first', '{}', '', now(), 2),"
            " ('b', 'p', 'm', 'answered', 'repair', '{}', '', now(), 1)"
        )

        [look] = db.ask(overview.look())

        assert (look.running, look.queued, look.failed_lately, look.review) == (1, 2, 2, 1)
        assert {state: count for state, count in look.batches.items() if count} == {
            "running": 1, "paused": 1, "cancelled": 1
        }  # fmt: skip
        assert (look.workers_alive, look.workers_silent, look.queues_paused) == (1, 1, 0)
        assert (look.spent_today, look.again_today, look.unpriced_today) == (3, 1, 0)

    def test_the_oldest_wait_is_that_of_a_job_that_may_run(self, db: BatchHand) -> None:
        db.batch(1)
        db.sql("update retoma.jobs set run_at = now() - interval '40 seconds'")
        held = db.batch(1)
        db.sql("update retoma.jobs set run_at = now() - interval '1 day' where batch_id = %(id)s", id=held)
        db.pause(held)

        [look] = db.ask(overview.look())
        db.ask(queues.pause(QUEUE, reason="person"))
        [paused] = db.ask(overview.look())

        assert look.oldest_wait_seconds is not None
        assert 40 <= look.oldest_wait_seconds < 3600
        assert (paused.oldest_wait_seconds, paused.queues_paused) == (None, 1)

    def test_a_count_stops_at_its_bound(self, db: BatchHand) -> None:
        db.batch(5)

        [look] = db.ask(overview.look(most=3))

        assert (look.queued, look.counted_to) == (3, 3)

    def test_what_failed_or_ended_the_day_before_yesterday_does_not_count(self, db: BatchHand) -> None:
        worker = db.hello(lease=1e9)
        db.batch(1)
        db.finish(worker, "failed")
        db.age(2 * 86_400)

        [look] = db.ask(overview.look())

        assert (look.failed_lately, sum(look.batches.values())) == (0, 0)

    def test_an_empty_house_is_well(self, db: BatchHand) -> None:
        [look] = db.ask(overview.look())

        assert (look.queued, look.running, look.oldest_wait_seconds, look.unwell) == (0, 0, None, [])

    def test_work_without_workers_is_told_first(self, db: BatchHand) -> None:
        db.batch(1)

        [look] = db.ask(overview.look())

        assert look.unwell[0] == "no_workers"
