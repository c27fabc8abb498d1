"""What the tables say for the metrics."""

from __future__ import annotations

from store_hand import QUEUE, Hand, failed

from retoma.store import figures, queues


def told(db: Hand, *, most: int = figures.MOST) -> dict[tuple[str, ...], float]:
    return {(each.name.removeprefix("retoma_"), *each.labels): each.value for each in db.ask(figures.look(most=most))}


class TestLook:
    def test_jobs_are_counted_by_queue_and_state(self, db: Hand) -> None:
        worker = db.hello()
        db.end(worker, failed(db.claimed(worker), again=False))
        claim = db.claimed(worker)
        db.save(worker, claim, "page/3")
        db.enqueue(3)
        db.one_job(delay=3600.0)

        found = told(db)

        assert {key: found[key] for key in found if key[0] == "queue_depth"} == {
            ("queue_depth", QUEUE, "ready"): 3,
            ("queue_depth", QUEUE, "scheduled"): 1,
            ("queue_depth", QUEUE, "running"): 1,
        }
        assert found["dead_letter_jobs", QUEUE] == 1
        assert found["jobs_at_checkpoint", claim.pipeline, "page/*"] == 1
        assert found["workers", QUEUE, "live"] == 1

    def test_the_oldest_ready_job_has_an_age_and_a_scheduled_one_has_none(self, db: Hand) -> None:
        db.one_job(delay=3600.0)
        assert ("queue_oldest_age_seconds", QUEUE) not in told(db)

        db.one_job()
        db.age(30)

        assert told(db)["queue_oldest_age_seconds", QUEUE] >= 30

    def test_a_running_job_of_a_silent_worker_is_stuck(self, db: Hand) -> None:
        worker = db.hello()
        db.claimed(worker)
        before = told(db)
        db.silence(worker)

        after = told(db)

        assert (before["stuck_jobs", QUEUE], after["stuck_jobs", QUEUE]) == (0, 1)
        assert after["workers", QUEUE, "silent"] == 1

    def test_a_queue_that_has_jobs_and_no_worker_has_none_that_is_live(self, db: Hand) -> None:
        db.one_job()

        assert told(db)["workers", QUEUE, "live"] == 0

    def test_a_queue_that_is_served_and_empty_has_a_depth_of_nought(self, db: Hand) -> None:
        worker = db.hello()

        empty = told(db)
        db.claimed(worker)
        running = told(db)
        db.enqueue(2)
        full = told(db)

        assert {key: empty[key] for key in empty if key[0] == "queue_depth"} == {("queue_depth", QUEUE, "ready"): 0}
        assert running["queue_depth", QUEUE, "ready"] == 0
        assert full["queue_depth", QUEUE, "ready"] == 2

    def test_a_long_queue_is_read_to_the_bound_and_no_further(self, db: Hand) -> None:
        db.enqueue(30)

        assert told(db, most=10)["queue_depth", QUEUE, "ready"] == 10

    def test_jobs_of_a_closed_lane_are_held(self, db: Hand) -> None:
        (lane,) = db.lanes("tenant")
        db.one_job(lane="tenant")
        db.sql("update retoma.lanes set closed_at = now() where id = %(id)s", id=lane)

        found = told(db)

        assert found["queue_depth", QUEUE, "held"] == 1
        assert ("queue_oldest_age_seconds", QUEUE) not in found

    def test_an_open_breaker_is_two(self, db: Hand) -> None:
        db.sql("insert into retoma.limits (name, opened_until) values ('a', now() + interval '1 hour'), ('b', null)")

        found = told(db)

        assert (found["breaker_state", "a"], found["breaker_state", "b"]) == (2, 0)

    def test_nothing_is_told_of_an_empty_database(self, db: Hand) -> None:
        assert told(db) == {}
        assert db.ask(queues.all()) == []
