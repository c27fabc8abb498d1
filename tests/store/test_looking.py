"""Jobs looked for by what is known of them."""

from __future__ import annotations

from typing import Any

import pytest
from store_hand import QUEUE, Hand, order_of

from retoma.model.job import Ended
from retoma.model.operation import JobFilter
from retoma.model.validation import LARGEST_ID
from retoma.store import failures, jobs, looking
from retoma.store.looking import Filter, Span, Walked, WalkedKind


def walked(db: Hand, *, before: int = LARGEST_ID, limit: int = 50, look: int = 100, **wanted: Any) -> Walked:
    return db.ask(looking.walk_for(Filter(**wanted), Span(before=before, limit=limit, look=look)))[0]


class TestSome:
    def test_the_newest_first_with_their_bodies_or_as_a_list_shows_them(self, db: Hand) -> None:
        worker = db.hello()
        first, second = db.one_job(), db.one_job()
        claim, _ = db.claim(worker, 2)
        db.end(worker, Ended(claim, "failed", error="It broke.\nHere is how."))

        whole = db.ask(looking.some([first, second], content=True))
        short = db.ask(looking.some([first, second], content=False))

        assert [each.id for each in whole] == [each.id for each in short] == [second, first]
        assert (whole[1].input, whole[1].error) == (db.job(first).input, "It broke.\nHere is how.")
        assert (short[1].input, short[1].output, short[1].error) == ("", None, "It broke.")


class TestWalk:
    def test_the_newest_come_first_and_the_cursor_goes_on_behind_them(self, db: Hand) -> None:
        ids = db.enqueue(5)

        first = walked(db, limit=2)
        second = walked(db, limit=2, before=first.ids[-1])

        assert (first.ids + second.ids, first.stopped) == (ids[:0:-1], None)

    def test_each_filter_counts_only_when_it_is_given(self, db: Hand) -> None:
        plain, other = db.one_job(), db.one_job(pipeline="other")
        batch, elsewhere = db.one_job(batch_id=3), db.one_job(queue="elsewhere")
        [keyed] = db.ask(jobs.enqueue(order_of(), ["1"], ["a"], [None], notify=False))
        db.ask(jobs.cancel([plain]))

        assert walked(db).ids == [keyed.id, elsewhere, batch, other, plain]
        assert walked(db, state="cancelled").ids == [plain]
        assert walked(db, state="queued").ids == [keyed.id, elsewhere, batch, other]
        assert walked(db, pipeline="other").ids == [other]
        assert walked(db, batch_id=3).ids == [batch]
        assert walked(db, queue="elsewhere").ids == [elsewhere]
        assert walked(db, key="a").ids == [keyed.id]
        assert walked(db, pipeline="other", state="cancelled").ids == []

    def test_it_looks_at_so_many_and_says_where_it_stopped(self, db: Hand) -> None:
        rare = db.one_job(pipeline="rare")
        ids = db.enqueue(4)

        first = walked(db, pipeline="rare", look=3)
        second = walked(db, pipeline="rare", look=3, before=first.stopped or 0)

        assert (first.ids, first.stopped) == ([], ids[1])
        assert (second.ids, second.stopped) == ([rare], None)


def walked_kind(db: Hand, *, before: int = LARGEST_ID, limit: int = 50, look: int = 100, **wanted: Any) -> WalkedKind:
    return db.ask(looking.walk_kind(Filter(**wanted), Span(before=before, limit=limit, look=look)))[0]


class TestWalkKind:
    def test_those_that_ended_that_run_and_that_wait_the_newest_first_behind_a_cursor(self, db: Hand) -> None:
        worker = db.hello()
        ended, held, waiting = (db.one_job(queue="wanted") for _ in range(3))
        for claim in db.claim(worker, 1, queues=["wanted"]):
            db.end(worker, Ended(claim, "completed", output="1"))
        db.claim(worker, 1, queues=["wanted"])
        db.one_job()

        assert walked_kind(db, queue="wanted") == ([waiting, held, ended], True)
        assert walked_kind(db, queue="wanted", limit=2) == ([waiting, held], True)
        assert walked_kind(db, queue="wanted", before=waiting) == ([held, ended], True)
        assert walked_kind(db, queue="wanted", state="queued") == ([waiting], True)
        assert walked_kind(db, queue="wanted", state="completed") == ([ended], True)
        assert walked_kind(db, queue="nowhere") == ([], True)

    def test_each_pipeline_and_queue_in_which_jobs_ended_is_looked_at(self, db: Hand) -> None:
        ids = [db.one_job(queue=queue, pipeline=name) for queue in ("a", "b") for name in ("one", "two")]
        db.ask(jobs.cancel(ids))

        assert walked_kind(db, pipeline="two") == ([ids[3], ids[1]], True)
        assert walked_kind(db, queue="a") == ([ids[1], ids[0]], True)
        assert walked_kind(db, queue="a", pipeline="two") == ([ids[1]], True)

    def test_jobs_of_every_lane_are_found(self, db: Hand) -> None:
        receipts = db.ask(jobs.enqueue(order_of(), ["1"] * 3, [None] * 3, ["x", None, "y"], notify=False))

        assert walked_kind(db, queue=QUEUE) == ([each.id for each in receipts[::-1]], True)

    def test_it_says_when_too_many_wait_to_read_them_all(self, db: Hand) -> None:
        db.enqueue(4)

        assert not walked_kind(db, queue=QUEUE, look=3).whole
        assert walked_kind(db, queue=QUEUE, look=4).whole
        assert walked_kind(db, queue="nowhere", look=3) == ([], True)


class TestWalkOutcome:
    @pytest.mark.parametrize("state", ["failed", "review", "skipped", "cancelled"])
    def test_only_that_state_and_the_filters_behind_a_cursor(self, db: Hand, state: str) -> None:
        db.enqueue(4)
        db.sql("update retoma.jobs set state = %(state)s, finished_at = now()", state=state)
        other = db.one_job(pipeline="other")
        db.sql("update retoma.jobs set state = %(state)s, finished_at = now()", state=state)
        db.enqueue(1)
        first = walked(db, state=state, limit=2)

        assert (first.ids[0], len(first.ids)) == (other, 2)
        assert len(walked(db, state=state, before=first.ids[-1]).ids) == 3
        assert walked(db, state=state, pipeline="other").ids == [other]
        assert walked(db, state=state, queue="nowhere", look=2).stopped == first.ids[-1]


class TestWalkRunning:
    def test_what_the_workers_hold(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(3)
        held = [each.id for each in db.claim(worker, 2)]

        assert walked(db, state="running").ids == sorted(held, reverse=True)
        assert walked(db, state="running", queue="nowhere") == ([], None)


class TestWalkBatch:
    def test_all_states_or_one_of_one_batch(self, db: Hand) -> None:
        mine = [db.one_job(batch_id=3) for _ in range(4)]
        db.one_job(batch_id=4)
        db.sql("update retoma.jobs set state = 'completed', finished_at = now() where id = %(id)s", id=mine[1])

        assert walked(db, batch_id=3).ids == mine[::-1]
        assert walked(db, batch_id=3, state="completed").ids == [mine[1]]
        assert walked(db, batch_id=3, limit=2, before=mine[3]).ids == [mine[2], mine[1]]


class TestWalkKey:
    def test_a_key_is_found_in_every_pipeline_and_batch(self, db: Hand) -> None:
        def one(**order: Any) -> int:
            return db.ask(jobs.enqueue(order_of(**order), ["1"], ["a"], [None], notify=False))[0].id

        ids = [one(), one(pipeline="other"), one(batch_id=3), one(batch_id=4, pipeline="other")]
        db.ask(jobs.enqueue(order_of(batch_id=5), ["1"], ["b"], [None], notify=False))

        assert walked(db, key="a").ids == ids[::-1]
        assert walked(db, key="a", pipeline="other").ids == [ids[3], ids[1]]
        assert walked(db, key="a", batch_id=3).ids == [ids[2]]
        assert walked(db, key="c") == ([], None)


class TestWalkFailed:
    def test_those_that_fit_newest_first_and_where_it_stopped(self, db: Hand) -> None:
        worker = db.hello(lease=1e7)
        ids = []
        for error in ("OSError: a", "ValueError: b", "OSError: a"):
            claim = db.claimed(worker)
            db.end(worker, Ended(claim, "failed", error=error))
            ids.append(claim.id)
        db.one_job()
        (told,) = [each.fingerprint for each in db.ask(failures.groups(hours=1)) if each.jobs == 2]

        whole = db.ask(
            looking.walk_failed(JobFilter(fingerprint=told), Span(before=LARGEST_ID, limit=9), discarded=False)
        )[0]
        first = db.ask(looking.walk_failed(JobFilter(), Span(before=LARGEST_ID, limit=2), discarded=False))[0]
        rest = db.ask(looking.walk_failed(JobFilter(), Span(before=first.stopped or 0, limit=2), discarded=False))[0]

        assert (whole.ids, whole.stopped) == ([ids[2], ids[0]], None)
        assert (first.ids, first.stopped, rest.ids, rest.stopped) == (ids[:0:-1], ids[1], ids[:1], None)


class TestHits:
    def test_an_id_may_be_a_job_and_a_correlation_id_many(self, db: Hand) -> None:
        one, two = db.one_job(correlation_id="order-7"), db.one_job(correlation_id="order-7")

        by_id = db.ask(looking.hits("x", one, pipeline=None, limit=5))
        by_correlation = db.ask(looking.hits("order-7", None, pipeline=None, limit=5))

        assert [(each.kind, each.id, each.by) for each in by_id] == [("job", one, "id")]
        assert [(each.id, each.by) for each in by_correlation] == [(two, "correlation"), (one, "correlation")]
        assert db.ask(looking.hits("order-7", one, pipeline="other", limit=5)) == []


class TestKeyed:
    def test_a_key_or_the_file_at_its_end(self, db: Hand) -> None:
        ids = [
            db.ask(jobs.enqueue_one(order_of(), "1", key, notify=False))[0].id
            for key in ("inbox/a.pdf", "a.pdf", "ba.pdf")
        ]

        found = db.ask(looking.keyed("a.pdf", pipeline=None, limit=5, before=LARGEST_ID))

        assert [each.id for each in found] == [ids[1], ids[0]]
