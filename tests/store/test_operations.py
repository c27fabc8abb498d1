"""Commands on large batches: decided at once, carried out a piece at a time, by whoever comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from store_batch import BatchHand, ending, hands
from store_hand import completed

from retoma.commands import batch_actions, bulk, maintenance
from retoma.commands import operations as operation_commands
from retoma.errors import BatchConflict, ConfigurationError, Conflict
from retoma.model.batch import Operation
from retoma.model.operation import JobFilter
from retoma.store import failures, jobs, operations
from retoma.store.operations import Part

Hands = Callable[..., BatchHand]
JOBS = 7


@pytest.fixture
def hand(room: str) -> Iterator[Hands]:
    yield from hands(room)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_commands, "SMALL", 3)
    monkeypatch.setattr(operation_commands, "_AT_A_TIME", 2)
    monkeypatch.setattr(bulk, "_AT_A_TIME", 2)


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


# — over all batches, by a filter —


def begun(db: BatchHand, action: str = "retry", which: JobFilter = JobFilter(), **how: object) -> int:
    return db.do(bulk.begin(action, which, how, by="ana"))


def through(db: BatchHand, id: int, pieces: int = 100) -> Operation:
    """So many pieces of the operation, or all of it."""
    for _ in range(pieces):
        if db.ask(operations.one(id))[0].finished:
            break
        db.do(operation_commands.piece(id))
    return db.ask(operations.one(id))[0]


class TestBeginByFilter:
    def test_the_failed_jobs_of_every_batch_are_tried_again_once(self, db: BatchHand) -> None:
        one, two = failed(db, 3), failed(db, 4)

        over = through(db, begun(db))

        assert (over.done, over.passed, over.wanted, over.error) == (7, 0, 7, None)
        assert (over.asked_by, over.batch_id, over.share) == ("ana", None, 1.0)
        assert db.states_of(one) + db.states_of(two) == ["queued"] * 7
        assert (db.is_(one), db.is_(two), db.breaches()) == ("running", "running", [])

    def test_what_fails_again_meanwhile_is_not_tried_for_ever(self, db: BatchHand) -> None:
        batch, id, worker = failed(db), 0, db.hello(lease=1e7)
        id = begun(db)
        for _ in range(20):
            db.do(operation_commands.piece(id))
            db.end(worker, *(ending(each, "failed") for each in db.claim(worker, 10)))

        assert (through(db, id).done, db.counts(batch)) == (JOBS, (JOBS, 0, JOBS))

    def test_what_is_made_later_is_left_alone(self, db: BatchHand) -> None:
        db.enqueue(3)
        id = begun(db, "cancel")
        later = db.one_job()

        assert (through(db, id).done, db.state(later)) == (3, "queued")

    def test_a_filter_finds_what_it_says_and_no_other(self, db: BatchHand) -> None:
        batch, other = failed(db, 3), failed(db, 3)
        first = db.jobs_of(batch)[0]
        db.sql("update retoma.jobs set error = 'Timeout after 5 s' where id = %(id)s", id=first)
        (told,) = [each.fingerprint for each in db.ask(failures.groups(hours=1)) if each.sample == [first]]

        counts = [
            db.do(bulk.dry_run("retry", which, {})).jobs
            for which in (
                JobFilter(batch_id=batch), JobFilter(fingerprint=told), JobFilter(pipeline="other"),
                JobFilter(pipeline="read"), JobFilter(queue="other"), JobFilter(key_prefix="nobody"),
                JobFilter(ids=(first, 10**12)), JobFilter(states=("cancelled",)),
            )
        ]  # fmt: skip

        assert counts == [3, 1, 0, 6, 0, 0, 1, 0]
        assert through(db, begun(db, "retry", JobFilter(fingerprint=told))).done == 1
        assert db.states_of(other) == ["failed"] * 3

    @pytest.mark.parametrize(
        ("action", "which", "how"),
        [
            ("explode", JobFilter(), {}),
            ("retry", JobFilter(states=("completed",)), {}),
            ("move", JobFilter(), {}),
            ("retry", JobFilter(), {"queue": "fast"}),
            ("cancel", JobFilter(), {"attempts": 2}),
            ("priority", JobFilter(), {"priority": 100_000}),
            ("retry", JobFilter(ids=tuple(range(1, 1002))), {}),
        ],
    )
    def test_what_cannot_be_done_is_refused(
        self, db: BatchHand, action: str, which: JobFilter, how: dict[str, object]
    ) -> None:
        with pytest.raises(ConfigurationError):
            db.do(bulk.begin(action, which, how, by=None))
        assert db.ask(operations.page()) == []


class TestDiscarding:
    def test_failures_are_settled_by_a_filter_passed_over_by_a_retry_and_reinstated(self, db: BatchHand) -> None:
        batch = failed(db, 3)

        settled = through(db, begun(db, "discard", JobFilter(batch_id=batch)))
        retried = db.do(bulk.dry_run("retry", JobFilter(batch_id=batch), {}))
        again = db.do(batch_actions.retry_failed(batch, fingerprint=None, cancelled=False, attempts=None))

        assert (settled.done, retried.jobs, retried.skipped) == (3, 0, {"discarded": 3})
        assert (again.word, db.ask(failures.groups(hours=1))) == ("nothing_to_retry", [])
        assert (db.progress(batch).failed, db.progress(batch).discarded) == (3, 3)
        assert through(db, begun(db, "discard", JobFilter(batch_id=batch))).skipped == {"already": 3}

        back = through(db, begun(db, "reinstate", JobFilter(batch_id=batch)))

        assert (back.done, db.do(bulk.dry_run("retry", JobFilter(), {})).jobs) == (3, 3)


class TestCount:
    def test_a_dry_run_says_how_many_and_why_not_and_changes_nothing(self, db: BatchHand) -> None:
        batch = db.batch(2)
        db.lanes("slow")
        alone, laned = db.one_job(), db.one_job(lane="slow")
        there = db.one_job(queue="fast")

        found = db.do(bulk.dry_run("move", JobFilter(), {"queue": "fast"}))

        assert (found.jobs, found.skipped) == (1, {"in_batch": 2, "in_lane": 1, "already": 1})
        assert ([each.id for each in found.sample], found.batches, found.exact) == ([alone], 0, True)
        assert [db.job(each).queue for each in (alone, laned, there)] == ["letters", "letters", "fast"]
        assert db.states_of(batch) == ["queued"] * 2

    def test_a_count_is_bounded_and_says_so(self, db: BatchHand, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk, "_VISITED", 2)
        monkeypatch.setattr(bulk, "_LOOKS", 2)
        db.enqueue(10)

        found = db.do(bulk.dry_run("cancel", JobFilter(), {}))

        assert (found.jobs, found.exact) == (4, False)


class TestPick:
    def test_a_job_in_other_hands_is_visited_again_until_it_is_free(self, hand: Hands) -> None:
        one, two = hand(), hand()
        ids = one.enqueue(5)
        two.begin()
        two.sql("select id from retoma.jobs where id = %(id)s for update", id=ids[1])
        id = begun(one, "cancel")

        assert (through(one, id, 20).done, one.ask(operations.one(id))[0].finished) == (4, False)
        two.commit()

        assert (through(one, id).done, {one.state(each) for each in ids}) == (5, {"cancelled"})

    def test_a_batch_under_another_operation_is_passed_over(self, db: BatchHand) -> None:
        batch = failed(db)
        db.retry_failed(batch)
        carry(db, batch, 1)
        over = through(db, begun(db))

        assert (over.done, over.skipped) == (0, {"busy": JOBS - 2})
        assert (carry(db, batch).done, db.breaches()) == (JOBS, [])

    def test_running_jobs_are_asked_to_stop_once(self, db: BatchHand) -> None:
        worker = db.hello(lease=1e7)
        db.enqueue(3)
        db.claim(worker, 1)

        assert through(db, begun(db, "cancel")).done == 3
        assert through(db, begun(db, "cancel")).skipped == {"already": 1}

    def test_named_jobs_that_changed_are_counted_as_such(self, db: BatchHand) -> None:
        ids = tuple(db.enqueue(2))

        over = through(db, begun(db, "retry", JobFilter(ids=ids)))

        assert (over.done, over.skipped) == (0, {"state": 2})

    def test_it_looks_along_an_index_and_not_at_every_job(self, db: BatchHand) -> None:
        db.enqueue(5)
        part = Part(kind="retry", filter=JobFilter(states=("failed",)), asked={}, limit=2, look=2)

        assert db.ask(operations.pick(part))[0].stopped is None, "no job has failed, so none is visited"


class TestPage:
    def test_newest_first_and_those_under_way(self, db: BatchHand) -> None:
        db.enqueue(3)
        one = begun(db, "priority", priority=5)
        through(db, one)
        two = begun(db, "cancel")

        assert [each.id for each in db.ask(operations.page())] == [two, one]
        assert [each.id for each in db.ask(operations.page(before=two))] == [one]
        assert [each.id for each in db.ask(operations.page(under_way=True))] == [two]

    def test_one_that_is_cancelled_does_no_more_and_what_it_did_stays(self, db: BatchHand) -> None:
        ids = db.enqueue(5)
        id = begun(db, "cancel")
        through(db, id, 1)
        now = db.do(operation_commands.cancel(id))

        assert (now.error, through(db, id).done, [db.state(each) for each in ids].count("queued")) == (
            "cancelled", 2, 3
        )  # fmt: skip
        with pytest.raises(Conflict):
            db.do(operation_commands.cancel(id))

    def test_that_of_a_batch_is_not_cancelled_by_itself(self, db: BatchHand) -> None:
        batch = db.batch(JOBS)
        db.cancel(batch)

        with pytest.raises(Conflict, match="belongs to batch"):
            db.do(operation_commands.cancel(now(db, batch).id))


class TestPrune:
    def test_old_ones_go_and_those_under_way_stay(self, db: BatchHand) -> None:
        db.enqueue(3)
        old = begun(db, "priority", priority=5)
        through(db, old)
        db.sql("update retoma.operations set finished_at = now() - interval '2 days'")
        open_one = begun(db, "cancel")

        assert db.ask(operations.prune(86_400.0)) == [old]
        assert [each.id for each in db.ask(operations.page())] == [open_one]
