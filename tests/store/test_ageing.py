"""How tests let time pass, and see how far the work has come."""

from __future__ import annotations

from store_hand import LEASE, Hand, completed

from retoma.store import ageing, checkpoints


class TestAge:
    def test_a_job_s_past_moves_back_with_all_that_belongs_to_it(self, db: Hand) -> None:
        worker = db.hello()
        id = db.one_job(delay=90.0, expires=500.0)

        assert db.ask(ageing.age(id, 100.0)) == [id]

        assert -20 < db.seconds_until("run_at", id) < 0
        assert 480 < db.seconds_until("expires_at", id) <= 490
        [claim] = db.claim(worker)
        db.save(worker, claim)
        db.end(worker, completed(claim))
        db.ask(ageing.age(id, 100.0))
        assert db.ask(checkpoints.of(id))[0].age >= 100
        assert db.seconds_until("finished_at", id) <= -100
        assert db.value("select extract(epoch from now() - ended_at) from retoma.attempts") >= 100

    def test_the_worker_that_holds_it_has_been_silent_just_as_long(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        claim = db.claimed(worker)

        db.ask(ageing.age(claim.id, LEASE + 1))

        assert db.seconds_until("lease_expires_at", worker, "workers") < 0
        assert db.seconds_until("lease_expires_at", other, "workers") > 0
        assert [each.id for each in db.recover()] == [claim.id]

    def test_the_grace_of_a_server_that_has_just_started_counts_as_past(self, db: Hand) -> None:
        worker = db.hello(lease=86_400 * 365)
        claim = db.claimed(worker)
        db.sql("set search_path = public")  # the server's real start

        db.ask(ageing.age(claim.id, 86_400 * 366))

        assert [each.id for each in db.recover()] == [claim.id]

    def test_other_jobs_stay_in_their_time_unless_all_are_meant(self, db: Hand) -> None:
        one, two = db.enqueue(2, delay=500.0)

        db.ask(ageing.age(one, 100.0))
        assert db.seconds_until("run_at", two) > 400

        assert db.ask(ageing.age(None, 100.0)) == [one, two]
        assert db.seconds_until("run_at", two) <= 400


class TestTally:
    def test_what_has_ended_was_saved_and_is_left(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(3)
        one, _ = db.claim(worker, 2)
        db.save(worker, one, "a")
        db.save(worker, one, "b")
        db.end(worker, completed(one))

        [tally] = db.ask(ageing.tally())

        assert (tally.ended, tally.saved, tally.left) == (1, 2, 2)
