"""Webhooks: a message is written with what it tells of, taken by one, and settled once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
from store_hand import Hand
from store_rounds import worker

from retoma.store import webhooks
from retoma.store.webhooks import Message, Outcome

SCHEDULE = "retoma.deliver"
BATCH = """
insert into retoma.batches (name, pipeline, queue, lane_id, max_resumes, stall_seconds, total, unfinished, sealed_at)
values ('night', 'read', 'letters', 1, 1, 60, 8, 8, now()) returning id
"""
ALL = [
    "batch.started", "batch.progress_25", "batch.progress_50", "batch.progress_75", "batch.stalled", "batch.paused",
    "batch.resumed", "batch.completed", "batch.failed", "batch.cancelled", "budget.reached", "job.failed",
    "worker.lost",
]  # fmt: skip


def endpoint(db: Hand, id: str = "e1", kinds: list[str] | None = None) -> None:
    db.ask(webhooks.add(id, "https://example.org/in", description="", kinds=kinds or ALL, secret="whsec_eA=="))


def told(db: Hand) -> list[str]:
    return [
        kind for (kind,) in db.sql("select kind from retoma.webhook_deliveries order by body::json ->> 'timestamp'")
    ]


def batch(db: Hand) -> int:
    return int(db.value(BATCH))


def change(db: Hand, **values: Any) -> None:
    db.sql(f"update retoma.batches set {', '.join(f'{name} = {value}' for name, value in values.items())}")


def trial(db: Hand, id: str = "e1") -> str:
    return db.ask(webhooks.test(id))[0]


def taken(db: Hand, **options: Any) -> list[Message]:
    return db.ask(webhooks.take(lease=120.0, **options))


class TestMessages:
    """What the triggers of revisions 0040 and 0041 write."""

    def test_a_batch_tells_how_it_goes_and_each_quarter_once(self, db: Hand) -> None:
        endpoint(db)
        batch(db)

        change(db, state="'running'", was="'queued'")
        for left in (7, 6, 5, 4, 1):
            change(db, unfinished=left)
        change(db, state="'stalled'", was="'running'", stalled_at="now()")
        change(db, state="'running'", was="'stalled'", stalled_at="null")
        change(db, state="'paused'", was="'running'", reason="'budget'")
        change(db, state="'running'", was="'paused'", reason="null")
        change(db, state="'completed'", was="'running'", unfinished=0, finished_at="now()")

        assert told(db) == [
            "batch.started", "batch.progress_25", "batch.progress_50", "batch.progress_75", "batch.stalled",
            "batch.resumed", "budget.reached", "batch.resumed", "batch.completed",
        ]  # fmt: skip

    def test_a_batch_that_is_cancelled_has_not_progressed(self, db: Hand) -> None:
        endpoint(db)
        batch(db)

        change(db, state="'cancelled'", was="'queued'", unfinished=0, finished_at="now()")

        assert told(db) == ["batch.cancelled"]

    def test_a_change_that_is_rolled_back_tells_nothing(self, db: Hand) -> None:
        endpoint(db)
        batch(db)

        db.begin()
        change(db, state="'running'", was="'queued'")
        db.sql("rollback")

        assert told(db) == []

    def test_bodies_are_small_and_hold_no_content(self, db: Hand) -> None:
        endpoint(db)
        batch(db)
        change(db, name="repeat('n', 100000)", state="'running'", was="'queued'")
        [id] = db.enqueue()
        db.sql("update retoma.jobs set input = '\"SECRET\"', error = 'SECRET', state = 'failed', finished_at = now()")

        bodies = [body for (body,) in db.sql("select body from retoma.webhook_deliveries order by kind")]

        assert [json.loads(body)["type"] for body in bodies] == ["batch.started", "job.failed"]
        assert json.loads(bodies[1])["data"]["job_id"] == id
        assert all(len(body) < 20_000 and "SECRET" not in body for body in bodies)
        assert json.loads(bodies[0]).keys() == {"type", "timestamp", "data"}

    def test_the_houses_own_jobs_tell_nothing(self, db: Hand) -> None:
        endpoint(db)
        db.enqueue()
        db.sql("update retoma.jobs set queue = 'retoma', state = 'failed', finished_at = now()")

        assert told(db) == []

    def test_each_endpoint_gets_what_it_wants_and_a_disabled_one_nothing(self, db: Hand) -> None:
        endpoint(db, "e1", ["batch.started"])
        endpoint(db, "e2", ["batch.completed"])
        endpoint(db, "e3", ["batch.started"])
        db.ask(webhooks.disable("e3", reason="asked"))
        batch(db)

        change(db, state="'running'", was="'queued'")

        assert db.sql("select endpoint_id from retoma.webhook_deliveries") == [("e1",)]


class TestAdd:
    def test_it_is_told_without_its_secret(self, db: Hand) -> None:
        endpoint(db)

        [made] = db.ask(webhooks.all())

        assert (made.id, made.waiting, made.disabled_at) == ("e1", 0, None)
        assert "whsec" not in str(made)


class TestAll:
    def test_it_counts_what_waits_and_what_failed(self, db: Hand) -> None:
        endpoint(db)
        trial(db)
        trial(db)
        [first, _] = taken(db)
        db.ask(webhooks.settle(first, Outcome(arrived=False, status=500)))

        [found] = db.ask(webhooks.all("e1"))

        assert (found.waiting, found.failed) == (1, 1)
        assert db.ask(webhooks.all("other")) == []


class TestRotate:
    def test_both_secrets_sign_until_the_grace_is_over(self, db: Hand) -> None:
        endpoint(db)
        trial(db)
        db.ask(webhooks.rotate("e1", "whsec_eQ==", grace=60.0))

        [message] = taken(db)

        assert (message.secret, message.previous_secret) == ("whsec_eQ==", "whsec_eA==")
        db.sql("update retoma.webhook_endpoints set previous_until = now()")
        db.sql("update retoma.webhook_deliveries set next_at = now()")
        assert taken(db)[0].previous_secret is None


class TestDisable:
    def test_what_waits_is_kept_and_not_taken(self, db: Hand) -> None:
        endpoint(db)
        trial(db)

        assert db.ask(webhooks.disable("e1", reason="asked")) == ["e1"]

        assert taken(db) == []
        assert db.ask(webhooks.all())[0].waiting == 1


class TestEnable:
    def test_what_waited_is_due(self, db: Hand) -> None:
        endpoint(db)
        trial(db)
        db.sql("update retoma.webhook_deliveries set next_at = now() + interval '1 day'")
        db.ask(webhooks.disable("e1", reason="asked"))

        assert db.ask(webhooks.enable("e1")) == ["e1"]
        assert len(taken(db)) == 1


class TestRemove:
    def test_its_log_goes_with_it(self, db: Hand) -> None:
        endpoint(db)
        trial(db)
        [message] = taken(db)
        db.ask(webhooks.settle(message, Outcome(arrived=True, status=200)))

        assert db.ask(webhooks.remove("e1")) == ["e1"]
        assert db.sql("select from retoma.webhook_deliveries union all select from retoma.webhook_attempts") == []


class TestTest:
    def test_it_writes_a_message_to_that_endpoint(self, db: Hand) -> None:
        endpoint(db)

        assert trial(db).startswith("msg_")
        assert db.ask(webhooks.test("other")) == []


class TestAnybody:
    def test_an_endpoint_that_is_disabled_is_nobody(self, db: Hand) -> None:
        assert db.ask(webhooks.anybody()) == [False]
        endpoint(db)
        assert db.ask(webhooks.anybody()) == [True]
        db.sql("update retoma.webhook_endpoints set disabled_at = now(), disabled_reason = 'asked'")
        assert db.ask(webhooks.anybody()) == [False]


class TestLost:
    def test_a_worker_that_is_lost_is_told_once_and_one_that_stops_is_not(self, db: Hand) -> None:
        endpoint(db)
        lost, stopped = worker(db), worker(db)
        db.sql(f"update retoma.workers set stopped_at = now() where id = {stopped}")
        db.sql(f"update retoma.workers set stopped_at = now(), reason = 'gone' where id = {lost}")

        assert len(db.ask(webhooks.lost())) == 1
        assert db.ask(webhooks.lost()) == []
        assert told(db) == ["worker.lost"]


class TestHurry:
    def test_one_job_is_queued_when_something_is_due(self, db: Hand) -> None:
        db.sql(
            "insert into retoma.schedules (name, pipeline, queue, cron, zone, input, max_attempts, timeout_seconds,"
            f" next_run_at) values ('{SCHEDULE}', '{SCHEDULE}', 'retoma', '0 4 * * *', 'UTC', 'null', 1, 60, now())"
        )
        endpoint(db)
        assert db.ask(webhooks.hurry(SCHEDULE)) == []
        trial(db)

        assert len(db.ask(webhooks.hurry(SCHEDULE))) == 1
        assert db.ask(webhooks.hurry(SCHEDULE)) == []


class TestTake:
    def test_a_message_is_taken_by_one_and_is_due_again_after_the_lease(self, db: Hand) -> None:
        endpoint(db)
        id = trial(db)

        [first] = taken(db)

        assert (first.id, first.attempt) == (id, 1)
        assert taken(db) == []
        db.sql("update retoma.webhook_deliveries set next_at = now()")
        assert [(each.id, each.attempt) for each in taken(db)] == [(id, 2)]

    def test_two_at_the_same_moment_take_different_ones(self, hand: Callable[..., Hand]) -> None:
        db, other = hand(), hand()
        endpoint(db)
        trial(db)
        trial(db)

        db.begin()
        mine = taken(db, limit=1)
        theirs = taken(other)
        db.sql("commit")

        assert len(mine) == len(theirs) == 1
        assert mine[0].id != theirs[0].id

    def test_a_few_of_each_endpoint(self, db: Hand) -> None:
        endpoint(db, "e1")
        endpoint(db, "e2")
        for _ in range(3):
            trial(db, "e1")
        trial(db, "e2")

        assert sorted(each.endpoint_id for each in taken(db, each=2)) == ["e1", "e1", "e2"]


class TestSettle:
    def test_what_arrived_ends_and_is_in_the_log(self, db: Hand) -> None:
        endpoint(db)
        trial(db)
        [message] = taken(db)

        db.ask(webhooks.settle(message, Outcome(arrived=True, status=204, seconds=0.5)))

        [found] = db.ask(webhooks.deliveries())
        assert (found.state, found.status, found.attempts) == ("delivered", 204, 1)
        assert [(each.attempt, each.status) for each in db.ask(webhooks.attempts(message.id))] == [(1, 204)]

    def test_the_last_failure_disables_an_endpoint_where_nothing_arrives(self, db: Hand) -> None:
        endpoint(db)
        trial(db)
        [message] = taken(db)
        [later] = db.ask(webhooks.settle(message, Outcome(arrived=False, status=500, delay=0.0)))
        assert not later.disabled
        [message] = taken(db)

        [settled] = db.ask(webhooks.settle(message, Outcome(arrived=False, status=500)))

        assert settled.disabled
        assert db.ask(webhooks.all())[0].disabled_reason == "failing"

    def test_it_is_not_disabled_when_another_message_arrived_meanwhile(self, db: Hand) -> None:
        endpoint(db)
        trial(db)
        trial(db)
        first, second = taken(db)
        db.ask(webhooks.settle(second, Outcome(arrived=True, status=200)))

        [settled] = db.ask(webhooks.settle(first, Outcome(arrived=False, status=500)))

        assert not settled.disabled

    def test_who_held_it_too_long_changes_nothing_but_the_log(self, db: Hand) -> None:
        endpoint(db)
        trial(db)
        [late] = taken(db)
        db.sql("update retoma.webhook_deliveries set next_at = now()")
        taken(db)

        assert db.ask(webhooks.settle(late, Outcome(arrived=False, status=500))) == []

        assert db.ask(webhooks.deliveries())[0].state == "pending"
        assert [each.attempt for each in db.ask(webhooks.attempts(late.id))] == [1]


class TestReplay:
    def test_it_keeps_its_id_and_begins_anew(self, db: Hand) -> None:
        endpoint(db)
        id = trial(db)
        [message] = taken(db)
        db.ask(webhooks.settle(message, Outcome(arrived=True, status=200)))

        assert db.ask(webhooks.replay(id)) == [id]

        [again] = taken(db)
        assert (again.id, again.attempt, again.tries) == (id, 2, 1)


class TestDeliveries:
    def test_newest_first_and_page_by_page(self, db: Hand) -> None:
        endpoint(db)
        ids = [trial(db) for _ in range(3)]

        first = db.ask(webhooks.deliveries(endpoint_id="e1", limit=2))
        rest = db.ask(webhooks.deliveries(before=(first[-1].created_at, first[-1].id)))

        assert [each.id for each in [*first, *rest]] == ids[::-1]
        assert db.ask(webhooks.deliveries(state="failed")) == []


class TestAttempts:
    def test_a_message_that_was_not_sent_has_none(self, db: Hand) -> None:
        endpoint(db)

        assert db.ask(webhooks.attempts(trial(db))) == []


class TestPrune:
    def test_what_ended_long_ago_goes_with_its_log(self, db: Hand) -> None:
        endpoint(db)
        id = trial(db)
        [message] = taken(db)
        db.ask(webhooks.settle(message, Outcome(arrived=True, status=200)))
        assert db.ask(webhooks.prune(60.0)) == []
        db.sql("update retoma.webhook_deliveries set ended_at = now() - interval '2 minutes'")

        assert db.ask(webhooks.prune(60.0)) == [id]
        assert db.ask(webhooks.attempts(id)) == []


def test_a_role_that_may_not_write_messages_writes_them_by_what_it_changes(parts: dict[str, str]) -> None:
    """The triggers run as the owner."""
    with psycopg.connect(parts["admin"], autocommit=True) as admin, psycopg.connect(parts["worker"]) as part:
        admin.execute(
            "insert into retoma.webhook_endpoints (id, url, kinds, secret) values ('e', 'https://x', %s, 's')", [ALL]
        )
        [[id]] = admin.execute(BATCH).fetchall()

        part.execute("update retoma.batches set state = 'running', was = 'queued' where id = %s", [id])
        part.commit()

        assert admin.execute("select kind from retoma.webhook_deliveries").fetchall() == [("batch.started",)]
