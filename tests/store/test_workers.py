"""Who works: one row per executor incarnation, and one lease for everything it holds."""

from __future__ import annotations

import json

import pytest
from store_hand import LEASE, Hand, completed

from retoma.model import compat
from retoma.store import jobs, workers
from retoma.store.workers import Pulse
from retoma.system.process_identity import ProcessIdentity


class TestHello:
    def test_identity_is_new_at_every_start_even_under_the_same_label(self, db: Hand) -> None:
        first, second = db.hello("ana"), db.hello("ana")

        assert first != second
        assert {each.label for each in db.ask(workers.all())} == {"ana"}

    def test_a_new_worker_is_alive_for_one_lease(self, db: Hand) -> None:
        worker = db.hello(lease=90.0)

        [seen] = db.ask(workers.one(worker))

        assert (seen.alive, seen.stopped_at, seen.lease_seconds) == (True, None, 90.0)
        assert 80 < db.seconds_until("lease_expires_at", worker, "workers") <= 90


class TestHeartbeat:
    def test_heartbeat_extends_the_lease(self, db: Hand) -> None:
        worker = db.hello()
        db.age(LEASE - 10)
        before = db.ask(workers.one(worker))[0]

        assert db.beat(worker) == [worker]

        after = db.ask(workers.one(worker))[0]
        assert after.seen_at > before.seen_at
        assert after.lease_expires_at > before.lease_expires_at
        assert LEASE - 10 < db.seconds_until("lease_expires_at", worker, "workers") <= LEASE

    def test_the_heartbeat_of_a_held_job_shows_in_the_words_of_the_seed(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.age(LEASE - 10)
        look = f'select "lastHeartbeatAt", "lockExpiresAt" from retoma.queue_jobs where id = {claim.id}'
        [before] = db.sql(look)

        db.beat(worker)

        [after] = db.sql(look)
        assert after[0] > before[0]
        assert after[1] > before[1]

    def test_one_statement_beats_for_many_and_tells_which_are_lost(self, db: Hand) -> None:
        one, two, three = (db.hello() for _ in range(3))
        db.ask(jobs.bury(two, [], reason="gone", error="gone"))

        assert db.beat(one, two, three, 10**9) == [one, three]

    def test_a_worker_that_was_given_up_for_lost_cannot_come_back(self, db: Hand) -> None:
        worker = db.hello()
        db.silence(worker)
        db.recover()

        assert db.beat(worker) == []
        assert not db.ask(workers.one(worker))[0].alive
        assert db.seconds_until("lease_expires_at", worker, "workers") < 0

    def test_others_are_not_kept_alive_by_it(self, db: Hand) -> None:
        one, two = db.hello(), db.hello()
        db.age(LEASE + 1)

        db.beat(one)

        assert [each.alive for each in db.ask(workers.one(one)) + db.ask(workers.one(two))] == [True, False]

    def test_the_figures_are_totals_so_a_lost_beat_loses_nothing(self, db: Hand) -> None:
        worker = db.hello()
        for done in (3, 8):
            db.ask(
                workers.heartbeat(
                    [Pulse(worker, 77, claimed=9, completed=done, failed=1, retried=2, recovered=4, busy=1.5)]
                )
            )

        seen = db.ask(workers.one(worker))[0]

        assert (seen.pid, seen.claimed, seen.completed, seen.failed) == (77, 9, 8, 1)
        assert (seen.retried, seen.recovered, seen.busy_seconds) == (2, 4, 1.5)


class TestCalledOff:
    def test_held_jobs_that_were_asked_to_stop_and_no_others(self, db: Hand) -> None:
        mine, other = db.hello(), db.hello()
        db.enqueue(3)
        one, two = db.claim(mine, 2)
        [theirs] = db.claim(other, 1)
        db.ask(jobs.cancel([one.id, theirs.id]))

        assert db.ask(workers.called_off([mine])) == [(one.id, mine, one.fence, "cancelled")]
        assert len(db.ask(workers.called_off([mine, other]))) == 2
        assert two.id not in [each.id for each in db.ask(workers.called_off([mine]))]

    def test_a_job_that_has_ended_is_not_asked_any_more(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(jobs.cancel([claim.id]))
        db.end(worker, completed(claim))

        assert db.ask(workers.called_off([worker])) == []


class TestHeld:
    def test_what_a_worker_holds_by_its_fence_and_nothing_else(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        mine, theirs, ended = db.claimed(worker), db.claimed(other), db.claimed(worker)
        db.end(worker, completed(ended))
        db.one_job()

        [(claim, token)] = db.ask(workers.held(worker))

        assert (claim.id, claim.fence, claim.pipeline, claim.input) == (mine.id, mine.fence, mine.pipeline, "")
        assert token is not None
        assert [each.id for each, _ in db.ask(workers.held(other))] == [theirs.id]


class TestStopping:
    def test_the_first_hour_stays(self, db: Hand) -> None:
        worker = db.hello()
        assert db.ask(workers.stopping([worker])) == [worker]
        before = db.ask(workers.one(worker))[0].stopping_at

        db.ask(workers.stopping([worker]))

        after = db.ask(workers.one(worker))[0]
        assert before is not None
        assert (after.stopping_at, after.alive) == (before, True)


class TestOne:
    def test_a_worker_whose_lease_is_over_is_not_alive(self, db: Hand) -> None:
        worker = db.hello()
        db.age(LEASE + 1)

        assert not db.ask(workers.one(worker))[0].alive

    def test_a_worker_that_is_not_there_is_no_row(self, db: Hand) -> None:
        assert db.ask(workers.one(10**9)) == []


class TestAll:
    def test_the_newest_first_and_those_who_are_gone_only_when_asked_for(self, db: Hand) -> None:
        one, two, three = (db.hello() for _ in range(3))
        db.ask(jobs.bury(two, [], reason="gone", error="gone"))

        assert [each.id for each in db.ask(workers.all())] == [three, one]
        assert [each.id for each in db.ask(workers.all(gone=True))] == [three, two, one]
        assert [each.id for each in db.ask(workers.all(gone=True, limit=2))] == [three, two]


class TestMetrics:
    def test_the_seven_figures_of_all_executors_under_one_label(self, db: Hand) -> None:
        one, two, other = db.hello("ana"), db.hello("ana"), db.hello("bia")
        db.ask(
            workers.heartbeat(
                [
                    Pulse(one, claimed=5, completed=3, failed=1, retried=1, recovered=2, busy=1.2),
                    Pulse(two, claimed=1, completed=1, busy=0.8),
                    Pulse(other, claimed=100, completed=100, busy=9.0),
                ]
            )
        )

        [figures] = db.ask(workers.metrics("ana"))

        assert compat.figures(figures) == pytest.approx(
            {
                "jobsClaimed": 6,
                "jobsCompleted": 4,
                "jobsFailed": 1,
                "jobsRetried": 1,
                "jobsRecovered": 2,
                "avgJobDurationMs": 500.0,
                "stuckJobCount": 0,
            }
        )

    def test_running_jobs_that_nobody_beats_for_are_counted(self, db: Hand) -> None:
        one, two = db.hello("ana"), db.hello("bia")
        db.enqueue(5)
        db.claim(one, 2)
        db.claim(two, 3)
        db.silence(two)

        assert db.ask(workers.metrics("ana"))[0].stuck_job_count == 3
        db.recover()
        assert db.ask(workers.metrics("ana"))[0].stuck_job_count == 0

    def test_a_label_that_nobody_has_is_all_zeros(self, db: Hand) -> None:
        assert set(compat.figures(db.ask(workers.metrics("nobody"))[0]).values()) == {0}


class TestPrune:
    def test_those_who_stopped_long_ago_go(self, db: Hand) -> None:
        gone, live = db.hello(), db.hello()
        db.ask(jobs.bury(gone, [], reason="gone", error="gone"))
        db.age(101)
        lately = db.hello()
        db.ask(jobs.bury(lately, [], reason="gone", error="gone"))

        assert db.ask(workers.prune(100.0)) == [gone]
        assert [each.id for each in db.ask(workers.all(gone=True))] == [lately, live]

    def test_one_who_still_holds_a_job_stays_so_that_the_sweep_can_find_it(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.sql("update retoma.workers set stopped_at = now(), lease_expires_at = now()")
        db.age(101)

        assert db.ask(workers.prune(100.0)) == []
        assert [each.id for each in db.recover()] == [claim.id]
        assert db.ask(workers.prune(100.0)) == [worker]


class TestDrain:
    def test_all_that_run_under_a_label_are_asked_once(self, db: Hand) -> None:
        one, two, other = db.hello("ana"), db.hello("ana"), db.hello("bia")

        assert sorted(db.ask(workers.drain("ana", by="eva"))) == [one, two]
        first = db.value("select min(drain_requested_at) from retoma.workers")
        db.ask(workers.drain("ana", by="somebody else"))

        asked = "select distinct drain_requested_at, drain_requested_by from retoma.workers where label = 'ana'"
        assert db.sql(asked) == [(first, "eva")]
        assert db.ask(workers.asked_to_drain([one, two, other])) == [one, two]

    def test_one_that_stopped_is_not_asked(self, db: Hand) -> None:
        db.hello("ana")
        db.sql("update retoma.workers set stopped_at = now()")

        assert db.ask(workers.drain("ana")) == []


class TestAskedToDrain:
    def test_a_worker_that_starts_later_under_the_same_label_is_not_concerned(self, db: Hand) -> None:
        old = db.hello("ana")
        db.ask(workers.drain("ana"))

        new = db.hello("ana")

        assert db.ask(workers.asked_to_drain([old, new])) == [old]

    def test_an_executor_that_the_same_supervisor_starts_again_is_asked_too(self, db: Hand) -> None:
        where = ProcessIdentity("machine", 7, 70)
        hello(db, where)
        db.ask(workers.drain("ana"))

        again, elsewhere = hello(db, where), hello(db, ProcessIdentity("machine", 7, 71))

        assert db.ask(workers.asked_to_drain([again, elsewhere])) == [again]


def hello(db: Hand, where: ProcessIdentity) -> int:
    said = workers.hello(
        label="ana", host="h", pid=1, version="0", queues=["q"], pipelines=["p"], at_once=1, lease=60.0, where=where
    )
    return db.ask(said)[0]


class TestHolding:
    def test_each_job_in_hand_has_the_step_of_the_last_heartbeat(self, db: Hand) -> None:
        worker = db.hello()
        one, two = db.claimed(worker), db.claimed(worker)
        told = [{"job": one.id, "fence": one.fence, "step": "ler"}, {"job": two.id, "fence": 99, "step": "x"}]
        doing = json.dumps(told)
        db.ask(workers.heartbeat([workers.Pulse(worker, memory=12.5, doing=doing)]))

        found = db.ask(workers.holding([worker]))

        assert [(each.id, each.step) for each in found] == [(one.id, "ler"), (two.id, None)]
        assert [each.memory_megabytes for each in db.ask(workers.all())] == [12.5]

    def test_what_others_hold_is_not_told(self, db: Hand) -> None:
        db.claimed(db.hello())

        assert db.ask(workers.holding([db.hello()])) == []


class TestLosses:
    def test_those_who_were_given_up_are_counted_by_label(self, db: Hand) -> None:
        for reason in ("gone", "lost", "exited", None):
            db.hello("ana")
            db.sql("update retoma.workers set reason = %(reason)s where reason is null", reason=reason)

        assert db.ask(workers.losses()) == [("ana", 2)]
