"""Alerts: what a rule finds, one incident for it however many judge, and one sender for each message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from store_hand import QUEUE, Hand

from retoma.model.alert import Finding
from retoma.store import alerts, queues

LIMITS: dict[str, Any] = {
    "unserved_seconds": 120.0,
    "late_seconds": 600.0,
    "failed_seconds": 3600.0,
    "silent_seconds": 900.0,
    "stuck_jobs": 1,
}


def finding(subject: str = "mail", rule: str = "queue_late", severity: str = "warning") -> Finding:
    return Finding(rule, subject, severity, {"queue": subject, "due": 3, "seconds": 700})


def found(db: Hand) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each.rule, each.subject): each.facts for each in db.ask(alerts.judge(**LIMITS))}


@pytest.fixture
def other(hand: Callable[..., Hand]) -> Hand:
    """Another who judges or sends."""
    return hand()


@pytest.fixture
def opened(db: Hand) -> int:
    """An incident that is open."""
    return db.ask(alerts.note([finding()], quiet=60))[0].id


class TestJudge:
    def test_nothing_is_wrong_with_an_empty_house(self, db: Hand) -> None:
        assert found(db) == {}

    def test_a_queue_that_nobody_serves_is_found_after_a_while_and_a_paused_one_is_not(self, db: Hand) -> None:
        db.enqueue(3)
        assert found(db) == {}
        db.age(130)

        assert found(db)["queue_without_workers", QUEUE]["due"] == 3

        db.ask(queues.pause(QUEUE, reason="person"))
        assert found(db) == {}

    def test_a_queue_that_is_served_is_late_when_its_oldest_job_is_old(self, db: Hand) -> None:
        db.enqueue(2)
        db.age(700)
        db.hello()

        assert found(db).keys() == {("queue_late", QUEUE)}

    def test_jobs_of_a_silent_worker_are_stuck_and_it_is_named(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2)
        assert len(db.claim(worker, limit=2)) == 2
        db.age(200)

        seen = found(db)

        assert seen["jobs_stuck", ""] == {"jobs": 2}
        assert any(rule == "worker_silent" for rule, _ in seen)

    def test_jobs_that_failed_lately_are_counted_by_queue(self, db: Hand) -> None:
        db.enqueue(2)
        db.sql("update retoma.jobs set state = 'failed', finished_at = now()")

        assert found(db)["dead_letters", QUEUE]["jobs"] == 2

        db.age(4000)
        assert found(db) == {}

    def test_batches_that_stalled_or_spent_their_budget_are_named(self, db: Hand) -> None:
        db.sql(
            "insert into retoma.batches (name, pipeline, queue, lane_id, max_resumes, stall_seconds) "
            "values ('a', 'read', 'letters', 1, 3, 60), ('b', 'read', 'letters', 2, 3, 60)"
        )
        db.sql("set session_replication_role = replica")
        db.sql(
            "update retoma.batches set state = 'stalled', stalled_at = now(), cause = '{\"code\": \"no_workers\"}' "
            "where name = 'a'"
        )
        db.sql("update retoma.batches set state = 'paused', reason = 'budget', budget = 2, spent = 2 where name = 'b'")
        db.sql("reset session_replication_role")

        seen = {rule: facts for (rule, _), facts in found(db).items()}

        assert seen["batch_stalled"]["cause"] == "no_workers"
        assert (seen["budget_reached"]["spent"], seen["budget_reached"]["budget"]) == ("2", "2")


class TestNote:
    def test_an_incident_is_opened_once_and_resolved_when_it_is_not_found_for_a_while(self, db: Hand) -> None:
        first = db.ask(alerts.note([finding()], quiet=60))
        again = db.ask(alerts.note([finding()], quiet=60))
        soon = db.ask(alerts.note([], quiet=60))
        over = db.ask(alerts.note([], quiet=0))

        assert [(each.what, each.subject) for each in first] == [("opened", "mail")]
        assert (again, soon) == ([], [])
        assert [(each.what, each.id) for each in over] == [("resolved", first[0].id)]

    def test_what_comes_back_later_is_another_incident(self, db: Hand, opened: int) -> None:
        db.ask(alerts.note([], quiet=0))

        back = db.ask(alerts.note([finding()], quiet=0))

        assert back[0].id > opened

    def test_two_who_judge_at_the_same_time_open_one(self, db: Hand, other: Hand) -> None:
        db.begin()
        db.ask(alerts.note([finding()], quiet=60))
        waiting = other.start(alerts.note([finding()], quiet=60))
        other.waits_for(db, waiting)
        db.commit()

        assert waiting.result() == []
        assert len(db.ask(alerts.page(open=True))) == 1


class TestPlan:
    def test_a_message_for_each_channel_and_never_a_second(self, db: Hand, opened: int) -> None:
        first = db.ask(alerts.plan(["webhook", "email"], resolved=True))
        second = db.ask(alerts.plan(["webhook", "email"], resolved=True))

        assert (first, second) == ([opened, opened], [])

    def test_its_end_is_told_only_where_its_beginning_was(self, db: Hand, opened: int) -> None:
        db.ask(alerts.plan(["webhook", "email"], resolved=True))
        db.ask(alerts.delivered(opened, "email", "opened"))
        db.ask(alerts.note([], quiet=0))

        assert db.ask(alerts.plan(["webhook", "email"], resolved=False)) == []
        assert db.ask(alerts.plan(["webhook", "email"], resolved=True)) == [opened]


class TestTake:
    def test_two_senders_never_have_the_same_message(self, db: Hand, other: Hand, opened: int) -> None:
        db.ask(alerts.plan(["webhook"], resolved=False))

        db.begin()
        mine = db.ask(alerts.take(["webhook"], pause=60, most=3))
        theirs = other.ask(alerts.take(["webhook"], pause=60, most=3))
        db.commit()

        assert ([each.alert_id for each in mine], theirs) == ([opened], [])
        assert db.ask(alerts.take(["webhook"], pause=60, most=3)) == []

    def test_what_was_not_sent_is_due_again_and_given_up_in_the_end(self, db: Hand, opened: int) -> None:
        assert db.ask(alerts.plan(["webhook"], resolved=False)) == [opened]

        tries = [db.ask(alerts.take(["webhook"], pause=0, most=3)) for _ in range(4)]

        assert [[each.tries for each in took] for took in tries] == [[1], [2], [3], []]
        assert tries[0][0].facts["queue"] == "mail"


class TestDelivered:
    def test_what_was_sent_is_not_due_and_an_error_is_kept(self, db: Hand, opened: int) -> None:
        db.ask(alerts.plan(["email", "webhook"], resolved=False))

        db.ask(alerts.delivered(opened, "email", "opened"))
        db.ask(alerts.delivered(opened, "webhook", "opened", error="It answered 500."))

        (alert,) = db.ask(alerts.page())
        assert (alert.sent, alert.error) == (["email"], "It answered 500.")
        assert [each.channel for each in db.ask(alerts.take(["email", "webhook"], pause=0, most=3))] == ["webhook"]

    def test_a_sender_that_failed_late_does_not_send_again_what_another_has_sent(self, db: Hand, opened: int) -> None:
        db.ask(alerts.plan(["webhook"], resolved=False))
        db.ask(alerts.take(["webhook"], pause=0, most=3))
        db.ask(alerts.take(["webhook"], pause=0, most=3))
        db.ask(alerts.delivered(opened, "webhook", "opened"))

        db.ask(alerts.delivered(opened, "webhook", "opened", error="TimeoutError"))

        (alert,) = db.ask(alerts.page())
        assert (alert.sent, alert.error) == (["webhook"], None)
        assert db.ask(alerts.take(["webhook"], pause=0, most=3)) == []


class TestPage:
    def test_those_that_are_over_are_left_out_and_the_newest_comes_first(self, db: Hand) -> None:
        db.ask(alerts.note([finding("a")], quiet=60))
        db.ask(alerts.note([finding("b")], quiet=0))

        assert [(each.subject, each.state) for each in db.ask(alerts.page())] == [("b", "open"), ("a", "resolved")]
        assert [each.subject for each in db.ask(alerts.page(open=True))] == ["b"]
        newest = db.ask(alerts.page(limit=1))[0]
        assert [each.subject for each in db.ask(alerts.page(before=newest.id))] == ["a"]


class TestAcknowledge:
    def test_who_was_first_stays(self, db: Hand, opened: int) -> None:
        db.ask(alerts.acknowledge(opened, by="ana", note="I look"))
        db.ask(alerts.acknowledge(opened, by="bruno", note="I too"))

        (alert,) = db.ask(alerts.page(id=opened))
        assert (alert.acknowledged_by, alert.note, alert.state) == ("ana", "I look", "acknowledged")
        assert db.ask(alerts.acknowledge(opened + 1, by="ana")) == []


class TestPrune:
    def test_only_what_is_over_and_old_goes(self, db: Hand, opened: int) -> None:
        db.ask(alerts.plan(["email"], resolved=False))
        assert db.ask(alerts.prune(0, limit=10)) == []
        db.ask(alerts.note([], quiet=0))

        assert db.ask(alerts.prune(3600, limit=10)) == []
        assert db.ask(alerts.prune(0, limit=10)) == [opened]
