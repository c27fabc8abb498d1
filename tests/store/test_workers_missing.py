"""Workers of which no session is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from store_hand import Hand
from store_rounds import HERE, HINT, hold, look, miss, missing, worker

from retoma.store import workers
from retoma.system.process_identity import ProcessIdentity

Hands = Callable[..., Hand]


class TestMissing:
    def test_a_worker_whose_lock_somebody_holds_is_not_missed(self, db: Hand, hand: Hands) -> None:
        own, executor = hand(), hand()
        hold(own)
        hold(executor)
        worker(db)

        assert not look(db).missing
        own.close()  # one connection was cut
        assert not look(db).missing
        assert missing(db) == []

    def test_a_worker_without_a_hint_is_left_to_its_lease(self, db: Hand) -> None:
        worker(db, hint=None, where=ProcessIdentity())

        assert not look(db).missing
        assert missing(db) == []

    def test_one_of_which_no_session_is_left_is_missed_and_where_it_ran_is_told(self, db: Hand, hand: Hands) -> None:
        own = hand()
        hold(own)
        id = worker(db)
        own.close()
        self._until_gone(db)

        (found,) = missing(db)
        assert (found.id, found.where, found.gone) == (id, HERE, False)
        assert db.value("select missing_since is not null from retoma.workers")

    def test_another_machine_gives_it_up_after_a_while_and_not_before(self, db: Hand) -> None:
        worker(db)
        missing(db)

        miss(db, 2.0)
        assert not missing(db)[0].gone
        miss(db, 3.5)
        assert missing(db)[0].gone

    def test_not_by_a_connection_that_is_younger_than_its_last_heartbeat(self, db: Hand, hand: Hands) -> None:
        """The server may have been away: whoever was there before it went has lost its session, too."""
        worker(db)
        miss(db, 3.5)
        newcomer = hand()

        assert not missing(newcomer)[0].gone
        assert missing(db)[0].gone

    def test_not_when_a_third_machine_was_lost_at_about_the_same_time(self, db: Hand) -> None:
        worker(db)
        worker(db, HINT + 1)
        miss(db, 3.5)
        assert [each.gone for each in missing(db)] == [True, True], "two of one machine are one loss"

        worker(db, HINT + 2, ProcessIdentity("boot/4026531836/there", 4711, 123_456))
        miss(db, 3.5)
        assert [each.gone for each in missing(db)] == [False, False, False]

    def test_a_heartbeat_ends_it(self, db: Hand) -> None:
        id = worker(db)
        miss(db, 60)

        db.beat(id)
        assert not missing(db)[0].gone, "it counts from the beginning"

    @staticmethod
    def _until_gone(db: Hand) -> None:
        """A backend takes a moment to end after its client has gone."""
        held: Any = True
        while held:
            held = db.value(
                "select exists (select from pg_locks where locktype = 'advisory' and objsubid = 1"
                " and database = (select oid from pg_database where datname = current_database()))"
            )


class TestGiveUp:
    def test_who_is_given_up_loses_its_jobs_with_the_next_sweep_and_can_beat_no_more(self, db: Hand) -> None:
        id = worker(db)
        claim = db.claimed(id, max_attempts=2)
        found = missing(db)

        assert db.ask(workers.give_up(found)) == [id]
        (back,) = db.recover()

        assert (back.id, back.state, back.ending, back.crashes) == (claim.id, "queued", "lost", 1)
        assert [(each.ending, each.reason) for each in db.attempts(claim.id)] == [("lost", "gone")]
        assert db.value("select reason from retoma.workers") == "gone"
        assert db.beat(id) == []

    def test_who_beat_or_came_back_meanwhile_is_not_given_up(self, db: Hand, hand: Hands) -> None:
        id = worker(db)
        found = missing(db)

        db.beat(id)
        assert db.ask(workers.give_up(found)) == []

        found = missing(db)
        hold(hand())
        assert db.ask(workers.give_up(found)) == []
        assert db.beat(id) == [id]
