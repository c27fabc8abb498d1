"""The last step of a batch, statement by statement: when it opens, what makes it wait again, and who mends what."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from store_batch import BatchHand, ending, hands
from store_hand import answer

from retoma.commands import jobs as job_commands
from retoma.commands import last_steps
from retoma.commands import operations as operation_commands
from retoma.model.job import Claim
from retoma.model.validation import LARGEST_ID
from retoma.store import batches, jobs, looking
from retoma.store.looking import Filter, Span

Hands = Callable[..., BatchHand]
BOTH = ("read", "finish")


@pytest.fixture
def hand(room: str) -> Iterator[Hands]:
    yield from hands(room)


def last_claim(db: BatchHand, worker: int, job: int) -> Claim:
    (claim,) = db.claim(worker, pipelines=BOTH)
    assert claim.id == job
    return claim


def failed_job(db: BatchHand, id: int) -> int:
    ((found,),) = db.sql("select id from retoma.jobs where batch_id = %(id)s and state = 'failed'", id=id)
    return int(found)


class TestOpening:
    def test_it_cannot_be_claimed_before_the_last_job_ends_and_can_right_after(self, hand: Hands) -> None:
        db = hand()
        worker, (id, job) = db.hello(), db.finished_batch(2)
        one, two = db.claim(worker, pipelines=BOTH)
        db.end(worker, ending(one, "completed"))
        before = (db.finishing(id), db.claim(worker, pipelines=BOTH))

        db.end(worker, ending(two, "failed"))

        assert before == (("waiting", False, 1, "queued", False), [])
        assert db.finishing(id) == ("open", False, 1, "queued", True)
        assert (db.is_(id), db.counts(id)) == ("running", (2, 0, 1))
        claim = last_claim(db, worker, job)
        db.end(worker, ending(claim, "completed"))
        assert (db.is_(id), db.finishing(id)) == ("completed", ("ended", False, 1, "completed", False))
        assert (db.told(id), db.breaches()) == (["created", "sealed", "running", "completed"], [])

    def test_two_workers_that_end_the_last_two_jobs_open_it_once(self, hand: Hands) -> None:
        first, second = hand(), hand()
        worker, other, (id, job) = first.hello(), second.hello(), first.finished_batch(2)
        one, two = first.claim(worker, 1), second.claim(other, 1)
        first.begin()
        first.end(worker, ending(one[0], "completed"))
        asked = second.start(jobs.end(other, [ending(two[0], "completed")]))
        second.waits_for(first, asked)
        first.commit()
        answer(asked)

        assert first.finishing(id) == ("open", False, 1, "queued", True)
        assert [last_claim(first, worker, job).id, *second.claim(other, pipelines=BOTH)] == [job]
        assert first.breaches() == []

    @pytest.mark.parametrize("word", ["skipped", "review"])
    def test_a_job_that_was_skipped_or_waits_for_review_has_ended(self, hand: Hands, word: str) -> None:
        db = hand()
        worker, (id, _) = db.hello(), db.finished_batch(1)

        db.finish(worker, word)

        assert db.finishing(id)[0] == "open"

    def test_where_nothing_ended_well_the_batch_is_completed_without_it(self, hand: Hands) -> None:
        db = hand()
        worker, (id, _) = db.hello(), db.finished_batch(2)
        db.finish(worker, "failed", "cancelled")
        at_once = (db.is_(id), db.finishing(id))

        db.look_after()

        assert at_once == ("completed", ("ended", True, 1, "queued", False))
        assert db.finishing(id) == ("ended", False, 1, "cancelled", False)
        assert db.breaches() == []

    def test_a_share_of_the_jobs_is_enough_where_its_pipeline_says_so(self, hand: Hands) -> None:
        db = hand()
        worker, (id, job) = db.hello(), db.finished_batch(4, at=0.6)
        db.finish(worker, "completed", "completed")
        early = db.finishing(id)[0]
        (third,) = db.claim(worker, 1)
        (fourth,) = db.claim(worker, 1)
        db.end(worker, ending(third, "completed"))
        claim = last_claim(db, worker, job)
        db.end(worker, ending(claim, "completed"))

        assert (early, db.is_(id), db.finishing(id)[0]) == ("waiting", "running", "ended")
        db.end(worker, ending(fourth, "completed"))
        assert (db.is_(id), db.breaches()) == ("completed", [])


class TestSafetyNet:
    def test_an_older_program_that_completed_the_batch_does_not_lose_it(self, hand: Hands) -> None:
        db = hand()
        worker, (id, job) = db.hello(), db.finished_batch(1)
        db.sql(
            "update retoma.batches set state = 'completed', was = 'queued', unfinished = 0, finish_well = 1,"
            " finished_at = now() where id = %(id)s",
            id=id,
        )
        db.sql(
            "update retoma.jobs set state = 'completed', finished_at = now() where batch_id = %(id)s and id <> %(job)s",
            id=id,
            job=job,
        )

        db.look_after()

        assert (db.is_(id), db.finishing(id)) == ("running", ("open", False, 1, "queued", True))
        db.end(worker, ending(last_claim(db, worker, job), "completed"))
        assert db.is_(id) == "completed"


class TestRevival:
    def ran(self, db: BatchHand, worker: int) -> tuple[int, int]:
        """A batch of three, one of which failed, whose last step has ended."""
        id, job = db.finished_batch(3)
        db.finish(worker, "completed", "completed", "failed")
        claim = last_claim(db, worker, job)
        db.save(worker, claim)
        db.end(worker, ending(claim, "completed"))
        assert db.is_(id) == "completed"
        return id, job

    def test_a_retry_whose_caller_died_before_the_last_step_followed_is_mended_by_the_watchdog(
        self, hand: Hands
    ) -> None:
        db = hand()
        worker = db.hello()
        id, job = self.ran(db, worker)
        failed = failed_job(db, id)
        db.ask(jobs.retry([failed]))
        owed = (db.is_(id), db.finishing(id), db.breaches())
        db.finish(worker, "completed")
        done = (db.is_(id), db.finishing(id))

        db.look_after()

        assert owed == ("running", ("waiting", True, 2, "completed", False), [])
        assert done == ("running", ("waiting", True, 2, "completed", False)), "no batch ends without its last step"
        assert db.finishing(id) == ("open", False, 2, "queued", True)
        db.end(worker, ending(last_claim(db, worker, job), "completed"))
        assert (db.is_(id), db.breaches()) == ("completed", [])
        kept = "select count(*) from retoma.checkpoints where job_id = %(job)s and set_aside_at is null"
        assert db.sql(kept, job=job) == [(0,)]

    def test_a_run_that_jobs_came_back_to_is_taken_from_its_worker_and_what_it_writes_is_refused(
        self, hand: Hands
    ) -> None:
        db = hand()
        worker, (id, job) = db.hello(), db.finished_batch(2)
        db.finish(worker, "completed", "failed")
        claim = last_claim(db, worker, job)

        db.retry_failed(id)

        assert db.finishing(id) == ("waiting", False, 2, "queued", False)
        assert db.end(worker, ending(claim, "completed")) == []
        assert db.save(worker, claim) == []
        db.finish(worker, "completed")
        db.end(worker, ending(last_claim(db, worker, job), "completed"))
        assert (db.is_(id), db.breaches()) == ("completed", [])

    def test_one_that_waits_for_its_first_run_just_goes_on_waiting(self, hand: Hands) -> None:
        db = hand()
        worker, (id, _) = db.hello(), db.finished_batch(2)
        db.finish(worker, "failed")

        db.retry_failed(id)

        assert db.finishing(id) == ("waiting", False, 1, "queued", False)
        assert db.breaches() == []

    def test_a_job_that_is_locked_is_left_to_the_next_round(self, hand: Hands) -> None:
        db, other = hand(), hand()
        worker = db.hello()
        id, job = self.ran(db, worker)
        other.begin()
        other.sql("select id from retoma.jobs where id = %(job)s for update", job=job)
        db.retry_failed(id)
        locked = db.finishing(id)
        other.commit()

        db.look_after()

        assert locked == ("waiting", True, 2, "completed", False)
        assert db.finishing(id) == ("waiting", False, 2, "queued", False)


class TestFailing:
    def failed(self, db: BatchHand, worker: int) -> tuple[int, int]:
        id, job = db.finished_batch(1)
        db.finish(worker, "completed")
        db.end(worker, ending(last_claim(db, worker, job), "failed"))
        assert (db.is_(id), db.one(id).reason, db.finishing(id)[0]) == ("failed", "finish", "failed")
        return id, job

    def test_the_batch_fails_by_its_own_reason_and_a_resume_gives_it_another_attempt(self, hand: Hands) -> None:
        db = hand()
        worker = db.hello()
        id, job = self.failed(db, worker)

        did = db.resume(id)

        assert (did.changed, did.jobs, db.is_(id), db.one(id).resumes) == (True, 1, "running", 0)
        assert db.finishing(id) == ("open", False, 1, "queued", True)
        db.end(worker, ending(last_claim(db, worker, job), "completed"))
        assert (db.is_(id), db.breaches()) == ("completed", [])

    def test_it_fails_a_batch_that_was_paused_while_it_ran(self, hand: Hands) -> None:
        db = hand()
        worker, (id, job) = db.hello(), db.finished_batch(1)
        db.finish(worker, "completed")
        claim = last_claim(db, worker, job)
        db.pause(id)

        db.end(worker, ending(claim, "failed"))

        assert (db.is_(id), db.one(id).reason, db.breaches()) == ("failed", "finish", [])

    def test_retry_of_what_failed_includes_it(self, hand: Hands) -> None:
        db = hand()
        worker = db.hello()
        id, _ = self.failed(db, worker)

        assert db.retry_failed(id).jobs == 1
        assert (db.is_(id), db.finishing(id)) == ("running", ("open", False, 1, "queued", True))

    def test_a_resume_of_one_whose_failure_a_person_has_settled_changes_nothing_and_says_so(self, hand: Hands) -> None:
        db = hand()
        worker = db.hello()
        id, job = self.failed(db, worker)
        db.ask(jobs.discard([job], by="ana", reason=None))

        did = db.resume(id)

        assert (did.changed, did.jobs, did.word) == (False, 0, "already_finished")
        assert (db.is_(id), db.state(job)) == ("failed", "failed")

    def test_a_retry_of_a_large_batch_that_finds_no_job_leaves_it_failed_with_closed_lanes(
        self, hand: Hands, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operation_commands, "SMALL", 0)
        db = hand()
        worker = db.hello()
        id, _ = self.failed(db, worker)

        db.retry_failed(id, fingerprint="another")
        db.look_after()

        assert (db.is_(id), db.one(id).reason, db.breaches()) == ("failed", "finish", [])

    def test_a_retry_of_a_large_batch_that_finds_no_job_lets_the_last_step_be_taken_that_was_open(
        self, hand: Hands, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        db = hand()
        worker, (id, _) = db.hello(), db.finished_batch(4, at=0.5, max_failure_rate=0.3)
        db.finish(worker, "completed", "failed")
        db.finish(worker, "failed")
        assert (db.is_(id), db.finishing(id)) == ("failed", ("open", False, 1, "queued", False))
        monkeypatch.setattr(operation_commands, "SMALL", 0)

        db.retry_failed(id, fingerprint="another")
        db.look_after()

        assert (db.is_(id), db.finishing(id)) == ("running", ("open", False, 1, "queued", True))
        assert db.breaches() == []


class TestStopping:
    @pytest.mark.parametrize("when", ["before", "open", "runs"])
    def test_a_cancelled_batch_cancels_it_wherever_it_stands(self, hand: Hands, when: str) -> None:
        db = hand()
        worker, (id, job) = db.hello(), db.finished_batch(2)
        claim = None
        if when != "before":
            db.finish(worker, "completed", "completed")
        if when == "runs":
            claim = last_claim(db, worker, job)

        db.cancel(id)
        if claim:
            db.end(worker, ending(claim, "cancelled"))

        assert (db.is_(id), db.finishing(id)) == ("cancelled", ("ended", False, 1, "cancelled", False))
        assert db.breaches() == []

    def test_a_batch_that_is_cancelled_while_a_further_run_is_owed_owes_nothing(self, hand: Hands) -> None:
        db = hand()
        worker = db.hello()
        id, _ = TestRevival().ran(db, worker)
        failed = failed_job(db, id)
        db.ask(jobs.retry([failed]))

        db.cancel(id)
        db.look_after()

        assert (db.is_(id), db.finishing(id)) == ("cancelled", ("ended", False, 2, "completed", False))
        assert db.breaches() == []

    @pytest.mark.parametrize("open_", [False, True])
    def test_a_pause_closes_its_lane_and_a_resume_opens_it_only_when_its_turn_has_come(
        self, hand: Hands, open_: bool
    ) -> None:
        db = hand()
        worker, (id, _) = db.hello(), db.finished_batch(2)
        if open_:
            db.finish(worker, "completed", "completed")
        db.pause(id)
        paused = db.finishing(id)[4]
        db.resume(id)

        assert (paused, db.finishing(id)[4], db.breaches()) == (False, open_, [])

    def test_the_last_job_that_ends_in_a_paused_batch_leaves_it_to_the_resume(self, hand: Hands) -> None:
        db = hand()
        worker, (id, _) = db.hello(), db.finished_batch(1)
        (claim,) = db.claim(worker, 1)
        db.pause(id)

        db.end(worker, ending(claim, "completed"))

        assert (db.is_(id), db.finishing(id), db.breaches()) == ("paused", ("open", False, 1, "queued", False), [])
        db.resume(id)
        assert (db.is_(id), db.finishing(id)[4], db.breaches()) == ("running", True, [])

    def test_too_many_failures_stop_the_batch_before_it_and_a_resume_leads_to_it(self, hand: Hands) -> None:
        db = hand()
        worker, (id, _) = db.hello(), db.finished_batch(3, max_failure_rate=0.0)
        db.finish(worker, "failed")
        failed = (db.is_(id), db.finishing(id)[0])
        db.resume(id)
        db.finish(worker, "completed", "completed")

        assert failed == ("failed", "waiting")
        assert (db.finishing(id), db.breaches()) == (("open", False, 1, "queued", True), [])

    def test_a_pruned_batch_takes_its_lane_and_its_job_along(self, hand: Hands) -> None:
        db = hand()
        worker = db.hello()
        id, _ = TestRevival().ran(db, worker)
        db.age(1000)

        assert db.ask(batches.retire(100)) == [id]
        while db.ask(batches.prune()):
            pass

        assert db.sql("select count(*) from retoma.jobs") == [(0,)]
        assert db.sql("select count(*) from retoma.lanes where name like 'batch:%%'") == [(0,)]

    def test_a_single_job_that_is_retried_makes_it_wait_at_once(self, hand: Hands) -> None:
        db = hand()
        worker = db.hello()
        id, _ = TestRevival().ran(db, worker)
        failed = failed_job(db, id)

        db.do(job_commands.retry(failed, attempts=None))

        assert db.finishing(id) == ("waiting", False, 2, "queued", False)
        assert db.do(last_steps.follow()) == []


class TestLooking:
    def test_a_pipeline_that_is_asked_for_finds_the_last_step_or_the_others(self, hand: Hands) -> None:
        db = hand()
        id, job = db.finished_batch(2)

        def found(**wanted: str) -> list[int]:
            return db.ask(looking.walk_for(Filter(batch_id=id, **wanted), Span(before=LARGEST_ID, limit=9)))[0].ids

        last, *others = found()
        assert (last, len(others)) == (job, 2)
        assert found(pipeline="finish") == [job]
        assert found(pipeline="finish", state="completed") == []
        assert found(pipeline="read") == others
        assert found(pipeline="other") == []
        assert found(queue="elsewhere") == []
