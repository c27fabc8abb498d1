"""Rounds that one of a fleet makes for all."""

from __future__ import annotations

from collections.abc import Callable

from store_hand import LEASE, Hand
from store_rounds import look, worker

from retoma.store import duties
from retoma.store.duties import Due

Hands = Callable[..., Hand]


class TestLook:
    def test_a_round_belongs_to_whoever_looks_first(self, db: Hand, hand: Hands) -> None:
        other = hand()

        assert look(db, "look_after", "mend").rounds == ["look_after", "mend"]
        assert look(other, "look_after", "mend", by="bruno").rounds == []
        assert db.sql("select name, taken_by from retoma.duties order by name") == [
            ("judge_alerts", None), ("look_after", "ana"), ("mend", "ana"), ("rest_lanes", None),
            ("send_alerts", None), ("sweep", "ana"),
            ("webhooks", None),
        ]  # fmt: skip

    def test_a_round_that_somebody_is_just_taking_is_not_waited_for(self, db: Hand, hand: Hands) -> None:
        other = hand()
        with db.connection.transaction():
            look(db, "mend")

            assert look(other, "mend", by="bruno").rounds == []

    def test_it_is_due_again_after_the_seconds_of_the_one_who_asks(self, db: Hand) -> None:
        look(db, "mend")
        db.sql("update retoma.duties set last_at = last_at - interval '10 s'")

        assert look(db, "mend", seconds=30).rounds == []
        assert look(db, "mend", seconds=10).rounds == ["mend"]

    def test_a_round_that_failed_is_another_ones_at_once(self, db: Hand) -> None:
        look(db, "mend")

        assert db.ask(duties.leave("mend", taken_by="bruno")) == []
        assert db.ask(duties.leave("mend", taken_by="ana")) == ["mend"]
        assert look(db, "mend", by="bruno").rounds == ["mend"]

    def test_nothing_is_written_while_nothing_is_due(self, db: Hand) -> None:
        look(db, "mend")
        rows = "select name, ctid::text, xmax::text from retoma.duties order by name"
        before = db.sql(rows)

        assert look(db, "mend") == Due([], False, False, False, 0, None, False)
        assert db.sql(rows) == before, "a row was locked or written anew"

    def test_it_tells_what_there_is_to_sweep(self, db: Hand) -> None:
        assert not look(db).sweep
        silent = db.hello()
        assert not look(db).sweep

        db.silence(silent)
        assert look(db).sweep

        db.recover()
        assert not look(db).sweep
        db.enqueue(1, expires=-1.0)
        assert look(db).sweep

    def test_a_stopped_worker_that_still_holds_a_job_is_found_with_the_next_sweep(self, db: Hand) -> None:
        holder = db.hello()
        db.claimed(holder)
        db.sql("update retoma.workers set stopped_at = now(), lease_expires_at = now()")

        assert look(db, every=0.0).sweep

    def test_it_tells_when_the_first_lease_is_over(self, db: Hand) -> None:
        worker(db, lease=20.0)
        worker(db, lease=60.0)

        due = look(db)

        assert due.workers == 2
        assert due.next_lease is not None
        assert 15 < due.next_lease <= 20

    def test_it_tells_of_a_schedule_whose_time_has_come(self, db: Hand) -> None:
        schedule = (
            "insert into retoma.schedules (name, pipeline, queue, cron, zone, input, max_attempts, timeout_seconds,"
            " next_run_at) values (%(name)s, 'read', 'letters', '* * * * *', 'UTC', '1', 1, 1, now() + %(ahead)s)"
        )
        db.sql(schedule, name="later", ahead="1 hour")
        assert not look(db).fire

        db.sql(schedule, name="now", ahead="-1 s")
        assert look(db).fire

    def test_the_look_that_finds_an_outage_spares_everybody(self, db: Hand) -> None:
        holder = worker(db)
        look(db)
        db.age(LEASE + 30)
        db.sql("update retoma.duties set last_at = now() - make_interval(secs => %(ago)s)", ago=LEASE + 25)

        assert look(db).swept
        assert db.seconds_until("lease_expires_at", holder, "workers") > LEASE / 2
        assert db.recover() == []

    def test_the_clock_of_a_server_that_took_over_may_be_behind(self, db: Hand) -> None:
        look(db)
        db.sql("update retoma.duties set last_at = now() + interval '1 hour'")

        assert look(db).swept


class TestLeave:
    def test_a_round_that_could_not_be_made_is_due_for_somebody_else(self, db: Hand, hand: Hands) -> None:
        other = hand()
        look(db, "mend")

        assert other.ask(duties.leave("mend", taken_by="bruno")) == [], "only whoever took it leaves it"
        assert look(other, "mend", by="bruno").rounds == []
        assert db.ask(duties.leave("mend", taken_by="ana")) == ["mend"]
        assert look(other, "mend", by="bruno").rounds == ["mend"]


class TestAll:
    def test_every_duty_says_when_it_was_done_and_by_whom(self, db: Hand) -> None:
        look(db, "mend")

        found = {each.name: each for each in db.ask(duties.all())}

        assert found["mend"].taken_by == "ana"
        assert found["mend"].last_at is not None
        assert found["rest_lanes"].last_at is None
