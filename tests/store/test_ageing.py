"""How tests let time pass, and see how far the work has come."""

from __future__ import annotations

import threading

import psycopg
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

    def test_nobody_spares_it_because_nobody_looked_meanwhile(self, db: Hand) -> None:
        claim = db.claimed(db.hello())
        db.recover()
        db.sql("update retoma.duties set last_at = now() - interval '1 minute'")

        db.ask(ageing.age(claim.id, LEASE + 1))

        assert [each.id for each in db.recover()] == [claim.id]

    def test_other_jobs_stay_in_their_time_unless_all_are_meant(self, db: Hand) -> None:
        one, two = db.enqueue(2, delay=500.0)

        db.ask(ageing.age(one, 100.0))
        assert db.seconds_until("run_at", two) > 400

        assert db.ask(ageing.age(None, 100.0)) == [one, two]
        assert db.seconds_until("run_at", two) <= 400


class TestHeld:
    def test_a_job_is_held_while_a_session_of_its_worker_is_there(self, db: Hand, room: str) -> None:
        worker = db.hello()
        db.sql(f"update retoma.workers set hint = 4711 where id = {worker}")
        claim = db.claimed(worker)
        waiting = db.one_job()

        with psycopg.connect(room) as session:
            session.execute("select pg_advisory_lock_shared(4711)")
            assert [(each.job_id, each.worker_id) for each in db.ask(ageing.held(None))] == [(claim.id, worker)]
            assert [each.job_id for each in db.ask(ageing.held(claim.id))] == [claim.id]
            assert db.ask(ageing.held(waiting)) == []
            session.execute("select pg_advisory_unlock_shared(4711)")
            assert db.ask(ageing.held(None)) == []

    def test_a_worker_without_a_session_of_its_own_holds_nothing(self, db: Hand) -> None:
        db.claimed(db.hello())

        assert db.ask(ageing.held(None)) == []


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

    def test_maintenance_jobs_do_not_count(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2)
        one, _ = db.claim(worker, 2)
        db.save(worker, one, "a")
        db.end(worker, completed(one))
        db.sql("update retoma.jobs set queue = 'retoma'")
        own = db.one_job()

        [tally] = db.ask(ageing.tally())

        assert (tally.ended, tally.saved, tally.left) == (0, 0, 1), own


class TestStatements:
    def test_what_other_sessions_run_is_listed_until_it_ends(self, db: Hand, room: str) -> None:
        with psycopg.connect(room, autocommit=True) as lock, psycopg.connect(room, autocommit=True) as session:
            lock.execute("select pg_advisory_lock(4712)")
            waiting = threading.Thread(target=session.execute, args=["select pg_advisory_lock_shared(4712)"])
            waiting.start()
            while not (found := db.ask(ageing.statements())):
                pass
            lock.execute("select pg_advisory_unlock(4712)")
            waiting.join()

            assert [each.pid for each in found] == [session.info.backend_pid]
            assert db.ask(ageing.statements()) == [], "a session that rests runs none"
