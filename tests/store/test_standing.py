"""How things stand, for the audit: what anybody may know who may look, and never an input, a text or a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from store_hand import Hand

from retoma.model.alert import Finding
from retoma.model.operation import JobFilter
from retoma.model.review import Doubt
from retoma.store import (
    alerts,
    batches,
    keys,
    operations,
    queues,
    reviews,
    sessions,
    standing,
    users,
    views,
    webhooks,
    workers,
)
from retoma.store.batches import NewBatch
from retoma.store.query import Query
from retoma.store.sessions import NewSession


def stands(db: Hand, ask: Callable[[str], Query[str]], id: object) -> dict[str, Any]:
    """How it stands; one that is not there, or whose id makes no sense, gives nothing."""
    for nobody in ("999999", "99999999999999999999", "no-such-thing", "00000000-0000-4000-8000-000000000000", ""):
        assert db.ask(ask(nobody)) == []
    [text] = db.ask(ask(str(id)))
    assert "SECRET" not in text
    found: dict[str, Any] = json.loads(text)
    return found


class TestBatch:
    def test_its_state_its_name_and_its_limits(self, db: Hand) -> None:
        new = NewBatch(
            name="x",
            pipeline="read",
            queue="q",
            at_once=None,
            route=None,
            labels="{}",
            configuration='{"prompt": "SECRET"}',
            correlation_id=None,
            max_resumes=3,
            max_failure_rate=None,
            budget=None,
            stall_seconds=60.0,
            expires=3600.0,
        )
        [id] = db.ask(batches.create(new))

        found = stands(db, standing.batch, id)

        assert (found["state"], found["name"]) == ("queued", "x")


class TestJob:
    def test_its_state_and_not_its_input(self, db: Hand) -> None:
        [id] = db.enqueue()
        db.sql("update retoma.jobs set input = '\"SECRET\"', key = 'a'")

        assert stands(db, standing.job, id)["state"] == "queued"


class TestQueue:
    def test_whether_it_rests_and_why(self, db: Hand) -> None:
        db.ask(queues.pause("letters", reason="because"))

        assert stands(db, standing.queue, "letters")["reason"] == "because"


class TestSchedule:
    def test_when_it_comes_and_not_its_input(self, db: Hand) -> None:
        db.sql(
            "insert into retoma.schedules (name, pipeline, queue, cron, zone, input, max_attempts, timeout_seconds,"
            " next_run_at) values ('s', 'read', 'q', '0 4 * * *', 'UTC', '\"SECRET\"', 1, 60, now())"
        )

        assert stands(db, standing.schedule, "s")["cron"] == "0 4 * * *"


class TestLimit:
    def test_what_is_allowed(self, db: Hand) -> None:
        db.sql("insert into retoma.limits (name, requests) values ('p/m', 7)")

        assert stands(db, standing.limit, "p/m")["requests"] == 7


class TestKey:
    def test_what_it_allows_and_never_its_hash(self, db: Hand) -> None:
        db.ask(keys.create("k1", "mine", b"SECRET", scopes=["read"], pipelines=None, expires=None))

        assert stands(db, standing.key, "k1")["scopes"] == ["read"]


class TestSession:
    def test_what_it_was_opened_with_and_never_its_hash(self, db: Hand) -> None:
        db.ask(sessions.open(NewSession("s1", b"SECRET", "token", None, None, b"SECRET", None, None, None, 60.0)))

        assert stands(db, standing.session, "s1")["opened_by"] == "token"


class TestOperation:
    def test_what_it_does_to_which_jobs_and_how_far_it_is(self, db: Hand) -> None:
        which = JobFilter(states=("failed",), pipeline="read")
        [id] = db.ask(operations.begin_by_filter("retry", which, "{}", asked_by="ana", wanted=3, exact=True))

        found = stands(db, standing.operation, id)

        assert (found["kind"], found["filter"]["pipeline"], found["wanted"], found["done"]) == ("retry", "read", 3, 0)


class TestView:
    def test_its_name_and_whether_it_is_shared(self, db: Hand) -> None:
        [view] = db.ask(views.keep("late", page="errors", query="q=SECRET", owner="ana", shared=True))

        found = stands(db, standing.view, view.id)

        assert (found["name"], found["page"], found["shared"]) == ("late", "errors", True)


class TestWorker:
    def test_how_many_run_under_its_label_and_were_asked_to_end(self, db: Hand) -> None:
        db.hello("ana")
        db.ask(workers.drain("ana"))

        assert stands(db, standing.worker, "ana") == {"executors": 1, "asked_to_end": 1}


class TestReview:
    def test_its_state_and_not_its_proposal(self, db: Hand) -> None:
        doubt = Doubt(item="7", pipeline="letters", since=datetime.now(UTC), proposal='"SECRET"', title="SECRET")
        [id] = db.ask(reviews.file("letters", [doubt]))

        found = stands(db, standing.review, id)

        assert (found["state"], found["pipeline"], found["item"]) == ("open", "letters", "7")


class TestUser:
    def test_what_somebody_is_and_never_their_hash(self, db: Hand) -> None:
        db.ask(users.add("u1", "ana", "admin", "SECRET"))

        assert stands(db, standing.user, "u1")["role"] == "admin"


class TestWebhook:
    def test_where_it_goes_and_never_its_secret(self, db: Hand) -> None:
        db.ask(webhooks.add("e1", "https://x/?t=SECRET", description="", kinds=["job.failed"], secret="SECRET"))

        assert stands(db, standing.webhook, "e1")["url"] == "https://x/"


class TestDelivery:
    def test_how_it_stands_and_not_its_body(self, db: Hand) -> None:
        db.ask(webhooks.add("e1", "https://x", description="", kinds=["job.failed"], secret="SECRET"))
        [id] = db.ask(webhooks.test("e1"))

        assert stands(db, standing.delivery, id)["state"] == "pending"


class TestAlert:
    def test_what_it_is_about_and_who_looks_after_it(self, db: Hand) -> None:
        (opened,) = db.ask(alerts.note([Finding("queue_late", "mail", "warning", {})], quiet=60))
        db.ask(alerts.acknowledge(opened.id, by="ana"))

        stood = stands(db, standing.alert, str(opened.id))
        assert (stood["rule"], stood["subject"], stood["acknowledged_by"]) == ("queue_late", "mail", "ana")
