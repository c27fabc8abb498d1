"""Calls: the intent before, the answer as it came, and never more than a budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from store_batch import BatchHand, hands, read
from store_hand import answer

from retoma.calls.writer import NOT_OURS
from retoma.commands import batches as batch_commands
from retoma.commands.batches import BatchOptions
from retoma.model.call import Opened
from retoma.model.job import Claim
from retoma.store import calls, jobs
from retoma.store.calls import Intent, Settled
from retoma.store.query import Query

SETTLED = Settled(
    id=0,
    answer='{"said": 1}',
    text="1",
    finish="stop",
    request_id="r-1",
    cost=Decimal("0.30"),
    input_tokens=10,
    output_tokens=5,
    cached_tokens=0,
    units=0,
)


DAY = 86_400.0
EMPTY_CALLS = "delete from retoma.calls; delete from retoma.prices; delete from retoma.tier_prices"


@pytest.fixture
def hand(room: str) -> Iterator[Callable[..., BatchHand]]:
    for make in hands(room):
        make().sql(EMPTY_CALLS)
        yield make


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asking(Intent):
    """An intent, and who has it."""

    tenant: str
    worker_id: int | None


def intent(claim: Claim, worker: int, **given: Any) -> Asking:
    base = Asking(
        tenant="",
        key="k",
        provider="openai",
        model="gpt",
        job_id=claim.id,
        fence=claim.fence,
        worker_id=worker,
        step="ask",
        kind="first",
        request='{"q": 1}',
        reserved=Decimal("0.50"),
        reuse=True,
        patience=60.0,
    )
    return dataclasses.replace(base, **given)


NO_JOB = Asking(
    tenant="",
    key="k",
    provider="openai",
    model="gpt",
    job_id=None,
    fence=None,
    worker_id=None,
    step="search",
    kind="first",
    request='{"q": 1}',
    reserved=Decimal("0.50"),
    reuse=True,
    patience=60.0,
)


def held(db: BatchHand) -> tuple[Claim, int]:
    worker = db.hello()
    db.one_job()
    [claim] = db.claim(worker)
    return claim, worker


def opening(*asked: Asking) -> Query[tuple[int, Opened]]:
    return calls.open(asked, tenant=asked[0].tenant, worker_id=asked[0].worker_id)


def opened(db: BatchHand, asked: Asking) -> Opened:
    rows = db.ask(opening(asked))
    return rows[0][1] if rows else NOT_OURS


def answered(db: BatchHand, id: int, settled: Settled = SETTLED) -> list[int | None]:
    return [found for found, _ in db.ask(calls.answer([dataclasses.replace(settled, id=id)]))]


def batch_of(db: BatchHand, jobs: int, budget: str | None) -> int:
    options = BatchOptions(budget=None if budget is None else Decimal(budget))
    return db.do(batch_commands.create(read, range(jobs), lambda _: None, "x", options)).id


def handed_over(db: BatchHand, claim: Claim) -> tuple[int]:
    """Another worker has the job, for the first is gone."""
    new = db.hello()
    db.sql("update retoma.workers set stopped_at = now() where id <> %(new)s", new=new)
    db.sql("update retoma.jobs set fence = fence + 1, worker_id = %(new)s where id = %(id)s", new=new, id=claim.id)
    return (new,)


class TestOpen:
    def test_the_intent_is_there_before_anything_was_asked(self, db: BatchHand) -> None:
        claim, worker = held(db)
        found = opened(db, intent(claim, worker))

        assert found.mine
        assert db.ask(calls.one(found.opened or 0))[0].state == "open"

    def test_whoever_does_not_hold_the_job_opens_nothing(self, db: BatchHand) -> None:
        claim, worker = held(db)

        for stale in ({"fence": claim.fence - 1}, {"worker_id": worker + 1}):
            found = opened(db, intent(claim, worker, **stale))
            assert (found.mine, found.opened) == (False, None)

    def test_an_equal_call_that_was_answered_is_given_back_whoever_asked_it(self, db: BatchHand) -> None:
        claim, worker = held(db)
        first = opened(db, intent(claim, worker)).opened or 0
        answered(db, first)
        other, holder = held(db)
        found = opened(db, intent(other, holder))

        assert (found.known, found.opened) == (first, None)
        assert db.ask(calls.one(first))[0].reused == 1

    def test_another_tenant_gets_nothing_of_it(self, db: BatchHand) -> None:
        claim, worker = held(db)
        answered(db, opened(db, intent(claim, worker)).opened or 0)

        assert opened(db, intent(claim, worker, tenant="other")).known is None

    def test_an_intent_that_an_earlier_attempt_left_is_in_doubt_and_the_next_says_again(self, db: BatchHand) -> None:
        claim, worker = held(db)
        first = opened(db, intent(claim, worker)).opened or 0
        found = opened(db, intent(claim, *handed_over(db, claim), fence=claim.fence + 1))

        assert found.doubts == 1
        assert db.ask(calls.one(first))[0].state == "doubtful"
        assert db.ask(calls.one(found.opened or 0))[0].kind == "again"

    def test_an_equal_request_that_is_under_way_is_waited_for_and_costs_nothing_meanwhile(self, db: BatchHand) -> None:
        batch_of(db, 2, "10")
        worker = db.hello()
        one, two = db.claim(worker, limit=2)
        first = opened(db, intent(one, worker)).opened
        found = opened(db, intent(two, worker))

        assert (found.mine, found.asked, found.opened, found.here, found.ours) == (True, first, None, True, False)
        assert opened(db, intent(one, worker)).ours
        assert db.value("select reserved from retoma.batches") == Decimal("0.50")
        assert opened(db, intent(two, worker, tenant="other")).opened
        assert opened(db, intent(two, worker, reuse=False)).opened, "who wants another throw does not wait"

    @pytest.mark.parametrize(
        "change",
        [
            "update retoma.workers set stopped_at = now() where id = (select min(id) from retoma.workers)",
            "update retoma.workers set lease_expires_at = now() where id = (select min(id) from retoma.workers)",
            "update retoma.calls set awaited_until = now()",
        ],
        ids=["it stopped", "it fell silent", "it takes too long"],
    )
    def test_nobody_waits_for_an_answer_that_will_not_come(self, db: BatchHand, change: str) -> None:
        claim, worker = held(db)
        first = opened(db, intent(claim, worker)).opened or 0
        other, holder = held(db)
        db.sql(change)
        found = opened(db, intent(other, holder))

        assert found.opened
        assert found.doubts == 0, "the doubt is another job's"
        assert db.sql("select kind, state from retoma.calls order by id") == [("first", "doubtful"), ("again", "open")]
        assert answered(db, first) == [first], "and if it comes after all it is kept"

    def test_of_two_at_the_very_same_moment_one_goes_on_and_the_other_changed_nothing(
        self, hand: Callable[..., BatchHand]
    ) -> None:
        one, two = hand(), hand()
        batch_of(one, 2, "10")
        worker = one.hello()
        first, second = one.claim(worker, limit=2)
        one.begin()
        ahead = opened(one, intent(first, worker))
        slow = two.start(opening(intent(second, worker)))

        assert two.has_to_wait_for(one, slow)
        one.commit()
        [(_, late)] = answer(slow)
        assert (late.mine, late.opened, late.asked) == (True, None, 0)
        assert opened(two, intent(second, worker)).asked == ahead.opened
        assert one.value("select reserved from retoma.batches") == Decimal("0.50")
        assert one.value("select count(*) from retoma.calls") == 1

    def test_spent_and_reserved_never_pass_the_budget(self, db: BatchHand) -> None:
        batch_of(db, 4, "1.20")
        worker = db.hello()
        found = [opened(db, intent(claim, worker, key=str(claim.id))) for claim in db.claim(worker, limit=4)]

        assert [each.opened is not None for each in found] == [True, True, False, False]
        assert all(each.mine for each in found)

    def test_without_a_budget_nothing_is_refused(self, db: BatchHand) -> None:
        batch_of(db, 2, None)
        worker = db.hello()

        assert all(opened(db, intent(claim, worker, key=str(claim.id))).opened for claim in db.claim(worker, limit=2))


def handed_in(db: BatchHand, **given: Any) -> tuple[Claim, int, int]:
    """A call that its provider took in, and who made it."""
    claim, worker = held(db)
    id = opened(db, intent(claim, worker, kept=DAY, **given)).opened or 0
    db.ask(calls.accept(id, "results/1"))
    return claim, worker, id


class TestOpenOfWhatWasHandedIn:
    def test_the_next_attempt_takes_it_over_and_neither_pays_nor_doubts(self, db: BatchHand) -> None:
        batch_of(db, 1, "0.80")
        worker = db.hello()
        [claim] = db.claim(worker)
        id = opened(db, intent(claim, worker, kept=DAY)).opened or 0
        db.ask(calls.accept(id, "results/1"))
        (new,) = handed_over(db, claim)
        found = opened(db, intent(claim, new, fence=claim.fence + 1, kept=DAY))

        assert (found.opened, found.operation, found.doubts) == (id, "results/1", 0)
        assert db.sql("select state, kind, worker_id, fence from retoma.calls") == [
            ("open", "first", new, claim.fence + 1)
        ]
        assert db.value("select reserved from retoma.batches") == Decimal("0.50")
        assert opened(db, intent(claim, new, fence=claim.fence + 1, kept=DAY)).ours
        assert db.breaches() == []

    def test_while_somebody_looks_for_it_others_wait(self, db: BatchHand) -> None:
        _, _, id = handed_in(db)
        other, holder = held(db)
        found = opened(db, intent(other, holder, kept=DAY))

        assert (found.asked, found.opened, found.operation) == (id, None, None)

    def test_another_job_takes_over_what_nobody_looks_for(self, db: BatchHand) -> None:
        claim, worker, id = handed_in(db)
        db.ask(calls.rest(id, worker_id=worker))
        other, holder = held(db)
        found = opened(db, intent(other, holder, kept=DAY))

        assert (found.opened, found.operation) == (id, "results/1")
        assert db.sql("select job_id, fence, worker_id from retoma.calls") == [(claim.id, claim.fence, holder)]

    def test_what_is_kept_no_more_is_in_doubt_and_the_next_says_again(self, db: BatchHand) -> None:
        claim, _, id = handed_in(db)
        db.sql("update retoma.calls set asked_at = now() - interval '1 day'")
        found = opened(db, intent(claim, *handed_over(db, claim), fence=claim.fence + 1, kept=DAY))

        assert found.opened not in (None, id)
        assert db.sql("select kind, state from retoma.calls order by id") == [("first", "doubtful"), ("again", "open")]

    def test_another_throw_is_taken_over_by_its_own_step_alone(self, db: BatchHand) -> None:
        claim, _, id = handed_in(db, reuse=False)
        (new,) = handed_over(db, claim)
        other = intent(claim, new, fence=claim.fence + 1, reuse=False, kept=DAY, step="other")

        assert opened(db, other).operation is None
        assert opened(db, dataclasses.replace(other, step="ask")).opened == id
        assert db.sql("select kind, state from retoma.calls order by id") == [("first", "open"), ("first", "open")]

    def test_an_answer_that_is_there_is_preferred(self, db: BatchHand) -> None:
        claim, worker, id = handed_in(db)
        db.ask(calls.rest(id, worker_id=worker))
        known = opened(db, intent(claim, worker, reuse=False)).opened or 0
        answered(db, known)

        found = opened(db, intent(claim, worker, kept=DAY))
        assert (found.known, found.operation) == (known, None)

    def test_of_two_who_would_take_it_over_one_does_and_the_other_looks_again(
        self, hand: Callable[..., BatchHand]
    ) -> None:
        one, two = hand(), hand()
        _, worker, id = handed_in(one)
        one.ask(calls.rest(id, worker_id=worker))
        (first, ana), (second, bruno) = held(one), held(one)
        one.begin()
        ahead = opened(one, intent(first, ana, kept=DAY))
        slow = two.start(opening(intent(second, bruno, kept=DAY)))

        assert two.has_to_wait_for(one, slow)
        one.commit()
        [(_, behind)] = answer(slow)
        assert (ahead.opened, ahead.operation) == (id, "results/1")
        assert (behind.opened, behind.operation, behind.asked) == (None, None, id)
        assert one.value("select worker_id from retoma.calls") == ana


class TestOpenOfNoJob:
    def test_it_is_written_without_a_job_and_nobody_pays(self, db: BatchHand) -> None:
        batch_of(db, 1, "1")
        found = opened(db, NO_JOB)

        assert found.opened
        assert db.sql("select job_id, batch_id, worker_id, state from retoma.calls") == [(None, None, None, "open")]
        assert db.value("select reserved from retoma.batches") == 0

    def test_an_answer_serves_who_has_a_job_and_who_has_none(self, db: BatchHand) -> None:
        id = opened(db, NO_JOB).opened or 0
        answered(db, id)

        assert opened(db, NO_JOB).known == id
        assert opened(db, intent(*held(db))).known == id

    def test_who_asks_the_same_waits_while_it_may_be_answered_and_not_longer(self, db: BatchHand) -> None:
        id = opened(db, NO_JOB).opened or 0

        assert [opened(db, NO_JOB).asked, opened(db, intent(*held(db))).asked] == [id, id]
        db.sql("update retoma.calls set awaited_until = now()")
        assert opened(db, NO_JOB).opened
        assert db.sql("select kind, state from retoma.calls order by id") == [("first", "doubtful"), ("again", "open")]


class TestOpenOfMany:
    def test_each_is_decided_by_itself(self, db: BatchHand) -> None:
        worker = db.hello()
        for _ in range(4):
            db.one_job()
        known, under_way, new, stale = db.claim(worker, limit=4)
        first = opened(db, intent(known, worker, key="known")).opened or 0
        answered(db, first)
        second = opened(db, intent(under_way, worker, key="under way")).opened
        asked = [
            intent(new, worker, key="known"),
            intent(new, worker, key="under way", step="b"),
            intent(new, worker, key="new", step="c"),
            intent(stale, worker, key="stale", fence=stale.fence + 1),
        ]
        found = dict(db.ask(opening(*asked)))

        assert (found[1].known, found[1].opened) == (first, None)
        assert (found[2].asked, found[2].opened) == (second, None)
        assert found[3].opened is not None
        assert found.keys() == {1, 2, 3}, "whose job is another's does not come back"

    def test_together_they_never_pass_a_budget(self, db: BatchHand) -> None:
        batch_of(db, 4, "1.20")
        worker = db.hello()
        asked = [intent(claim, worker, key=str(claim.id)) for claim in db.claim(worker, limit=4)]
        found = [each.opened is not None for _, each in db.ask(opening(*asked))]

        assert found == [True, True, False, False]
        assert db.value("select reserved from retoma.batches") == Decimal("1.00")
        assert db.breaches() == []

    def test_one_who_is_too_late_takes_no_other_along_and_reserves_nothing(
        self, hand: Callable[..., BatchHand]
    ) -> None:
        one, two = hand(), hand()
        batch_of(one, 3, "10")
        worker = one.hello()
        first, second, third = one.claim(worker, limit=3)
        one.sql(
            "update retoma.jobs set batch_id = null where id = %(id)s", id=first.id
        )  # so that no purse is waited for
        one.begin()
        ahead = opened(one, intent(first, worker)).opened
        slow = two.start(opening(intent(second, worker), intent(third, worker, key="other")))

        assert two.has_to_wait_for(one, slow)
        one.commit()
        late, other = (found for _, found in answer(slow))
        assert (late.opened, late.asked) == (None, 0)
        assert other.opened not in (None, ahead)
        assert one.value("select reserved from retoma.batches") == Decimal("0.50")


class TestOpenOfItsOwn:
    """Without reuse no other job's answer is taken, and the step's own is."""

    def test_the_answer_of_an_earlier_attempt_is_found_whatever_the_fence(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker, reuse=False)).opened or 0
        answered(db, id)
        (new,) = handed_over(db, claim)
        later = intent(claim, new, fence=claim.fence + 1, reuse=False)

        assert opened(db, later).known == id
        assert opened(db, dataclasses.replace(later, step="other")).known is None, "another step wants another throw"
        assert opened(db, intent(*held(db), reuse=False)).known is None, "and so does another job"

    def test_while_it_is_under_way_the_next_attempt_waits_for_it(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker, reuse=False)).opened
        db.sql("update retoma.jobs set fence = fence + 1")
        found = opened(db, intent(claim, worker, fence=claim.fence + 1, reuse=False))

        assert (found.asked, found.opened, found.here, found.ours) == (id, None, True, False)
        assert db.value("select state from retoma.calls") == "open"

    @pytest.mark.parametrize(
        "change",
        [
            "update retoma.workers set stopped_at = now() where id = (select min(id) from retoma.workers)",
            "update retoma.calls set own_until = now()",
        ],
        ids=["its executor is gone", "it takes too long"],
    )
    def test_nobody_waits_for_what_will_not_come_and_the_next_says_again(self, db: BatchHand, change: str) -> None:
        claim, _ = held(db)
        opened(db, intent(claim, _, reuse=False))
        new = db.hello()
        db.sql("update retoma.jobs set fence = fence + 1, worker_id = %(new)s", new=new)
        db.sql(change)
        found = opened(db, intent(claim, new, fence=claim.fence + 1, reuse=False))

        assert (found.opened is not None, found.doubts) == (True, 1)
        assert db.sql("select kind, state from retoma.calls order by id") == [("first", "doubtful"), ("again", "open")]

    def test_a_statement_that_is_repeated_finds_what_it_wrote_itself(self, db: BatchHand) -> None:
        claim, worker = held(db)
        first = intent(claim, worker, reuse=False, before=False)
        id = opened(db, first).opened
        found = opened(db, dataclasses.replace(first, before=True))

        assert (found.asked, found.here, found.ours) == (id, True, True)

    def test_a_restart_asks_anew_and_says_again(self, db: BatchHand) -> None:
        claim, worker = held(db)
        answered(db, opened(db, intent(claim, worker, reuse=False)).opened or 0)
        db.sql("update retoma.jobs set restarted_fence = fence, fence = fence + 1")
        found = opened(db, intent(claim, worker, fence=claim.fence + 1, reuse=False))

        assert found.known is None
        assert db.sql("select kind from retoma.calls order by id") == [("first",), ("again",)]


class TestUnfit:
    def test_an_answer_that_did_not_fit_is_given_to_its_own_job_alone(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker)).opened or 0
        answered(db, id)
        assert db.ask(calls.unfit([id])) == [id]
        db.sql("update retoma.jobs set fence = fence + 1")

        assert opened(db, intent(claim, worker, fence=claim.fence + 1)).known == id, "an attempt that follows by itself"
        assert opened(db, intent(*held(db))).known is None

    @pytest.mark.parametrize("wish", ["retry", "restart"])
    def test_after_a_person_s_wish_the_model_is_asked_again_once_for_each(self, db: BatchHand, wish: str) -> None:
        claim, worker = held(db)
        for time in range(1, 4):
            found = opened(db, intent(claim, worker, fence=time))
            assert found.opened is not None
            answered(db, found.opened)
            db.ask(calls.unfit([found.opened]))
            assert opened(db, intent(claim, worker, fence=time)).known == found.opened
            failed = "update retoma.jobs set state = 'failed', worker_id = null, finished_at = now()"
            db.sql(failed)
            db.ask(jobs.retry([claim.id]) if wish == "retry" else jobs.restart(claim.id))
            assert [each.fence for each in db.claim(worker)] == [time + 1]

        assert db.sql("select kind from retoma.calls order by id") == [("first",), ("again",), ("again",)]

    def test_what_is_not_answered_cannot_be_unfit(self, db: BatchHand) -> None:
        claim, worker = held(db)

        assert db.ask(calls.unfit([opened(db, intent(claim, worker)).opened or 0])) == []


class TestAccept:
    def test_the_operation_is_kept_whoever_has_the_job_by_now(self, db: BatchHand) -> None:
        claim, _, id = handed_in(db)
        handed_over(db, claim)
        db.sql("update retoma.calls set state = 'doubtful'")

        assert db.ask(calls.accept(id, "results/2")) == [id]
        assert db.ask(calls.one(id))[0].request_id == "results/2"

    def test_what_is_over_is_not_touched(self, db: BatchHand) -> None:
        _, _, id = handed_in(db)
        answered(db, id, dataclasses.replace(SETTLED, request_id=None))

        assert db.ask(calls.accept(id, "results/2")) == []
        assert db.ask(calls.one(id))[0].request_id == "results/1", "an answer does not forget where it was found"


class TestRest:
    def test_why_is_noted_until_there_is_an_answer(self, db: BatchHand) -> None:
        _, worker, id = handed_in(db)

        assert db.ask(calls.rest(id, worker_id=worker, status=500, error="down", text="<html>")) == [id]
        assert db.ask(calls.rest(id, worker_id=worker)) == [id]
        assert db.sql("select state, status, error, text, awaited_until <= clock_timestamp() from retoma.calls") == [
            ("open", 500, "down", "<html>", True)
        ]
        answered(db, id)
        assert db.sql("select status, error, text from retoma.calls") == [(None, None, "1")]

    def test_another_throw_stays_one_that_nobody_waits_for(self, db: BatchHand) -> None:
        _, worker, id = handed_in(db, reuse=False)
        db.ask(calls.rest(id, worker_id=worker))

        assert db.value("select awaited_until from retoma.calls") is None

    def test_who_does_not_look_for_it_any_more_says_nothing(self, db: BatchHand) -> None:
        _, worker, id = handed_in(db)

        assert db.ask(calls.rest(id, worker_id=worker + 1)) == []
        db.sql("update retoma.calls set request_id = null")
        assert db.ask(calls.rest(id, worker_id=worker)) == [], "it was never handed in"


class TestWithdraw:
    def test_what_was_handed_in_cannot_be_taken_back(self, db: BatchHand) -> None:
        _, _, id = handed_in(db)

        assert db.ask(calls.withdraw(id)) == []
        assert db.ask(calls.one(id))[0].state == "open"

    def test_what_was_not_asked_leaves_nothing_reserved(self, db: BatchHand) -> None:
        batch_of(db, 1, "1")
        worker = db.hello()
        [claim] = db.claim(worker)
        id = opened(db, intent(claim, worker)).opened or 0

        assert db.value("select reserved from retoma.batches") == Decimal("0.50")
        db.ask(calls.withdraw(id))
        assert db.value("select reserved from retoma.batches") == 0
        assert db.ask(calls.one(id)) == []


class TestAnswer:
    def test_the_reservation_becomes_what_it_cost(self, db: BatchHand) -> None:
        batch_of(db, 1, "1")
        worker = db.hello()
        [claim] = db.claim(worker)
        answered(db, opened(db, intent(claim, worker)).opened or 0)

        assert db.sql("select spent, reserved from retoma.batches") == [(Decimal("0.30"), 0)]

    def test_a_late_answer_is_kept_though_the_job_is_another_s(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker)).opened or 0
        db.sql(
            "update retoma.jobs set fence = fence + 1, worker_id = %(w)s where id = %(id)s", w=db.hello(), id=claim.id
        )
        db.sql("update retoma.calls set state = 'doubtful'")

        assert answered(db, id) == [id]
        assert db.ask(calls.one(id))[0].answer == '{"said": 1}'

    def test_a_call_is_answered_once(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker)).opened or 0

        assert answered(db, id) == [id]
        assert answered(db, id) == []


class TestFail:
    def test_what_was_surely_not_billed_leaves_nothing_reserved_and_doubt_keeps_it(self, db: BatchHand) -> None:
        batch_of(db, 2, "10")
        worker = db.hello()
        one, two = (opened(db, intent(each, worker, key=str(each.id))).opened for each in db.claim(worker, limit=2))
        db.ask(calls.fail(one or 0, paid=False, status=429, error="no"))
        db.ask(calls.fail(two or 0, paid=None, status=None, error="?"))

        assert db.value("select reserved from retoma.batches") == Decimal("0.50")
        assert db.sql("select state from retoma.calls order by id") == [("failed",), ("doubtful",)]

    def test_what_was_surely_billed_is_spent_though_there_is_no_answer(self, db: BatchHand) -> None:
        batch_of(db, 1, "10")
        worker = db.hello()
        [claim] = db.claim(worker)
        db.ask(
            calls.fail(opened(db, intent(claim, worker)).opened or 0, paid=True, status=200, error="?", text="<html>")
        )

        assert db.sql("select spent, reserved from retoma.batches") == [(Decimal("0.50"), 0)]
        assert db.breaches() == []


class TestOne:
    def test_a_call_is_told_whole(self, db: BatchHand) -> None:
        claim, worker = held(db)
        [call] = db.ask(calls.one(opened(db, intent(claim, worker)).opened or 0))

        assert (call.provider, call.model, call.step, call.request) == ("openai", "gpt", "ask", '{"q": 1}')


class TestPage:
    def test_calls_come_newest_first_by_what_is_asked_for(self, db: BatchHand) -> None:
        claim, worker = held(db)
        ids = [opened(db, intent(claim, worker, key=key)).opened or 0 for key in "abc"]
        answered(db, ids[1])

        assert [each.id for each in db.ask(calls.page(job_id=claim.id))] == ids[::-1]
        assert [each.id for each in db.ask(calls.page(state="answered"))] == [ids[1]]
        assert [each.id for each in db.ask(calls.page(before=ids[2], limit=1))] == [ids[1]]


class TestSpend:
    def test_useful_paid_again_and_doubtful_are_told_apart_and_add_up(self, db: BatchHand) -> None:
        claim, worker = held(db)
        for key, kind in (("a", "first"), ("b", "repair"), ("c", "first")):
            id = opened(db, intent(claim, worker, key=key, kind=kind)).opened or 0
            if key != "c":
                answered(db, id)

        [found] = db.ask(calls.spend("model"))
        assert (found.name, found.calls, found.answered) == ("openai/gpt", 3, 2)
        assert (found.useful, found.again, found.doubtful) == (Decimal("0.30"), Decimal("0.30"), Decimal("0.50"))
        for by in ("provider", "day", "step", "batch", "job"):
            assert len(db.ask(calls.spend(by))) == 1

    def test_what_was_billed_for_no_answer_is_lost(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker)).opened or 0
        db.ask(calls.fail(id, paid=True, status=200, error="AnswerUnreadable"))

        [found] = db.ask(calls.spend("model"))

        assert (found.answered, found.useful, found.again, found.lost) == (0, 0, 0, Decimal("0.50"))


def labelled(db: BatchHand) -> None:
    """Let every call be of a batch with two labels."""
    db.sql(
        "insert into retoma.batches (name, pipeline, queue, lane_id, labels, max_resumes, stall_seconds) "
        """values ('b', 'read', 'letters', 0, '{"client": "ana", "court": "sp"}', 3, 60)"""
    )
    db.sql("update retoma.calls set batch_id = (select max(id) from retoma.batches)")


class TestSpendByLabel:
    def test_what_was_paid_counts_under_every_label_of_its_batch(self, db: BatchHand) -> None:
        claim, worker = held(db)
        answered(db, opened(db, intent(claim, worker)).opened or 0)
        labelled(db)

        found = {each.name: each.useful for each in db.ask(calls.spend_by_label())}

        assert found == {"client=ana": Decimal("0.30"), "court=sp": Decimal("0.30")}
        assert db.ask(calls.spend_by_label(until=datetime(2000, 1, 1, tzinfo=UTC))) == []

    def test_a_page_goes_on_after_the_last_row_that_was_seen(self, db: BatchHand) -> None:
        claim, worker = held(db)
        answered(db, opened(db, intent(claim, worker)).opened or 0)
        labelled(db)

        [first] = db.ask(calls.spend_by_label(limit=1))
        rest = db.ask(calls.spend_by_label(after=(first.paid, first.name)))

        assert [first.name, *(each.name for each in rest)] == ["court=sp", "client=ana"]


class TestBudgets:
    def test_only_batches_with_a_budget_are_told_with_what_is_spent(self, db: BatchHand) -> None:
        labelled(db)
        assert db.ask(calls.budgets()) == []
        db.sql("update retoma.batches set budget = 5, spent = 2")

        [found] = db.ask(calls.budgets())

        assert (found.budget, found.spent) == (Decimal(5), Decimal(2))


class TestAbandon:
    def test_a_request_whose_executor_is_gone_is_in_doubt_when_its_time_is_over(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker)).opened
        assert db.ask(calls.abandon()) == [], "somebody awaits it"

        db.sql("update retoma.workers set stopped_at = now()")
        assert db.ask(calls.abandon()) == [], "it may still be answered"
        db.sql("update retoma.calls set awaited_until = now() - interval '1 second'")

        assert db.ask(calls.abandon()) == [id]
        assert [each.state for each in db.ask(calls.page(limit=9))] == ["doubtful"]
        assert db.ask(calls.abandon()) == []

    def test_what_is_awaited_for_long_and_what_was_handed_in_are_left_alone(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker)).opened or 0
        db.sql("update retoma.calls set awaited_until = now() - interval '1 second'")
        assert db.ask(calls.abandon()) == [], "its executor lives"

        db.ask(calls.accept(id, "operation"))
        db.sql("update retoma.workers set stopped_at = now()")
        db.sql("update retoma.calls set awaited_until = now() - interval '1 second'")

        assert db.ask(calls.abandon()) == []

        db.sql("update retoma.calls set asked_at = now() - interval '49 hours'")
        assert db.ask(calls.abandon()) == [id], "whoever took it in has forgotten it by now"


class TestPrice:
    def test_the_price_of_today_is_the_latest_that_has_begun(self, db: BatchHand) -> None:
        for days, price in ((-30, "1"), (-1, "2"), (5, "3")):
            db.sql(
                "insert into retoma.prices (provider, model, since, input, source)"
                " values ('p', 'm', current_date + %(days)s, %(price)s, 'x')",
                days=days,
                price=Decimal(price),
            )

        assert db.ask(calls.price("p", "m"))[0].input == 2
        assert db.ask(calls.price("p", "other")) == []


class TestPrices:
    def test_each_model_has_one_price_today(self, db: BatchHand) -> None:
        for model in ("a", "b"):
            db.ask(calls.set_price("p", model, {"input": Decimal(1)}))

        assert [each.model for each in db.ask(calls.prices())] == ["a", "b"]


class TestSetPrice:
    def test_a_person_s_price_wins_and_what_is_known_does_not_replace_it(self, db: BatchHand) -> None:
        db.ask(calls.set_price("p", "m", {"input": Decimal(7)}))

        assert db.ask(calls.set_price("p", "m", {"input": Decimal(1)}, source="known", replace=False)) == []
        assert db.ask(calls.price("p", "m"))[0].input == 7
        db.ask(calls.set_price("p", "m", {"input": Decimal(8)}))
        assert db.ask(calls.price("p", "m"))[0].input == 8


class TestPrune:
    def test_an_old_call_goes_when_its_job_is_gone_and_not_before(self, db: BatchHand) -> None:
        claim, worker = held(db)
        id = opened(db, intent(claim, worker)).opened or 0
        db.sql("update retoma.calls set asked_at = now() - interval '31 days'")
        month = 30 * 86_400.0

        assert [each.gone for each in db.ask(calls.prune(month))] == [0]
        db.sql("delete from retoma.jobs")
        assert db.ask(calls.prune(2 * month)) == []
        assert [(each.id, each.gone) for each in db.ask(calls.prune(month))] == [(id, 1)]


class TestSetTierPrice:
    def test_a_tier_has_a_price_beside_the_standard_one(self, db: BatchHand) -> None:
        db.ask(calls.set_price("p", "m", {"input": Decimal(2)}))
        db.ask(calls.set_tier_price("p", "m", "batch", {"input": Decimal(9)}))
        db.ask(calls.set_tier_price("p", "m", "batch", {"input": Decimal(1)}))

        assert [(each.tier, each.input) for each in db.ask(calls.price("p", "m"))] == [("", 2), ("batch", 1)]


class TestPriceStory:
    def test_it_tells_every_price_the_oldest_first(self, db: BatchHand) -> None:
        for day in (date(2026, 5, 1), date(2026, 1, 1)):
            db.ask(calls.set_price("p", "m", {"input": Decimal(day.month)}, since=day))

        assert [each.input for each in db.ask(calls.price_story("p", "m"))] == [1, 5]


def unpriced_call(db: BatchHand) -> int:
    id: int = db.value(
        "insert into retoma.calls (key, provider, model, request, state, answer, answered_at, cost_basis, input_tokens)"
        " values ('k', 'p', 'm', '{}', 'answered', '{}', now(), 'unpriced', 7) returning id"
    )
    return id


class TestUnpriced:
    def test_calls_without_a_price_are_found_after_a_cursor(self, db: BatchHand) -> None:
        id = unpriced_call(db)

        assert [(each.id, each.usage.input_tokens) for each in db.ask(calls.unpriced(after=id - 1))] == [(id, 7)]
        assert db.ask(calls.unpriced(after=id)) == []


class TestReprice:
    def test_only_the_first_who_says_a_cost_is_heard(self, db: BatchHand) -> None:
        id = unpriced_call(db)

        assert db.ask(calls.reprice([(id, Decimal(3), "own")])) == [(id, 3)]
        assert db.ask(calls.reprice([(id, Decimal(4), "own")])) == []
        assert db.ask(calls.one(id))[0].cost == 3
