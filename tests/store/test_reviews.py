"""What waits for a person, block by block, and what happens when two people or a worker come at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from store_hand import PIPELINE, Hand, answer

from retoma.commands import decisions
from retoma.commands.reviews import Desk, Person, Said
from retoma.model.job import Ended
from retoma.model.review import DecisionKind, Doubt, Review
from retoma.postgres.connections import run_on_sync
from retoma.store import jobs, reviews
from retoma.store.reviews import NewDecision, ReviewFilter

Hands = Callable[..., Hand]
ANY = ReviewFilter()
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def review_of(db: Hand, *, margin: float | None = 0.5, label: str = "petition", **order: Any) -> Review:
    """A job that has ended in review."""
    worker = db.hello()
    claim = db.claimed(worker, **order)
    said = {"margin": margin, "label": label, "version": "v1", "confidence": 0.6, "evidence": {"text": "a"}}
    db.end(worker, Ended(claim, "review", output='"a"', reason="look", review=json.dumps(said)))
    [found] = db.ask(reviews.page(ANY, job_id=claim.id, limit=5))
    return found


def lease(
    db: Hand, holder: str = "ana", *, limit: int = 1, skipped: bool = False, wanted: ReviewFilter = ANY
) -> list[int]:
    return [each.id for each in db.ask(reviews.lease(holder, wanted, seconds=60, limit=limit, skipped=skipped))]


def doubt(item: str = "7", **changed: Any) -> Doubt:
    return Doubt(**{"item": item, "pipeline": "letters", "since": SINCE, "proposal": '"a"', "margin": 0.1} | changed)


def decided(key: str = "k", kind: DecisionKind = DecisionKind.ACCEPT, **changed: Any) -> NewDecision:
    return NewDecision(key=key, who="ana", name=None, kind=kind, **changed)


def settle(review: Review, **changed: Any) -> Any:
    given = {"was": "review", "state": "completed", "output": '"b"', "reason": None, "error": None} | changed
    return reviews.settle(review.job_id, review.fence, **given)


class TestFile:
    def test_what_an_extension_doubts_waits_once(self, db: Hand) -> None:
        db.ask(reviews.file("letters", [doubt(), doubt("8")]))

        again = db.ask(reviews.file("letters", [doubt()]))

        assert again == []
        assert sorted(each.item for each in db.ask(reviews.page(ANY, limit=5))) == ["7", "8"]

    def test_a_list_that_is_older_than_the_decision_brings_nothing_back(self, db: Hand) -> None:
        [id] = db.ask(reviews.file("letters", [doubt()]))
        db.ask(reviews.close(id))

        stale = db.ask(reviews.file("letters", [doubt()]))
        fresh = db.ask(reviews.file("letters", [doubt(since=datetime.now(UTC) + timedelta(minutes=1))]))

        assert (stale, fresh) == ([], [id])


class TestMine:
    def test_only_what_one_holds_begins_anew(self, db: Hand) -> None:
        one, other = review_of(db), review_of(db)
        lease(db, "ana"), lease(db, "bia")

        [mine] = db.ask(reviews.mine("ana", ANY, seconds=600))

        assert mine.id == one.id
        assert mine.leased_until - datetime.now(UTC) > timedelta(seconds=300)
        assert db.ask(reviews.mine("ana", ANY, seconds=60, ids=[other.id])) == []

    def test_a_lease_that_has_ended_is_nobody_s(self, db: Hand) -> None:
        review_of(db)
        lease(db, "ana")
        db.sql("update retoma.reviews set leased_until = now() - interval '1 second'")

        assert db.ask(reviews.mine("ana", ANY, seconds=60)) == []


class TestLease:
    def test_the_lowest_margin_comes_first_and_an_unknown_one_last(self, db: Hand) -> None:
        ids = [review_of(db, margin=each).id for each in (0.3, None, 0.1)]

        assert [lease(db, f"person {n}") for n in range(3)] == [[ids[2]], [ids[0]], [ids[1]]]

    def test_a_row_that_another_hand_is_leasing_is_passed_over(self, db: Hand, hand: Hands) -> None:
        one, two = review_of(db, margin=0.1), review_of(db, margin=0.2)
        other = hand()
        other.begin()

        assert lease(other, "bia") == [one.id]
        assert lease(db, "ana") == [two.id]
        other.commit()

    def test_what_one_skipped_comes_only_when_asked_for(self, db: Hand) -> None:
        id = review_of(db).id
        lease(db)
        db.ask(reviews.release("ana", [id], skip=True))

        assert lease(db) == []
        assert lease(db, skipped=True) == [id]

    def test_it_can_be_narrowed(self, db: Hand) -> None:
        review = review_of(db, label="ruling")

        for wanted in (
            ReviewFilter(label="petition"),
            ReviewFilter(pipeline="other"),
            ReviewFilter(pipelines=["other"]),
            ReviewFilter(batch_id=1),
            ReviewFilter(sources=["letters"]),
        ):
            assert lease(db, wanted=wanted) == []
        assert lease(db, wanted=ReviewFilter(label="ruling", pipelines=[PIPELINE], sources=["job"])) == [review.id]

    def test_a_job_that_was_tried_again_is_not_given_out(self, db: Hand) -> None:
        review = review_of(db)

        db.ask(jobs.retry([review.job_id]))

        assert lease(db) == []


class TestRelease:
    def test_only_the_holder_gives_it_back(self, db: Hand) -> None:
        review = review_of(db)
        lease(db, "ana")

        assert db.ask(reviews.release("bia", None, skip=False)) == []
        assert db.ask(reviews.release("ana", None, skip=False)) == [review.id]
        assert lease(db, "bia") == [review.id]


class TestHold:
    def test_it_tells_the_job_and_whether_somebody_else_looks(self, db: Hand) -> None:
        review = review_of(db)
        lease(db, "ana")

        [mine], [theirs] = db.ask(reviews.hold(review.id, "ana")), db.ask(reviews.hold(review.id, "bia"))

        assert (mine.job_state, mine.job_fence, mine.taken) == ("review", review.fence, False)
        assert theirs.taken

    def test_a_retry_waits_for_the_decision_and_finds_nothing_to_retry(self, db: Hand, hand: Hands) -> None:
        review = review_of(db)
        other = hand()
        db.begin()
        db.ask(reviews.hold(review.id, "ana"))
        asked = other.start(jobs.retry([review.job_id]))
        other.waits_for(db, asked)

        db.ask(settle(review))
        db.commit()

        assert asked.result() == []
        assert db.job(review.job_id).state == "completed"

    def test_a_decision_waits_for_the_retry_and_learns_of_it(self, db: Hand, hand: Hands) -> None:
        review = review_of(db)
        other = hand()
        db.begin()
        db.ask(jobs.retry([review.job_id]))
        asked = other.start(reviews.hold(review.id, "ana"))
        other.waits_for(db, asked)

        db.commit()

        assert asked.result()[0].job_state == "queued"

    def test_the_second_of_two_decisions_learns_of_the_first(self, db: Hand, hand: Hands) -> None:
        review = review_of(db)
        other = hand()
        db.begin()
        db.ask(reviews.hold(review.id, "ana"))
        asked = other.start(reviews.hold(review.id, "bia"))
        other.waits_for(db, asked)

        db.ask(settle(review))
        db.ask(reviews.close(review.id))
        db.commit()

        [held] = asked.result()
        assert (held.state, held.job_state) == ("settled", "completed")

    def test_a_worker_that_ends_the_job_again_does_not_deadlock_with_a_decision(self, db: Hand, hand: Hands) -> None:
        review = review_of(db)
        db.ask(jobs.retry([review.job_id]))
        worker = db.hello()
        [claim] = db.claim(worker, 1)
        other = hand()
        db.begin()
        db.end(worker, Ended(claim, "review", output='"c"', reason="again"))
        asked = other.start(reviews.hold(review.id, "ana"))
        other.waits_for(db, asked)

        db.commit()

        [held] = asked.result()
        assert (held.job_state, held.job_fence) == ("review", claim.fence)

    def test_a_cancelled_batch_leaves_what_waits_for_a_person(self, db: Hand) -> None:
        review = review_of(db)

        assert db.ask(jobs.cancel([review.job_id], reason="person")) == []
        assert lease(db) == [review.id]


class TestSettle:
    def test_the_job_moves_once(self, db: Hand) -> None:
        review = review_of(db)

        first, second = db.ask(settle(review)), db.ask(settle(review, output='"c"'))

        assert (first, second) == ([(review.job_id, "completed")], [])
        assert db.job(review.job_id).output == '"b"'

    def test_another_fence_moves_nothing(self, db: Hand) -> None:
        review = review_of(db)

        given = {"was": "review", "state": "completed", "output": "1", "reason": None, "error": None}
        assert db.ask(reviews.settle(review.job_id, review.fence - 1, **given)) == []


class TestClose:
    def test_a_closed_review_is_not_closed_again(self, db: Hand) -> None:
        review = review_of(db)

        assert db.ask(reviews.close(review.id, gone=True)) == [review.id]
        assert db.ask(reviews.close(review.id)) == []


class TestReopen:
    def test_only_what_was_decided_is_reopened(self, db: Hand) -> None:
        review, gone = review_of(db), review_of(db)
        db.ask(reviews.close(review.id))
        db.ask(reviews.close(gone.id, gone=True))

        assert db.ask(reviews.reopen(review.id, "ana", seconds=60)) == [review.id]
        assert db.ask(reviews.reopen(gone.id, "ana", seconds=60)) == []
        assert [each.id for each in db.ask(reviews.mine("ana", ANY, seconds=60))] == [review.id]


class TestOne:
    def test_it_has_all_that_the_handler_said(self, db: Hand) -> None:
        review = review_of(db, margin=0.25)

        [found] = db.ask(reviews.one(review.id))

        assert (found.margin, found.label, found.version, found.reason) == (0.25, "petition", "v1", "look")
        assert (found.proposal, json.loads(found.evidence or "")) == ('"a"', {"text": "a"})
        assert db.ask(reviews.one(review.id + 1)) == []


class TestPage:
    def test_it_goes_on_after_the_last_one_seen(self, db: Hand) -> None:
        ids = [review_of(db, margin=each).id for each in (0.1, 0.2, None)]

        [first] = db.ask(reviews.page(ANY, limit=1))
        rest = db.ask(reviews.page(ANY, after=(first.margin, first.id), limit=5))

        assert [first.id, *(each.id for each in rest)] == ids
        assert db.ask(reviews.page(ANY, after=(rest[-1].margin, rest[-1].id), limit=5)) == []


class TestCounts:
    def test_they_tell_what_waits_and_what_is_looked_at(self, db: Hand) -> None:
        review_of(db), review_of(db), review_of(db, label="ruling")
        lease(db)

        found = db.ask(reviews.counts(ANY))

        assert [(each.label, each.waiting, each.taken) for each in found] == [("petition", 2, 1), ("ruling", 1, 0)]


class TestDecide:
    def test_a_key_decides_once(self, db: Hand) -> None:
        review = review_of(db)

        assert len(db.ask(reviews.decide(review.id, decided()))) == 1
        assert db.ask(reviews.decide(review.id, decided())) == []

    def test_a_decision_is_undone_once(self, db: Hand) -> None:
        review = review_of(db)
        [id] = db.ask(reviews.decide(review.id, decided()))
        db.ask(reviews.decide(review.id, decided("u1", DecisionKind.UNDO, undoes=id)))

        with pytest.raises(psycopg.errors.UniqueViolation):
            db.ask(reviews.decide(review.id, decided("u2", DecisionKind.UNDO, undoes=id)))

    def test_nobody_changes_what_was_decided(self, db: Hand) -> None:
        review = review_of(db)
        db.ask(reviews.decide(review.id, decided()))

        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="never changed"):
            db.sql("update retoma.decisions set who = 'bia'")

    def test_it_goes_with_its_job(self, db: Hand) -> None:
        review = review_of(db)
        db.ask(settle(review))
        db.ask(reviews.decide(review.id, decided()))

        assert db.ask(jobs.prune(-1)) == [review.job_id]
        assert db.value("select count(*) from retoma.decisions") == 0
        assert db.value("select count(*) from retoma.reviews") == 0


class TestByKey:
    def test_it_has_the_proposal_beside_the_decision(self, db: Hand) -> None:
        review = review_of(db, margin=0.25)
        db.ask(reviews.decide(review.id, decided(decided='"b"', decided_label="ruling", note="n", seconds=2.0)))

        [found] = db.ask(reviews.by_key("k"))

        assert (found.proposed, found.decided, found.label, found.decided_label) == ('"a"', '"b"', "petition", "ruling")
        assert (found.margin, found.note, found.seconds, found.fence) == (0.25, "n", 2.0, review.fence)


class TestDecisions:
    def test_the_newest_comes_first_and_what_was_undone_can_be_left_out(self, db: Hand) -> None:
        one, two = review_of(db), review_of(db)
        [first] = db.ask(reviews.decide(one.id, decided("a")))
        [second] = db.ask(reviews.decide(two.id, decided("b")))
        [undo] = db.ask(reviews.decide(two.id, decided("c", DecisionKind.UNDO, undoes=second)))

        every = db.ask(reviews.decisions(ANY, limit=5))
        standing = db.ask(reviews.decisions(ANY, standing=True, limit=5))

        assert [(each.id, each.undone_by) for each in every] == [(undo, None), (second, undo), (first, None)]
        assert [each.id for each in standing] == [first]
        assert [each.id for each in db.ask(reviews.decisions(ANY, review_id=one.id, who="ana", limit=5))] == [first]


class TestExport:
    def test_it_goes_on_after_an_id(self, db: Hand) -> None:
        review = review_of(db)
        ids = [db.ask(reviews.decide(review.id, decided(each)))[0] for each in "abc"]

        assert [each.id for each in db.ask(reviews.export(ANY, after=ids[0], limit=5))] == ids[1:]
        assert db.ask(reviews.export(ReviewFilter(pipeline="other"), after=0, limit=5)) == []


class TestAgreement:
    def test_it_counts_what_people_kept(self, db: Hand) -> None:
        review = review_of(db)
        db.ask(reviews.decide(review.id, decided("a")))
        db.ask(reviews.decide(review.id, decided("b", DecisionKind.CORRECT)))
        db.ask(reviews.decide(review.id, decided("c", DecisionKind.RETRY)))

        [found] = db.ask(reviews.agreement(ANY))

        assert (found.label, found.version, found.tenth, found.decided, found.agreed) == ("petition", "v1", 6, 2, 1)


class TestUndoing:
    def test_an_undo_that_is_sent_twice_at_once_is_one_and_both_are_told_of_it(self, hand: Hands) -> None:
        db, other = hand(), hand()
        desk, ana, said = Desk(adapters={}, pipelines={}), Person(who="ana"), Said(key="undo")
        review = review_of(db)
        db.do(decisions.accept(desk, review.id, ana, Said()))
        undo = partial(decisions.undo, desk, ana, said, id=None, seconds=60)
        db.begin()
        first = run_on_sync(db.connection, undo())

        asked = other.start(lambda: other.do(undo()))
        other.waits_for(db, asked)
        db.commit()

        assert answer(asked) == first
