"""How things stand, for the audit: what anybody may know who may look, and never an input, a text or a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from store_hand import Hand

from retoma.store import batches, keys, queues, sessions, standing
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
        db.ask(sessions.open(NewSession("s1", b"SECRET", "token", None, b"SECRET", None, None, None, 60.0)))

        assert stands(db, standing.session, "s1")["opened_by"] == "token"
