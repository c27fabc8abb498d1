"""How the database is doing, for the doctor; and who is in the way of an upgrade."""

from __future__ import annotations

from collections.abc import Callable

from store_hand import QUEUE, Hand, failed

from retoma.postgres.migrate import HEAD
from retoma.store import health, queues


class TestLook:
    def test_one_look_says_what_the_server_is_and_what_waits(self, db: Hand) -> None:
        worker, silent = db.hello(), db.hello()
        db.silence(silent)
        db.end(worker, failed(db.claimed(worker), again=False))
        db.one_job()
        db.age(30)
        db.beat(worker)

        [look] = db.ask(health.look())

        assert (look.fsync, look.full_page_writes, look.standby) == (True, True, False)
        assert (look.workers_alive, look.workers_silent, look.failed_jobs) == (1, 1, 1)
        assert look.oldest_due_seconds is not None
        assert look.oldest_due_seconds >= 30

    def test_a_paused_queue_is_counted_and_its_jobs_are_not_late(self, db: Hand) -> None:
        db.one_job()
        db.age(30)
        db.ask(queues.pause(QUEUE, reason="person"))

        [look] = db.ask(health.look())

        assert (look.queues_paused, look.oldest_due_seconds) == (1, None)

    def test_a_transaction_that_somebody_left_open_is_named(self, hand: Callable[..., Hand]) -> None:
        one, two = hand(), hand()
        one.begin()
        one.one_job()

        [look] = two.ask(health.look())

        assert (look.transaction_pid, look.transaction_name) == (one.pid, "retoma")
        assert look.transaction_seconds is not None


class TestHolders:
    def test_a_session_that_waits_for_a_table_is_told_which_and_who_has_it(self, hand: Callable[..., Hand]) -> None:
        one, two, three = hand(), hand(), hand()
        one.begin()
        one.sql("lock table retoma.jobs in share mode")
        two.begin()
        two.waits_for(one, two.start(lambda: two.sql("lock table retoma.jobs")))

        [holder] = three.ask(health.holders(two.pid))

        assert (holder.what, holder.pid, holder.name) == ("retoma.jobs", one.pid, "retoma")
        assert holder.state == "idle in transaction"
        assert holder.seconds is not None

    def test_nobody_is_in_the_way_of_one_that_does_not_wait(self, hand: Callable[..., Hand]) -> None:
        one, two = hand(), hand()
        one.begin()
        one.sql("lock table retoma.jobs in share mode")

        assert two.ask(health.holders(one.pid)) == []

    def test_who_waits_to_change_the_tables_is_told_who_changes_them(self, hand: Callable[..., Hand]) -> None:
        one, two, three = hand(), hand(), hand()
        one.begin()
        one.sql("select pg_advisory_xact_lock(1)")
        two.waits_for(one, two.start(lambda: two.sql("select pg_advisory_xact_lock(1)")))

        [holder] = three.ask(health.holders(two.pid))

        assert (holder.what, holder.pid) == ("the right to change the tables", one.pid)


class TestOverstays:
    def test_nothing_is_past_its_time_in_an_empty_database(self, db: Hand) -> None:
        assert {each.seconds for each in db.ask(health.overstays(0.0))} == {0.0}

    def test_each_kind_says_for_how_long_its_oldest_is_past_its_time(self, db: Hand) -> None:
        worker = db.hello()
        db.end(worker, failed(db.claimed(worker), again=False))
        db.age(3600)

        found = {each.kind: each.seconds for each in db.ask(health.overstays(600.0))}

        assert list(found) == ["jobs", "batches", "calls", "replies", "workers"]
        assert 3000 <= found.pop("jobs") < 3600
        assert set(found.values()) == {0.0}


class TestSizes:
    def test_the_largest_tables_come_first(self, db: Hand) -> None:
        found = db.ask(health.sizes(["retoma"], limit=3))

        assert len(found) == 3
        assert [each.bytes for each in found] == sorted((each.bytes for each in found), reverse=True)
        assert all(each.name.startswith("retoma.") for each in found)


class TestRevision:
    def test_the_tables_are_at_the_newest_revision(self, db: Hand) -> None:
        [found] = db.ask(health.revision())

        assert found.revision == HEAD
        assert found.bytes > 1_000_000
