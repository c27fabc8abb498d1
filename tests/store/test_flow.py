"""How queues move: what waits, how fast jobs come and end, and what holds a queue up; always from a bounded look."""

from __future__ import annotations

from store_hand import QUEUE, Hand, completed, order_of

from retoma.store import flow, jobs, queues


def fill_lane(db: Hand, lane: str, count: int, *, at_once: int | None = None) -> None:
    db.ask(queues.lanes(QUEUE, [lane], at_once=at_once))
    db.ask(jobs.enqueue(order_of(), ["1"] * count, [None] * count, [lane] * count, notify=False))


class TestDepths:
    def test_what_waits_is_due_and_runs_is_told_with_the_oldest_wait(self, db: Hand) -> None:
        db.enqueue(3)
        db.enqueue(2, delay=600.0)
        db.claim(db.hello(), 1)
        db.age(30)

        [found] = db.ask(flow.depths())

        assert (found.name, found.waiting, found.due, found.running, found.more) == (QUEUE, 4, 2, 1, False)
        assert (found.executors, found.weight) == (1, 1)
        assert found.oldest_due_seconds is not None
        assert found.oldest_due_seconds >= 30

    def test_a_count_stops_and_says_that_there_are_more(self, db: Hand) -> None:
        db.enqueue(5)

        [found] = db.ask(flow.depths(most=3))

        assert (found.waiting, found.more) == (3, True)

    def test_what_waits_in_a_closed_lane_is_held_back_and_is_not_the_oldest(self, db: Hand) -> None:
        fill_lane(db, "batch", 3)
        db.sql("update retoma.lanes set closed_at = now()")

        [found] = db.ask(flow.depths())

        assert (found.waiting, found.due, found.held, found.oldest_due_seconds) == (3, 0, 3, None)

    def test_the_oldest_is_found_behind_a_lane_that_was_counted_first(self, db: Hand) -> None:
        db.enqueue(4)
        fill_lane(db, "later", 1)
        db.sql("update retoma.jobs set run_at = now() - interval '1 hour' where lane_id > 0")

        [found] = db.ask(flow.depths(most=2))

        assert found.oldest_due_seconds is not None
        assert found.oldest_due_seconds >= 3600

    def test_a_queue_is_there_when_it_is_empty_and_paused_or_served(self, db: Hand) -> None:
        db.hello()
        db.ask(queues.pause("resting", reason="person"))

        assert [(each.name, each.waiting) for each in db.ask(flow.depths())] == [(QUEUE, 0), ("resting", 0)]

    def test_one_queue_is_found_by_its_name(self, db: Hand) -> None:
        db.enqueue(1)
        db.ask(queues.pause("other", reason="person"))

        assert [each.name for each in db.ask(flow.depths(name="other"))] == ["other"]
        assert db.ask(flow.depths(name="nothing")) == []


class TestPace:
    def test_what_came_and_ended_is_counted_and_how_long_it_took(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(4)
        db.age(20)
        claims = db.claim(worker, 3)
        db.end(worker, *(completed(each) for each in claims))

        [pace] = db.ask(flow.pace([QUEUE]))

        assert (pace.came, pace.ended, pace.failed, pace.ended_seconds) == (4, 3, 0, 300)
        assert pace.wait_median is not None
        assert pace.run_most is not None
        assert pace.wait_median >= 20
        assert pace.run_most >= 0
        assert pace.ended_a_minute == 3 / 5

    def test_what_was_long_ago_does_not_count(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, completed(claim))
        db.age(3600)

        [pace] = db.ask(flow.pace([QUEUE]))

        assert (pace.came, pace.ended, pace.wait_median) == (0, 0, None)

    def test_where_a_look_does_not_reach_back_it_says_how_far_it_does(self, db: Hand) -> None:
        db.enqueue(5)
        db.age(50)

        [pace] = db.ask(flow.pace([QUEUE], look=5))

        assert pace.came == 5
        assert 50 <= pace.came_seconds < 300


class TestLanes:
    def test_lanes_are_told_with_their_limits_and_what_waits_and_runs_in_each(self, db: Hand) -> None:
        db.one_job()
        fill_lane(db, "a", 3, at_once=2)
        db.ask(queues.limit_lane(QUEUE, "empty", at_once=7))
        db.claim(db.hello(), 1)

        found = {each.name: each for each in db.ask(flow.lanes(QUEUE))}

        assert found.keys() == {None, "a", "empty"}
        assert (found["a"].at_once, found["empty"].at_once, found["empty"].kept) == (2, 7, True)
        assert sum(each.waiting for each in found.values()) == 3
        assert sum(each.running for each in found.values()) == 1

    def test_a_lane_without_work_and_without_a_limit_of_its_own_is_left_out(self, db: Hand) -> None:
        db.ask(queues.lanes(QUEUE, ["idle"], at_once=None))

        assert db.ask(flow.lanes(QUEUE)) == []

    def test_a_count_stops(self, db: Hand) -> None:
        fill_lane(db, "a", 4)

        [lane] = db.ask(flow.lanes(QUEUE, most=2))

        assert (lane.waiting, lane.more) == (2, True)


class TestPausedBy:
    def test_the_newest_pause_in_the_audit_says_who(self, db: Hand) -> None:
        for who, name, action in (("k1", "ana", "pause"), ("k2", "bia", "pause"), ("k3", "eva", "resume")):
            db.sql(
                "insert into retoma.audit (who, name, via, route, action, object_kind, object_id, outcome) "
                "values (%(who)s, %(name)s, 'http', 'r', %(action)s, 'queue', %(queue)s, 'done')",
                who=who, name=name, action=f"queue.{action}", queue=QUEUE,
            )  # fmt: skip

        assert db.ask(flow.paused_by([QUEUE, "other"])) == [(QUEUE, "bia")]
