"""Where jobs wait, and the lines inside a queue."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from store_hand import QUEUE, Hand, completed, order_of

from retoma.commands import flow
from retoma.errors import ConfigurationError
from retoma.store import jobs, queues


class TestPause:
    def test_the_first_hour_stays_and_the_last_reason_counts(self, db: Hand) -> None:
        assert db.ask(queues.pause(QUEUE, reason="person")) == [(None, False)]
        before = db.value("select paused_at from retoma.queues")

        db.ask(queues.pause(QUEUE, reason="budget"))

        assert db.sql("select paused_at, paused_reason from retoma.queues") == [(before, "budget")]

    def test_what_runs_goes_on(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(queues.pause(QUEUE, reason="person"))

        assert db.save(worker, claim)
        assert db.end(worker, completed(claim)) == [(claim.id, "completed")]

    def test_a_pause_with_an_end_is_over_by_the_clock_of_the_database(self, db: Hand) -> None:
        id = db.one_job()
        ((until, over),) = db.ask(queues.pause(QUEUE, reason="night", seconds=3600.0))
        worker = db.hello()

        assert (until is not None, over, db.claim(worker)) == (True, False, [])
        (shown,) = db.ask(queues.all())
        assert (shown.paused_reason, shown.paused_until) == ("night", until)

        db.sql("update retoma.queues set paused_until = now() - interval '1 second'")

        (later,) = db.ask(queues.all())
        assert (later.paused_at, later.paused_reason, later.paused_until) == (None, None, None)
        assert [each.id for each in db.claim(worker)] == [id]

    def test_a_pause_after_one_that_is_over_begins_anew(self, db: Hand) -> None:
        db.ask(queues.pause(QUEUE, reason="night", seconds=60.0))
        db.sql(
            "update retoma.queues set paused_at = now() - interval '1 day', paused_until = now() - interval '1 hour'"
        )

        db.ask(queues.pause(QUEUE, reason="again"))

        assert db.sql("select paused_at = now(), paused_until from retoma.queues") == [(False, None)]
        assert db.value("select paused_at > now() - interval '1 hour' from retoma.queues")

    def test_an_end_in_the_past_is_refused_and_nothing_is_paused(self, db: Hand) -> None:
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)

        with pytest.raises(ConfigurationError, match="over already"):
            db.do(flow.pause(QUEUE, reason="x", until=long_ago, seconds=None))
        with pytest.raises(ConfigurationError, match="both say"):
            db.do(flow.pause(QUEUE, reason="x", until=long_ago, seconds=1.0))

    def test_a_paused_queue_still_takes_jobs_in(self, db: Hand) -> None:
        db.ask(queues.pause(QUEUE, reason="person"))

        assert db.state(db.one_job()) == "queued"


class TestResume:
    def test_jobs_may_be_taken_again(self, db: Hand) -> None:
        id = db.one_job()
        db.ask(queues.pause(QUEUE, reason="person"))

        assert db.ask(queues.resume(QUEUE)) == [QUEUE]
        assert db.sql("select paused_at, paused_reason from retoma.queues") == [(None, None)]
        assert [each.id for each in db.claim(db.hello())] == [id]

    def test_a_queue_that_was_never_paused_is_no_row(self, db: Hand) -> None:
        assert db.ask(queues.resume("nothing")) == []


class TestAll:
    def test_how_many_wait_are_due_and_run(self, db: Hand) -> None:
        db.enqueue(3)
        db.enqueue(2, delay=600.0)
        db.claim(db.hello(), 1)
        db.ask(jobs.cancel([db.one_job()]))
        db.age(30)

        [queue] = db.ask(queues.all())

        assert (queue.name, queue.waiting, queue.due, queue.running) == (QUEUE, 4, 2, 1)
        assert queue.oldest_due_seconds is not None
        assert 30 <= queue.oldest_due_seconds < 90

    def test_what_waits_in_a_closed_lane_is_held_back_and_not_due(self, db: Hand) -> None:
        db.one_job()
        db.ask(queues.lanes(QUEUE, ["batch"], at_once=None))
        db.ask(jobs.enqueue(order_of(), ["1"] * 3, [None] * 3, ["batch"] * 3, notify=False))
        db.age(60)
        db.sql("update retoma.jobs set run_at = now() where lane_id = 0")
        db.sql("update retoma.lanes set closed_at = now()")

        [found] = db.ask(queues.all())

        assert (found.waiting, found.due, found.held, found.running) == (4, 1, 3, 0)
        assert found.oldest_due_seconds is not None
        assert found.oldest_due_seconds < 60

    def test_a_paused_queue_is_there_even_when_it_is_empty(self, db: Hand) -> None:
        db.ask(queues.pause("empty", reason="person"))
        db.one_job()

        assert [(each.name, each.waiting, each.paused_reason) for each in db.ask(queues.all())] == [
            ("empty", 0, "person"), (QUEUE, 1, None)
        ]  # fmt: skip


class TestLanes:
    def test_a_lane_comes_into_being_once(self, db: Hand) -> None:
        first = db.lanes("a", "b")
        second = db.lanes("b", "a")

        assert second == first[::-1]
        assert db.value("select count(*) from retoma.lanes") == 2

    def test_a_limited_lane_gets_its_places(self, db: Hand) -> None:
        lanes = db.lanes("a", "b", at_once=2)

        places = db.sql("select lane_id, place, job_id from retoma.slots order by lane_id, place")

        assert places == [(lane, place, None) for lane in lanes for place in (1, 2)]

    def test_a_name_said_twice_in_one_breath_is_one_lane(self, db: Hand) -> None:
        assert db.ask(queues.lanes(QUEUE, ["a", "a"], at_once=1)) != []
        assert db.sql("select (select count(*) from retoma.lanes), (select count(*) from retoma.slots)") == [(1, 1)]

    def test_a_lane_that_is_there_keeps_its_limit(self, db: Hand) -> None:
        db.lanes("a", at_once=2)
        db.lanes("a", at_once=9)

        assert db.value("select at_once from retoma.lanes") == 2
        assert db.value("select count(*) from retoma.slots") == 2

    def test_two_queues_may_have_lanes_of_one_name(self, db: Hand) -> None:
        assert db.lanes("a", queue="one") != db.lanes("a", queue="two")


class TestLimitLane:
    @pytest.mark.parametrize("at_once", [1, 3, None])
    def test_a_lane_that_is_new_comes_into_being_with_its_limit(self, db: Hand, at_once: int | None) -> None:
        [lane] = db.ask(queues.limit_lane(QUEUE, "a", at_once=at_once))

        assert db.sql("select id, at_once from retoma.lanes") == [(lane, at_once)]
        assert db.value("select count(*) from retoma.slots") == (at_once or 0)

    @pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (None, 2), (2, None), (3, 3)])
    def test_a_free_lane_has_as_many_places_as_its_new_limit(
        self, db: Hand, before: int | None, after: int | None
    ) -> None:
        [lane] = db.lanes("a", at_once=before)

        assert db.ask(queues.limit_lane(QUEUE, "a", at_once=after)) == [lane]
        assert db.value("select count(*) from retoma.slots") == (after or 0)

    def test_places_that_are_taken_stay_until_their_job_ends(self, db: Hand) -> None:
        worker = db.hello()
        db.lanes("a", at_once=3)
        ids = db.enqueue(3, lane="a")
        claims = db.claim(worker)

        db.ask(queues.limit_lane(QUEUE, "a", at_once=1))

        assert sorted(db.seats()) == ids
        db.end(worker, *(completed(each) for each in claims))
        assert db.seats() == {}


class TestMendSlots:
    def test_a_place_whose_job_does_not_run_is_freed(self, db: Hand) -> None:
        [lane] = db.lanes("a", at_once=3)
        db.enqueue(2, lane="a")
        [claim] = db.claim(db.hello(), 1)
        waits, gone = db.one_job(), 10**9
        db.sql("update retoma.slots set job_id = %(job)s where place = 2", job=waits)
        db.sql("update retoma.slots set job_id = %(job)s where place = 3", job=gone)

        assert sorted(db.ask(queues.mend_slots())) == [(lane, 2), (lane, 3)]
        assert db.seats() == {claim.id: lane}

    def test_nothing_to_mend_is_nothing_done(self, db: Hand) -> None:
        db.lanes("a", at_once=1)
        db.enqueue(1, lane="a")
        db.claim(db.hello())

        assert db.ask(queues.mend_slots()) == []
        assert len(db.seats()) == 1


class TestHint:
    def test_whoever_listens_hears_the_name_of_the_queue(self, db: Hand) -> None:
        db.sql("listen retoma")
        db.ask(queues.hint(QUEUE))

        assert [each.payload for each in db.connection.notifies(timeout=20, stop_after=1)] == [QUEUE]
