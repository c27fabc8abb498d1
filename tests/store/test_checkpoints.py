"""What the steps of a job have produced: added or set aside, never overwritten, and only by who holds the job."""

from __future__ import annotations

import psycopg
import pytest
from store_hand import Hand, checkpoint, completed, released

from retoma.store import checkpoints, jobs


class TestOf:
    def test_the_newest_generation_comes_first(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        for step, value in (("b", "1"), ("a", "2"), ("b", "3")):
            db.save(worker, claim, step, value)

        saved = db.ask(checkpoints.of(claim.id))

        assert [(each.step, each.generation, each.value) for each in saved] == [
            ("a", 1, "2"), ("b", 2, "3"), ("b", 1, "1")
        ]  # fmt: skip

    def test_the_envelope_comes_back_as_it_was_given(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        new = checkpoint(claim, "parse", '{"é": 1.50}')
        new.input_hash = "hash of the input"
        db.ask(checkpoints.save(worker, [new]))

        [saved] = db.ask(checkpoints.of(claim.id))

        assert (saved.value, saved.checksum, saved.fingerprint) == ('{"é": 1.50}', new.checksum, "print")
        assert (saved.input_hash, saved.fence) == ("hash of the input", claim.fence)

    def test_the_age_is_the_database_s(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)
        db.age(500)

        [saved] = db.ask(checkpoints.of(claim.id))

        assert 500 <= saved.age < 560

    def test_what_was_set_aside_is_never_read_again(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, value="1")
        db.save(worker, claim, value="2")
        db.ask(checkpoints.set_aside(claim.id, step="step", generation=2, reason="corrupt"))

        assert [each.value for each in db.ask(checkpoints.of(claim.id))] == ["1"]

    def test_values_that_are_long_or_too_many_are_left_out(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        long = '"' + "x" * 300 + '"'
        for step, value in (("a", '"0123456789"'), ("b", long), ("c", '"0123456789"'), ("d", '"0123456789"')):
            db.save(worker, claim, step, value)

        saved = db.ask(checkpoints.of(claim.id, short=100, together=30))

        assert [(each.step, each.value is None) for each in saved] == [
            ("a", False), ("b", True), ("c", False), ("d", True)
        ]  # fmt: skip
        assert db.ask(checkpoints.value(claim.id, "b", 1)) == [long]

    def test_a_value_that_is_short_only_while_it_is_packed_is_left_out(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, "packed", '"' + "x" * 1_000_000 + '"')

        [saved] = db.ask(checkpoints.of(claim.id))

        assert saved.value is None


class TestValue:
    def test_what_was_set_aside_is_not_given(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, value="1")
        assert db.ask(checkpoints.value(claim.id, "step", 1)) == ["1"]
        db.ask(checkpoints.set_aside(claim.id, step="step", generation=1, reason="corrupt"))

        assert db.ask(checkpoints.value(claim.id, "step", 1)) == []


class TestSave:
    def test_many_steps_of_many_jobs_go_into_one_statement(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2)
        one, two = db.claim(worker)
        new = [checkpoint(one, "a"), checkpoint(one, "b"), checkpoint(two, "a")]

        assert db.ask(checkpoints.save(worker, new)) == [(one.id, "a"), (one.id, "b"), (two.id, "a")]

    def test_the_same_step_again_is_a_new_generation(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        for value in ("1", "2", "3"):
            db.save(worker, claim, value=value)

        history = db.ask(checkpoints.history(claim.id))

        assert [(each.generation, each.value) for each in history] == [(1, "1"), (2, "2"), (3, "3")]

    def test_the_same_value_of_the_same_claim_is_not_saved_twice(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)

        assert db.save(worker, claim) == []
        assert len(db.ask(checkpoints.history(claim.id))) == 1

    def test_the_same_value_of_a_later_claim_is_a_new_generation(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)
        db.end(worker, released(claim))
        [again] = db.claim(worker)

        assert db.save(worker, again) == [(claim.id, "step")]
        assert [each.fence for each in db.ask(checkpoints.of(claim.id))] == [2, 1]

    def test_a_generation_that_was_set_aside_is_not_used_again(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)
        db.ask(checkpoints.set_aside(claim.id, reason="corrupt"))
        db.save(worker, claim)

        assert [each.generation for each in db.ask(checkpoints.of(claim.id))] == [2]

    def test_a_worker_that_lost_the_job_saves_nothing(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.silence(worker)
        db.recover()

        assert db.save(worker, claim) == []
        assert db.ask(checkpoints.history(claim.id)) == []

    def test_a_worker_whose_job_another_has_now_saves_nothing(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        stale = db.claimed(worker)
        db.silence(worker)
        db.recover()
        [claim] = db.claim(other)

        assert db.save(worker, stale) == []
        assert db.save(other, claim) == [(claim.id, "step")]

    def test_an_earlier_claim_of_the_same_worker_saves_nothing(self, db: Hand) -> None:
        worker = db.hello()
        stale = db.claimed(worker)
        db.end(worker, released(stale))
        [claim] = db.claim(worker)

        assert db.save(worker, stale) == []
        assert db.save(worker, claim) == [(claim.id, "step")]

    def test_an_ended_job_takes_no_more_steps(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, completed(claim))

        assert db.save(worker, claim) == []

    def test_a_job_that_was_asked_to_stop_still_keeps_what_was_paid_for(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(jobs.cancel([claim.id]))

        assert db.save(worker, claim) == [(claim.id, "step")]

    def test_those_still_held_are_saved_beside_those_that_are_not(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2)
        one, two = db.claim(worker)
        db.end(worker, released(one))

        assert db.ask(checkpoints.save(worker, [checkpoint(one), checkpoint(two)])) == [(two.id, "step")]

    def test_a_value_that_is_not_json_saves_nothing(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        with pytest.raises(psycopg.DataError):
            db.ask(checkpoints.save(worker, [checkpoint(claim, "a"), checkpoint(claim, "b", value="{")]))

        assert db.ask(checkpoints.history(claim.id)) == []

    def test_what_an_attempt_saved_is_there_for_the_next(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, "one")
        db.silence(worker)
        db.recover()
        [again] = db.claim(other)
        db.save(other, again, "two")

        assert [(each.step, each.fence) for each in db.ask(checkpoints.of(claim.id))] == [("one", 1), ("two", 2)]


class TestSaved:
    def test_a_step_whose_acknowledgement_was_lost_is_recognised(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        written, unwritten = checkpoint(claim, "a"), checkpoint(claim, "b")
        db.ask(checkpoints.save(worker, [written]))

        assert db.ask(checkpoints.saved([written, unwritten])) == [(claim.id, "a")]

    def test_another_claim_s_step_is_not_taken_for_one_s_own(self, db: Hand) -> None:
        worker = db.hello()
        stale = db.claimed(worker)
        db.end(worker, released(stale))
        [claim] = db.claim(worker)
        db.save(worker, claim)

        assert db.ask(checkpoints.saved([checkpoint(stale)])) == []

    def test_a_step_that_was_said_twice_is_recognised_once(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)
        db.save(worker, claim)

        assert db.ask(checkpoints.saved([checkpoint(claim)])) == [(claim.id, "step")]

    def test_another_value_of_the_step_is_not_taken_for_this_one(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, value="1")

        assert db.ask(checkpoints.saved([checkpoint(claim, value="2")])) == []


class TestSetAside:
    def test_it_is_kept_with_the_reason(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)

        assert db.ask(checkpoints.set_aside(claim.id, step="step", reason="corrupt")) == [("step", 1)]

        [kept] = db.ask(checkpoints.history(claim.id))
        assert kept.reason == "corrupt"
        assert kept.set_aside_at is not None

    def test_one_generation_of_one_step_or_everything(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        for value, step in enumerate(("a", "a", "b")):
            db.save(worker, claim, step, value=str(value))

        assert db.ask(checkpoints.set_aside(claim.id, step="a", generation=1, reason="why")) == [("a", 1)]
        assert sorted(db.ask(checkpoints.set_aside(claim.id, reason="why"))) == [("a", 2), ("b", 1)]
        assert db.ask(checkpoints.set_aside(claim.id, reason="why")) == []

    def test_the_one_who_holds_the_job_may(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)

        assert db.ask(checkpoints.set_aside(claim.id, reason="why", fence=claim.fence)) == [("step", 1)]

    def test_one_whose_job_another_has_now_may_not(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        stale = db.claimed(worker)
        db.save(worker, stale)
        db.silence(worker)
        db.recover()
        db.claim(other)

        assert db.ask(checkpoints.set_aside(stale.id, reason="why", fence=stale.fence)) == []

    def test_one_whose_job_was_taken_back_may_not_even_before_another_has_it(self, db: Hand) -> None:
        worker = db.hello()
        stale = db.claimed(worker)
        db.save(worker, stale)
        db.silence(worker)
        db.recover()

        assert db.ask(checkpoints.set_aside(stale.id, reason="why", fence=stale.fence)) == []

    def test_one_who_ended_the_job_may_not_any_more(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)
        db.end(worker, completed(claim))

        assert db.ask(checkpoints.set_aside(claim.id, reason="why", fence=claim.fence)) == []

    def test_other_jobs_are_not_touched(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2)
        one, two = db.claim(worker)
        db.save(worker, one)
        db.save(worker, two)

        db.ask(checkpoints.set_aside(one.id, reason="why"))

        assert len(db.ask(checkpoints.of(two.id))) == 1


class TestHistory:
    def test_everything_is_there_also_what_was_set_aside(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, "a", "1")
        db.ask(checkpoints.set_aside(claim.id, reason="corrupt"))
        db.save(worker, claim, "a", "2")
        db.save(worker, claim, "b", "3")

        history = db.ask(checkpoints.history(claim.id))

        assert [(each.step, each.generation, each.value, each.reason) for each in history] == [
            ("a", 1, "1", "corrupt"), ("a", 2, "2", None), ("b", 1, "3", None)
        ]  # fmt: skip
        assert [each.seconds for each in history] == pytest.approx([0.1] * 3)


class TestAgain:
    def test_the_steps_from_one_on_in_the_order_they_were_saved(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        for step in ("read", "ask", "write"):
            db.save(worker, claim, step)

        assert [each.step for each in db.ask(checkpoints.again(claim.id, step="ask"))] == ["ask", "write"]
        assert [each.step for each in db.ask(checkpoints.again(claim.id, step=None))] == ["read", "ask", "write"]
        assert db.ask(checkpoints.again(claim.id, step="nobody")) == []
