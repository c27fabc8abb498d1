"""Commands on large batches: decided at once, carried out a piece at a time, by whoever comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from store_batch import BatchHand, ending, hands
from store_hand import completed

from retoma.commands import maintenance
from retoma.commands import operations as operation_commands
from retoma.errors import BatchConflict
from retoma.model.batch import Operation
from retoma.store import jobs, operations

Hands = Callable[..., BatchHand]
JOBS = 7


@pytest.fixture
def hand(room: str) -> Iterator[Hands]:
    yield from hands(room)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_commands, "SMALL", 3)
    monkeypatch.setattr(operation_commands, "_AT_A_TIME", 2)


def now(db: BatchHand, id: int) -> Operation:
    return db.ask(operations.of(id))[0]


def carry(db: BatchHand, id: int, pieces: int = 100) -> Operation:
    """So many pieces of the newest operation, or all of it."""
    for _ in range(pieces):
        if now(db, id).finished:
            break
        db.do(operation_commands.piece(now(db, id).id))
    return now(db, id)


def failed(db: BatchHand, number: int = JOBS) -> int:
    worker, id = db.hello(lease=1e7), db.batch(number, max_retries=0)
    db.end(worker, *(ending(each, "failed") for each in db.take(worker, id, number)))
    assert db.is_(id) == "completed"
    return id


class TestBegin:
    def test_a_small_batch_needs_none(self, db: BatchHand) -> None:
        id = db.batch(3)
        db.cancel(id)

        assert (db.states_of(id), db.ask(operations.of(id))) == (["cancelled"] * 3, [])

    def test_a_large_one_is_cancelled_at_once_and_its_jobs_follow(self, db: BatchHand) -> None:
        id = db.batch(JOBS)
        db.cancel(id)

        assert (db.is_(id), db.states_of(id), db.counts(id)) == ("cancelled", ["queued"] * JOBS, (JOBS, JOBS, 0))
        assert (now(db, id).kind, now(db, id).wanted, now(db, id).done) == ("cancel", JOBS, 0)
        assert db.claim(db.hello(), 10) == [], "its lane is closed"
        over = carry(db, id)
        assert (over.done, over.error, db.states_of(id)) == (JOBS, None, ["cancelled"] * JOBS)
        assert (db.counts(id), db.one(id).operation_id, db.breaches()) == ((JOBS, 0, 0), None, [])

    def test_a_large_one_is_retried_while_its_first_jobs_run_and_is_completed_once(self, db: BatchHand) -> None:
        id = failed(db)
        did = db.retry_failed(id)
        assert (did.changed, did.word, db.is_(id)) == (True, "retried", "running")
        worker = db.hello(lease=1e7)
        while not now(db, id).finished:
            db.do(operation_commands.piece(now(db, id).id))
            db.end(worker, *(completed(each) for each in db.claim(worker, 10)))

        assert (db.is_(id), db.states_of(id), db.counts(id)) == ("completed", ["completed"] * JOBS, (JOBS, 0, 0))
        assert db.told(id).count("completed") == 2, "at first, and when all were tried again"
        assert (now(db, id).done, db.breaches()) == (JOBS, [])

    def test_what_fails_again_is_not_tried_for_ever(self, db: BatchHand) -> None:
        id = failed(db)
        db.retry_failed(id)
        worker = db.hello(lease=1e7)
        for _ in range(20):
            if now(db, id).finished:
                break
            db.do(operation_commands.piece(now(db, id).id))
            db.end(worker, *(ending(each, "failed") for each in db.claim(worker, 10)))

        assert (now(db, id).done, db.is_(id), db.counts(id)) == (JOBS, "completed", (JOBS, 0, JOBS))

    def test_a_large_one_is_restarted_each_job_once(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e7), db.batch(JOBS)
        for _ in range(JOBS):
            db.end(worker, *(completed(each) for each in db.claim(worker, 10)))
        assert db.is_(id) == "completed"
        db.restart(id)
        ran: list[int] = []
        while not now(db, id).finished:
            db.do(operation_commands.piece(now(db, id).id))
            claims = db.claim(worker, 10)
            ran += [each.id for each in claims]
            db.end(worker, *(completed(each) for each in sorted(claims, key=lambda each: each.id)))

        assert (sorted(ran), db.is_(id), db.breaches()) == (db.jobs_of(id), "completed", [])

    def test_nothing_to_retry_changes_nothing(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e7), db.batch(JOBS)
        db.end(worker, *(completed(each) for each in db.take(worker, id, JOBS)))

        assert [db.retry_failed(id, cancelled=each).word for each in (False, True)] == ["nothing_to_retry"] * 2
        assert (db.is_(id), db.ask(operations.of(id))) == ("completed", [])


class TestCome:
    def test_one_at_a_time(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.batch(JOBS)
        one.cancel(id)
        one.begin()

        assert one.ask(operations.come(now(one, id).id)) == [True]
        assert two.ask(operations.come(now(one, id).id)) == [False]
        assert two.do(operation_commands.piece(now(one, id).id)) is False


class TestTake:
    def test_who_comes_after_another_sees_how_far_that_one_came(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(lease=1e7), one.batch(JOBS)
        one.end(worker, *(completed(each) for each in one.take(worker, id, JOBS)))
        one.restart(id)
        for each in (one, two, one, two, one):
            carry(each, id, 1)

        assert (now(one, id).finished, now(one, id).done, one.counts(id)) == (True, JOBS, (JOBS, JOBS, 0))


class TestAdvance:
    @pytest.mark.parametrize("command", ["cancel", "restart"])
    @pytest.mark.parametrize("small", [False, True])
    def test_a_job_in_other_hands_is_looked_at_again_until_it_is_free(
        self, hand: Hands, command: str, small: bool
    ) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(lease=1e7), one.batch(3 if small else JOBS)
        if command == "restart":
            one.end(worker, *(completed(each) for each in one.take(worker, id, JOBS)))
        held = one.jobs_of(id)[1]
        two.begin()
        two.sql("select id from retoma.jobs where id = %(id)s for update", id=held)

        one.cancel(id) if command == "cancel" else one.restart(id)
        assert not carry(one, id, 20).finished
        two.commit()

        assert (carry(one, id).error, one.breaches()) == (None, [])
        assert set(one.states_of(id)) == {"cancelled" if command == "cancel" else "queued"}


class TestFinish:
    """While one is under way others may be asked for; each is done, refused, or comes in its place."""

    def test_a_cancel_comes_in_place_of_a_retry(self, db: BatchHand) -> None:
        id = failed(db)
        db.retry_failed(id)
        first = carry(db, id, 1)
        db.cancel(id)

        assert [(each.kind, each.error) for each in db.ask(operations.of(id))] == [
            ("cancel", None), ("retry", "cancelled")
        ]  # fmt: skip
        assert carry(db, id).done == first.done == 2
        assert (sorted(db.states_of(id)), db.breaches()) == (["cancelled"] * 2 + ["failed"] * (JOBS - 2), [])

    def test_a_pause_and_a_resume_leave_it_going_on(self, db: BatchHand) -> None:
        id = failed(db)
        db.retry_failed(id)
        carry(db, id, 1)
        db.pause(id)
        carry(db, id)

        assert (db.is_(id), db.states_of(id)) == ("paused", ["queued"] * JOBS)
        db.resume(id)
        assert (db.is_(id), db.breaches()) == ("running", [])

    def test_one_that_fails_meanwhile_ends_a_retry(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e7), db.batch(30, max_failure_rate=0.2, max_retries=0)
        db.end(worker, *(ending(each, "failed") for each in db.take(worker, id, 5)))
        assert db.is_(id) == "failed"
        db.retry_failed(id)
        carry(db, id, 1)
        db.sql(
            "update retoma.batches set state = 'failed', was = 'running', finished_at = now() where id = %(id)s", id=id
        )
        db.sql("update retoma.lanes set closed_at = now()")

        assert carry(db, id).error == "failed"
        assert (db.is_(id), db.breaches()) == ("failed", [])

    def test_a_second_of_the_same_kind_finds_the_first_and_another_kind_is_refused(self, db: BatchHand) -> None:
        id = failed(db)
        db.retry_failed(id)

        assert (db.retry_failed(id).word, db.retry_failed(id).changed) == ("already_retrying", False)
        db.cancel(id)
        for command in (db.restart, partial(db.retry_failed, cancelled=True)):
            with pytest.raises(BatchConflict) as refused:
                command(id)
            assert refused.value.code == "operation_running"
        db.cancel(id)
        assert len(db.ask(operations.of(id))) == 2

    def test_a_batch_is_not_pruned_under_it(self, db: BatchHand) -> None:
        id = db.batch(JOBS)
        db.cancel(id)
        db.age(1e6)

        assert (db.do(maintenance.look_after()).expired, db.is_(id)) == ([], "cancelled")
        carry(db, id)
        assert db.breaches() == []


class TestOpen:
    def test_the_oldest_first_and_only_what_is_not_over(self, db: BatchHand) -> None:
        one, two, three = (db.batch(JOBS) for _ in range(3))
        for id in (one, two, three):
            db.cancel(id)
        carry(db, two)

        assert db.ask(operations.open()) == [now(db, one).id, now(db, three).id]
        assert db.ask(operations.open(limit=1)) == [now(db, one).id]


class TestOne:
    def test_how_far_it_has_come(self, db: BatchHand) -> None:
        id = db.batch(JOBS)
        db.cancel(id)
        carry(db, id, 2)

        [found] = db.ask(operations.one(now(db, id).id))
        assert (found.batch_id, found.done, found.wanted, found.finished) == (id, 4, JOBS, False)
        assert db.ask(jobs.one(db.jobs_of(id)[-1]))[0].state == "queued"


class TestOf:
    def test_the_newest_first_and_of_no_other_batch(self, db: BatchHand) -> None:
        id, other = failed(db), db.batch(JOBS)
        db.retry_failed(id)
        db.cancel(id)
        db.cancel(other)

        assert [each.kind for each in db.ask(operations.of(id))] == ["cancel", "retry"]
        assert [each.kind for each in db.ask(operations.of(id, limit=1))] == ["cancel"]
