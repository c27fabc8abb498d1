"""Many jobs followed as one, block by block, and what each command does in each state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from store_batch import STALL, BatchHand, ending, hands, key, read
from store_hand import PIPELINE, QUEUE, completed

from retoma.commands import batch_actions, pruning
from retoma.commands import batches as batch_commands
from retoma.commands import operations as operation_commands
from retoma.commands.batches import BatchOptions
from retoma.errors import BatchConflict, ConfigurationError, NotFound
from retoma.model.batch import BatchState, Resumed
from retoma.model.job import Claim
from retoma.store import batch_figures, batches, jobs, operations, queues, workers
from retoma.store.batches import Piece, Seen
from retoma.store.jobs import MOST_CRASHES, Blame
from retoma.store.turns import Turns

Hands = Callable[..., BatchHand]

STATES = tuple(str(each) for each in BatchState)
NOBODY = 999_999_999
MOVES = {
    ("new", "queued"),
    ("queued", "running"), ("queued", "paused"), ("queued", "completed"), ("queued", "cancelled"),
    ("running", "completed"), ("running", "stalled"), ("running", "paused"), ("running", "failed"),
    ("running", "cancelled"),
    ("stalled", "running"), ("stalled", "completed"), ("stalled", "paused"), ("stalled", "failed"),
    ("stalled", "cancelled"),
    ("paused", "running"), ("paused", "queued"), ("paused", "completed"), ("paused", "cancelled"), ("paused", "failed"),
    ("completed", "running"), ("failed", "running"), ("failed", "completed"), ("cancelled", "running"),
}  # fmt: skip


@pytest.fixture
def hand(room: str) -> Iterator[Hands]:
    yield from hands(room)


def into(db: BatchHand, state: str, *, jobs: int = 3, **options: Any) -> int:
    """A batch in this state, on the way anybody would take."""
    id = db.batch(jobs, **options)
    if state == "queued":
        return id
    if state == "paused":
        db.pause(id)
        return id
    worker = db.hello()
    if state == "completed":
        db.finish(worker, *["completed"] * jobs)
    elif state == "cancelled":
        db.cancel(id)
    else:
        db.finish(worker, "completed")
    if state in {"stalled", "failed"}:
        db.stall(id)
    if state == "failed":
        db.sql("update retoma.batches set max_resumes = resumes where id = %(id)s", id=id)
        assert db.ask(batches.give_up()) == [id]
    assert db.is_(id) == state
    return id


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(BatchConflict) as refused:
        act()
    return refused.value.code


class TestStateMachine:
    def test_the_table_of_moves_is_the_one_that_was_agreed(self, db: BatchHand) -> None:
        assert {tuple(row) for row in db.sql("select before, after from retoma.batch_moves")} == MOVES

    @pytest.mark.parametrize("before", STATES)
    def test_a_move_that_is_not_in_it_is_refused_by_the_table(self, db: BatchHand, before: str) -> None:
        for after in STATES:
            id = into(db, before)
            move = (
                "update retoma.batches set was = state, state = %(after)s::text,"
                " unfinished = case when %(after)s::text = 'completed' then 0 else unfinished end,"
                " finished_at = case when %(after)s::text in ('completed', 'failed', 'cancelled') then now() end,"
                " stalled_at = case when %(after)s::text = 'stalled' then now() end where id = %(id)s"
            )
            if (before, after) in MOVES:
                db.sql(move, id=id, after=after)
                assert db.is_(id) == after
            else:
                with pytest.raises(psycopg.errors.ForeignKeyViolation, match="the_state_may_follow_the_one_before"):
                    db.sql(move, id=id, after=after)
                assert db.is_(id) == before
            # The next one begins with workers and jobs of its own.
            db.sql("delete from retoma.jobs; delete from retoma.events; delete from retoma.batches")

    @pytest.mark.parametrize("state", [each for each in STATES if each != "queued"])
    def test_a_new_batch_is_queued_and_nothing_else(self, db: BatchHand, state: str) -> None:
        with pytest.raises(psycopg.IntegrityError):
            db.sql(
                "insert into retoma.batches (name, pipeline, queue, lane_id, max_resumes, stall_seconds, state,"
                " finished_at, stalled_at) values ('a', 'b', 'c', 1, 1, 1, %(state)s::text,"
                " case when %(state)s::text in ('completed', 'failed', 'cancelled') then now() end,"
                " case when %(state)s::text = 'stalled' then now() end)",
                state=state,
            )

    @pytest.mark.parametrize(
        "change",
        [
            "state = 'done'",
            "unfinished = total + 1",
            "unfinished = -1",
            "failures = total + 1",
            "failures = -1",
            "total = 0",
            "total = null",
            "finished_at = now()",
            "stalled_at = now()",
            "resumes = -1",
            "max_failure_rate = 1.5",
            "was = 'running', state = 'completed', finished_at = now()",
        ],
    )
    def test_the_table_refuses_what_cannot_be(self, db: BatchHand, change: str) -> None:
        db.batch(3)

        with pytest.raises(psycopg.IntegrityError):
            db.sql(f"update retoma.batches set {change}")

    @pytest.mark.parametrize(
        ("state", "word", "after"),
        [
            ("queued", "already_running", "queued"),
            ("running", "already_running", "running"),
            ("paused", "no_workers", "queued"),
            ("stalled", "resumed", "running"),
            ("completed", "already_finished", "completed"),
        ],
    )
    def test_a_resume_says_what_it_did(self, db: BatchHand, state: str, word: str, after: str) -> None:
        id = into(db, state)

        did = db.resume(id)

        assert (did.word, did.changed, str(did.batch.state)) == (word, word in {"resumed", "no_workers"}, after)
        assert db.breaches() == []

    def test_a_resume_of_what_failed_for_good_needs_a_higher_limit(self, db: BatchHand) -> None:
        id = into(db, "failed")

        assert code_of(lambda: db.resume(id)) == "resume_limit_reached"
        assert db.resume(id, max_resumes=1).word == "resumed"
        assert (db.is_(id), db.one(id).resumes, db.one(id).max_resumes) == ("running", 1, 1)

    def test_what_was_cancelled_or_never_sealed_is_not_resumed(self, db: BatchHand) -> None:
        cancelled, unsealed = into(db, "cancelled"), db.open()

        assert code_of(lambda: db.resume(cancelled)) == "batch_not_resumable"
        assert code_of(lambda: db.resume(unsealed)) == "batch_not_resumable"

    @pytest.mark.parametrize("state", STATES)
    def test_a_pause_holds_what_lives_and_refuses_what_has_ended(self, db: BatchHand, state: str) -> None:
        id = into(db, state)
        before = db.one(id)

        if state in {"completed", "failed", "cancelled"}:
            assert code_of(lambda: db.pause(id)) == "conflict"
            assert db.one(id) == before
        else:
            assert str(db.pause(id).state) == "paused"
            assert db.told(id).count("paused") == 1
        assert db.breaches() == []

    def test_what_is_not_sealed_yet_cannot_be_paused(self, db: BatchHand) -> None:
        assert code_of(lambda: db.pause(db.open())) == "conflict"

    @pytest.mark.parametrize("state", STATES)
    def test_a_cancel_ends_what_lives_and_the_first_end_wins(self, db: BatchHand, state: str) -> None:
        id = into(db, state)
        before = db.one(id)

        if state in {"completed", "failed"}:
            assert code_of(lambda: db.cancel(id)) == "already_finished"
        else:
            assert str(db.cancel(id).state) == "cancelled"
        if state in {"completed", "failed", "cancelled"}:
            assert db.one(id) == before
        else:
            assert set(db.states_of(id)) <= {"cancelled", "completed"}
        assert db.breaches() == []

    @pytest.mark.parametrize("state", STATES)
    def test_a_restart_is_for_what_has_ended(self, db: BatchHand, state: str) -> None:
        id = into(db, state)

        if state in {"completed", "failed", "cancelled"}:
            assert (db.restart(id).word, db.is_(id)) == ("restarted", "running")
            assert db.states_of(id) == ["queued"] * 3
        else:
            assert code_of(lambda: db.restart(id)) == "conflict"
            assert db.is_(id) == state
        assert db.breaches() == []

    @pytest.mark.parametrize("state", STATES)
    def test_a_retry_without_failures_changes_nothing(self, db: BatchHand, state: str) -> None:
        id = into(db, state)
        before = db.one(id)

        did = db.retry_failed(id)

        assert (did.changed, did.word, did.jobs) == (False, "nothing_to_retry", 0)
        assert db.one(id) == before

    @pytest.mark.parametrize("state", STATES)
    def test_a_sealed_batch_takes_no_more_jobs_and_another_seal_does_no_harm(self, db: BatchHand, state: str) -> None:
        id = into(db, state)
        before = db.one(id)

        assert code_of(lambda: db.fill(id, 7)) == "batch_sealed"
        if state != "cancelled":
            assert db.seal(id) == before
            assert code_of(lambda: db.seal(id, expected=4)) == "batch_incomplete"
        assert db.one(id) == before

    def test_a_batch_that_is_not_there_is_not_found_by_any_command(self, db: BatchHand) -> None:
        asks: list[Callable[[], object]] = [
            lambda: db.resume(NOBODY), lambda: db.pause(NOBODY), lambda: db.cancel(NOBODY),
            lambda: db.restart(NOBODY), lambda: db.retry_failed(NOBODY), lambda: db.seal(NOBODY),
            lambda: db.fill(NOBODY, 1), lambda: db.do(batch_actions.change(NOBODY, {"name": "b"})),
            lambda: db.do(batch_commands.one(NOBODY)), lambda: db.do(batch_commands.progress(NOBODY)),
            lambda: db.do(batch_commands.steps(NOBODY)), lambda: db.do(batch_commands.durations(NOBODY)),
            lambda: db.do(batch_commands.errors(NOBODY)),
            lambda: db.do(batch_commands.events(NOBODY, after=0, limit=1)),
            lambda: db.do(batch_commands.explained(NOBODY)),
            lambda: db.do(batch_commands.plan(NOBODY, configuration=None)),
        ]  # fmt: skip
        for ask in asks:
            with pytest.raises(NotFound, match=f"no batch {NOBODY}"):
                ask()


class TestCreate:
    def test_a_new_batch_is_open_and_its_lane_is_closed(self, db: BatchHand) -> None:
        id = db.open(expires=60.0, labels={"a": "b"}, configuration={"model": "x"}, route="/r", correlation_id="c")

        batch = db.one(id)

        assert (batch.state, batch.total, batch.unfinished, batch.sealed_at) == ("queued", None, 0, None)
        assert (batch.labels, batch.configuration, batch.route) == ({"a": "b"}, {"model": "x"}, "/r")
        assert (batch.correlation_id, batch.max_resumes, batch.stall_seconds) == ("c", 3, STALL)
        assert 50 < db.seconds_until("expires_at", id, "batches") <= 60
        assert [(each.seq, each.kind, each.data) for each in db.events(id)] == [(1, "created", {"name": "letters"})]
        assert db.value("select closed_at is not null from retoma.lanes where name = %(name)s", name=f"batch:{id}")

    def test_a_batch_and_its_jobs_come_together_or_not_at_all(self, db: BatchHand) -> None:
        def numbers() -> Iterator[int]:
            yield from range(5)
            raise OSError

        with pytest.raises(OSError):  # noqa: PT011 - ours
            db.do(batch_commands.create(read, numbers(), key, "letters", BatchOptions()))

        for table in ("batches", "jobs", "events", "lanes"):
            assert db.value(f"select count(*) from retoma.{table}") == 0

    def test_its_lane_lets_only_so_many_run(self, db: BatchHand) -> None:
        id = db.batch(5, at_once=2)
        worker = db.hello()

        taken = db.take(worker, id, 5)
        assert len(taken) == 2
        db.end(worker, completed(taken[0]))
        assert len(db.take(worker, id, 5)) == 1

    def test_every_job_has_as_many_tries_as_retries_and_one(self, db: BatchHand) -> None:
        id = db.batch(2, max_retries=0, priority=7, timeout=5.0)

        assert {(db.job(each).max_attempts, db.job(each).priority) for each in db.jobs_of(id)} == {(1, 7)}
        assert db.job(db.jobs_of(id)[0]).timeout_seconds == 5.0

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("", {}), ("  ", {}), ("x" * 201, {}), ("a\0", {}),
            ("a", {"max_resumes": -1}), ("a", {"max_retries": -1}), ("a", {"at_once": 0}),
            ("a", {"max_failure_rate": 1.1}), ("a", {"max_failure_rate": -0.1}), ("a", {"stall_seconds": 0.0}),
            ("a", {"budget": Decimal(-1)}), ("a", {"labels": {"a": object()}}), ("a", {"configuration": {"a": "\0"}}),
        ],
    )  # fmt: skip
    def test_what_makes_no_sense_is_refused_before_anything_is_made(
        self, db: BatchHand, name: str, options: dict[str, Any]
    ) -> None:
        with pytest.raises(ConfigurationError):
            db.batch(1, name=name, **options)
        assert db.value("select count(*) from retoma.batches") == 0


class TestHold:
    def test_the_row_as_it_is(self, db: BatchHand) -> None:
        id = into(db, "stalled")

        [held] = db.ask(batches.hold(id))

        assert (held.state, held.unfinished, held.sealed, held.reason) == ("stalled", 2, True, "silent")
        assert (held.epoch, held.resumes, held.max_resumes) == (db.one(id).epoch, 0, 3)
        assert db.ask(batches.hold(NOBODY)) == []


class TestFilling:
    def test_what_is_added_waits_in_the_batch_s_lane_and_carries_its_name(self, db: BatchHand) -> None:
        id = db.open(correlation_id="c")

        receipts = db.fill(id, 1, 2)

        [held] = db.ask(batches.filling(id))
        assert (held.queue, held.lane, held.pipeline, held.correlation_id) == (QUEUE, f"batch:{id}", PIPELINE, "c")
        for receipt in receipts:
            job = db.job(receipt.id)
            assert (job.batch_id, job.lane, job.correlation_id) == (id, f"batch:{id}", "c")

    def test_the_same_key_gives_the_same_job_back(self, db: BatchHand) -> None:
        id = db.open()
        first = db.fill(id, 1, 2)

        again = db.fill(id, 2, 3)

        assert (again[0].id, again[0].new, again[1].new) == (first[1].id, False, True)
        assert db.seal(id, expected=3).total == 3

    def test_the_same_key_in_another_batch_is_another_job(self, db: BatchHand) -> None:
        one, two = db.open(), db.open()

        assert db.fill(one, 1)[0].id != db.fill(two, 1)[0].id

    def test_jobs_of_another_pipeline_do_not_come_in(self, db: BatchHand) -> None:
        other = replace(read, name="other")

        with pytest.raises(ConfigurationError, match="of pipeline 'read'"):
            db.do(batch_commands.fill(db.open(), other, [1], key))


class TestSample:
    def test_each_kind_and_each_size_has_its_share_and_the_choice_is_the_same_each_time(self, db: BatchHand) -> None:
        id, shapes = db.open(), [(kind, size) for kind in ("a", "b") for size in (1, 50, 500, 5000)] * 5
        filled = db.fill(id, *range(len(shapes)))
        for receipt, (kind, size) in zip(filled, shapes, strict=True):
            document = json.dumps({"kind": kind, "text": "x" * size})
            db.sql("update retoma.jobs set input = %(input)s::json where id = %(id)s", input=document, id=receipt.id)

        chosen = db.ask(batches.sample(id, jobs=8))

        rows = db.sql(
            "select input->>'kind', length(input->>'text') from retoma.jobs where id = any (%(ids)s)", ids=chosen
        )
        assert sorted(map(tuple, rows)) == [(kind, size) for kind in ("a", "b") for size in (1, 50, 500, 5000)]
        assert db.ask(batches.sample(id, jobs=8)) == chosen

    def test_as_many_are_chosen_as_are_asked_for(self, db: BatchHand) -> None:
        id = db.open()
        db.fill(id, *range(37))

        for many in (1, 20, 36, 37):
            assert len(db.ask(batches.sample(id, jobs=many))) == many


class TestBeginPilot:
    def test_the_jobs_of_the_pilot_are_taken_and_no_other(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.open()
        db.fill(id, *range(10))
        chosen = db.ask(batches.sample(id, jobs=3))

        batch = db.do(batch_commands.seal(id, expected=None, pilot=3))

        assert batch.held_at is not None
        assert sorted(claim.id for claim in db.take(worker, id, 10)) == sorted(chosen)
        assert db.claim(worker) == []
        assert db.breaches() == []

    def test_it_has_the_limit_of_the_batch(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.open(at_once=2)
        db.fill(id, *range(10))
        db.do(batch_commands.seal(id, expected=None, pilot=5))

        assert len(db.take(worker, id, 10)) == 2

    def test_a_pilot_of_all_jobs_holds_nothing(self, db: BatchHand) -> None:
        id = db.open()
        db.fill(id, 1, 2)

        assert db.do(batch_commands.seal(id, expected=None, pilot=2)).held_at is None

    @pytest.mark.parametrize("state", ["paused", "cancelled"])
    def test_the_lane_of_the_pilot_closes_with_the_batch(self, db: BatchHand, state: str) -> None:
        worker, id = db.hello(), piloted(db)
        (db.pause if state == "paused" else db.cancel)(id)

        assert db.claim(worker) == []
        assert db.breaches() == []

    def test_what_goes_on_after_a_pause_is_the_pilot_alone(self, db: BatchHand) -> None:
        worker, id = db.hello(), piloted(db)
        db.pause(id)
        db.do(batch_actions.resume(id, epoch=None, max_resumes=None, by="ana"))

        assert len(db.take(worker, id, 10)) == 3
        assert db.breaches() == []

    def test_what_was_cancelled_and_is_retried_is_still_held(self, db: BatchHand) -> None:
        worker, id = db.hello(), piloted(db)
        db.cancel(id)
        db.do(batch_actions.retry_failed(id, fingerprint=None, cancelled=True, attempts=None))

        assert len(db.take(worker, id, 20)) == 3
        assert db.breaches() == []


def piloted(db: BatchHand) -> int:
    """A batch of ten jobs, three of which are its pilot."""
    id = db.open()
    db.fill(id, *range(10))
    db.do(batch_commands.seal(id, expected=None, pilot=3))
    return id


class TestRelease:
    def test_the_rest_is_taken_after_it_and_it_is_told_once(self, db: BatchHand) -> None:
        worker, id = db.hello(), piloted(db)
        db.finish(worker, *["completed"] * 3)
        assert (db.is_(id), db.claim(worker)) == ("running", [])

        first, again = (db.do(batch_actions.release(id, by=name)) for name in ("ana", "rui"))

        assert (first.held_at, again.epoch) == (None, first.epoch)
        assert db.told(id).count("released") == 1
        db.finish(worker, *["completed"] * 7)
        assert db.is_(id) == "completed"
        assert db.breaches() == []

    def test_a_paused_batch_is_released_and_rests_until_it_is_resumed(self, db: BatchHand) -> None:
        worker, id = db.hello(), piloted(db)
        db.pause(id)
        db.do(batch_actions.release(id, by="ana"))
        assert db.claim(worker) == []

        db.do(batch_actions.resume(id, epoch=None, max_resumes=None, by="ana"))

        assert len(db.take(worker, id, 10)) == 10
        assert db.breaches() == []

    def test_of_an_ended_batch_nothing_is_released(self, db: BatchHand) -> None:
        id = piloted(db)
        db.cancel(id)

        assert code_of(lambda: db.do(batch_actions.release(id, by="ana"))) == "already_finished"
        assert db.ask(batches.release(id, by="ana")) == []

    def test_its_lanes_go_when_it_is_pruned(self, db: BatchHand) -> None:
        worker, id = db.hello(), piloted(db)
        db.finish(worker, *["completed"] * 3)
        db.do(batch_actions.release(id, by="ana"))
        db.finish(worker, *["completed"] * 7)
        db.sql("update retoma.batches set finished_at = now() - interval '2 years'")
        db.do(pruning.whole("batches", 1.0))

        assert db.sql("select id from retoma.lanes where name like %(name)s", name=f"batch:{id}%") == []


class TestPilot:
    def test_each_job_of_the_pilot_tells_its_time_and_its_state(self, db: BatchHand) -> None:
        worker, id = db.hello(), piloted(db)
        db.finish(worker, "completed")

        rows = db.ask(batches.pilot(id))

        assert sorted(each.state for each in rows) == ["completed", "queued", "queued"]
        assert [each.cost for each in rows] == [0, 0, 0]

    def test_a_batch_without_one_has_no_rows(self, db: BatchHand) -> None:
        assert db.ask(batches.pilot(db.batch(2))) == []


class TestSeal:
    def test_no_job_is_taken_before_the_seal_and_all_may_be_afterwards(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.open()
        db.fill(id, 1, 2, 3)
        assert db.claim(worker) == []

        batch = db.seal(id)

        assert (batch.total, batch.unfinished, batch.failures, batch.expires_at) == (3, 3, 0, None)
        assert len(db.take(worker, id, 10)) == 3
        assert db.told(id) == ["created", "sealed", "running"]

    def test_the_seal_counts_what_ended_while_it_was_open(self, db: BatchHand) -> None:
        id = db.open()
        ids = [each.id for each in db.fill(id, 1, 2, 3, 4)]
        db.ask(jobs.cancel([ids[0]]))
        db.sql("update retoma.jobs set expires_at = now() where id = %(id)s", id=ids[1])
        assert db.ask(jobs.expire()) == [ids[1]]
        assert db.counts(id) == (None, 0, 0)

        db.seal(id, expected=4)

        assert db.counts(id) == (4, 2, 1)
        assert db.breaches() == []

    def test_a_count_that_is_not_the_expected_one_leaves_it_open(self, db: BatchHand) -> None:
        id = db.open()
        db.fill(id, 1, 2)

        assert code_of(lambda: db.seal(id, expected=3)) == "batch_incomplete"
        assert db.ask(batches.seal(id, expected=3)) == []
        assert db.one(id).sealed_at is None
        db.fill(id, 3)
        assert db.seal(id, expected=3).total == 3

    def test_one_in_which_nothing_waits_cannot_be_sealed(self, db: BatchHand) -> None:
        nothing, ended = db.open(), db.open()
        db.ask(jobs.cancel([db.fill(ended, 1)[0].id]))

        assert code_of(lambda: db.seal(nothing)) == "batch_empty"
        assert code_of(lambda: db.seal(ended)) == "batch_empty"
        assert db.ask(batches.seal(nothing, expected=None)) == []
        assert code_of(lambda: db.batch(0)) == "batch_empty"

    def test_one_that_expired_meanwhile_is_not_sealed_and_says_so(self, db: BatchHand) -> None:
        id = db.open(expires=60.0)
        db.fill(id, 1, 2)
        db.age(61)
        assert db.look_after().expired == [id]

        assert code_of(lambda: db.seal(id)) == "conflict"


class TestSize:
    def test_how_many_there_are_and_how_many_wait(self, db: BatchHand) -> None:
        id = db.open()
        assert db.ask(batches.size(id)) == [(0, 0)]
        ids = [each.id for each in db.fill(id, 1, 2, 3)]
        db.ask(jobs.cancel(ids[:1]))

        assert db.ask(batches.size(id)) == [(3, 2)]


class TestPause:
    def test_nobody_takes_its_jobs_and_those_that_run_are_released(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        other = db.one_job()
        [claim] = [each for each in db.claim(worker, 2) if each.batch_id == id]

        assert db.pause(id).reason == "person"

        assert db.claim(worker) == []
        assert db.ask(workers.called_off([worker])) == [(claim.id, worker, claim.fence, "released")]
        db.end(worker, ending(claim, "released"))
        assert (db.state(claim.id), db.job(claim.id).attempt, db.state(other)) == ("queued", 0, "running")
        assert db.counts(id) == (3, 3, 0)

    def test_for_want_of_money_only_when_nothing_that_is_under_way_can_help(self, db: BatchHand) -> None:
        db.hello()
        id = db.batch(1)
        db.sql("update retoma.batches set budget = 1, spent = 0.2, reserved = 0.7 where id = %(id)s", id=id)
        db.sql(
            "insert into retoma.calls (tenant, key, provider, model, batch_id, kind, request, reserved, state)"
            " select '', 'a' || n, 'x', 'y', %(id)s, 'first', '{}', 0.35, case n when 1 then 'open' else 'doubtful' end"
            " from generate_series(1, 2) as n",
            id=id,
        )

        assert db.ask(batches.pause(id, reason="budget", needed=Decimal("0.45"))) == [], "0.2 + 0.35 + 0.45 is 1"
        assert db.ask(batches.pause(id, reason="budget", needed=Decimal("0.46"))) == [id]
        assert db.one(id).reason == "budget"

    def test_the_last_job_to_end_completes_it_also_while_it_rests(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(1)
        [claim] = db.take(worker, id)
        db.pause(id)

        db.end(worker, completed(claim))

        assert (db.is_(id), db.told(id)[-2:]) == ("completed", ["paused", "completed"])

    def test_one_that_completed_while_it_rested_can_be_retried(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(1)
        [claim] = db.take(worker, id)
        db.pause(id)
        db.end(worker, ending(claim, "failed"))

        db.retry_failed(id)

        assert (db.is_(id), len(db.claim(worker)), db.breaches()) == ("running", 1, [])

    def test_the_time_it_rests_is_not_silence(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(3)
        db.end(worker, *(ending(each, "completed") for each in db.take(worker, id)))
        db.pause(id)
        db.age(10 * STALL)

        assert (db.look_after().stalled, db.is_(id)) == ([], "paused")

        db.resume(id)
        assert (db.look_after().stalled, db.is_(id), db.one(id).resumes) == ([], "running", 0)


class TestResume:
    def test_it_goes_on_from_where_it_stopped(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(4)
        db.finish(worker, "completed", "failed")
        db.stall(id)

        did = db.resume(id)

        assert (did.changed, did.batch.reason, did.batch.cause, did.batch.stalled_at) == (True, None, None, None)
        assert sorted(db.states_of(id)) == ["completed", "failed", "queued", "queued"]
        assert (db.one(id).resumes, db.counts(id)) == (1, (4, 2, 1))
        assert db.events(id)[-1].data == {"before": "stalled", "why": "resumed", "by": "person", "counted": 1}

    def test_when_nobody_can_carry_it_out_it_says_so_and_uses_no_resume(self, db: BatchHand) -> None:
        id = into(db, "stalled")
        db.sql("update retoma.workers set lease_expires_at = now() - interval '1 second'")

        did = db.resume(id)

        assert (did.changed, did.word, did.batch.state, did.batch.resumes) == (True, "no_workers", "running", 0)
        assert db.events(id)[-1].data["counted"] == 0
        assert db.resume(id).word == "already_running"

    def test_what_was_paused_before_its_first_job_waits_again(self, db: BatchHand) -> None:
        id = into(db, "paused")

        assert db.resume(id).batch.state == "queued"
        assert (db.one(id).resumes, db.one(id).last_progress_at) == (0, None)
        assert len(db.take(db.hello(), id, 3)) == 3

    def test_resuming_what_was_paused_is_free_and_without_limit(self, db: BatchHand) -> None:
        id = into(db, "running", max_resumes=0)

        for _ in range(3):
            db.pause(id)
            assert db.resume(id).batch.state == "running"
        assert db.one(id).resumes == 0

    def test_after_the_last_resume_that_is_allowed_it_fails_for_good(self, db: BatchHand) -> None:
        id = into(db, "stalled", max_resumes=2)
        for _ in range(2):
            assert db.ask(batches.give_up()) == []
            assert db.resume(id).changed
            db.stall(id)

        assert code_of(lambda: db.resume(id)) == "resume_limit_reached"
        assert db.ask(batches.resume(id, epoch=None, max_resumes=None, by="person")) == []
        assert db.ask(batches.give_up()) == [id]
        assert (db.is_(id), db.one(id).reason, db.one(id).resumes) == ("failed", "resumes", 2)

    def test_somebody_who_looked_earlier_is_refused(self, db: BatchHand) -> None:
        id = into(db, "stalled")
        seen = db.one(id).epoch
        db.do(batch_actions.change(id, {"name": "another"}))

        assert code_of(lambda: db.resume(id, epoch=seen)) == "stale_epoch"
        assert db.ask(batches.resume(id, epoch=seen, max_resumes=None, by="person")) == []
        assert db.resume(id, epoch=seen + 1).changed

    def test_failures_that_were_seen_are_forgiven_and_the_count_begins_anew(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(40, max_failure_rate=0.1)
        db.finish(worker, "failed", "failed", "failed")
        assert db.is_(id) == "failed"
        db.resume(id)

        db.finish(worker, "failed", "failed")
        assert db.is_(id) == "running"
        db.finish(worker, "failed")

        assert (db.is_(id), db.counts(id)) == ("failed", (40, 34, 6))

    @pytest.mark.parametrize("why", ["resumes", "failures"])
    def test_one_in_which_nothing_is_left_is_completed(self, db: BatchHand, why: str) -> None:
        worker, id = db.hello(), db.batch(2, max_resumes=0, max_failure_rate=0.0)
        one, two = db.take(worker, id, 2)
        if why == "failures":
            db.end(worker, ending(one, "failed"))
            db.end(worker, ending(two, "completed"))
        else:
            db.stall(id)
            db.ask(batches.give_up())
            db.end(worker, ending(one, "completed"), ending(two, "completed"))
        assert (db.is_(id), db.one(id).unfinished) == ("failed", 0)

        db.resume(id, max_resumes=5)

        assert (db.is_(id), db.breaches()) == ("completed", [])


class TestEnd:
    def test_a_batch_whose_provider_sends_its_jobs_away_is_told_so_once_for_each(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        before = len(db.events(id))
        for _ in range(5):
            for claim in db.take(worker, id, 3):
                db.end(worker, ending(claim, "postponed", delay=0.0, reason="limited: openai/x"))

        told = [event for event in db.events(id)[before:] if event.kind == "jobs"]
        assert len(told) == 3
        assert (db.counts(id), db.breaches()) == ((3, 3, 0), [])

    def test_one_that_was_cancelled_meanwhile_is_told(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(1)
        for _ in range(2):
            [claim] = db.take(worker, id)
            db.end(worker, ending(claim, "postponed", delay=0.0, reason="limited: openai/x"))
        [claim] = db.take(worker, id)
        db.cancel(id)

        db.end(worker, ending(claim, "postponed", delay=0.0, reason="limited: openai/x"))

        assert (db.states_of(id), db.one(id).unfinished, db.breaches()) == (["cancelled"], 0, [])


class TestWake:
    def test_what_failed_or_was_sent_away_is_due_now_and_what_chose_its_hour_is_not(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(4)
        failed, limited, asleep, own = db.take(worker, id, 4)
        db.end(
            worker,
            ending(failed, "again"),
            ending(limited, "postponed", delay=900.0, reason="limited: openai/x"),
            ending(asleep, "postponed", delay=900.0, reason="sleeping"),
            ending(own, "postponed", delay=900.0, reason="after office hours"),
        )
        db.sql("update retoma.jobs set run_at = now() + interval '900 seconds'")

        assert sorted(db.ask(batches.wake(id))) == sorted([failed.id, limited.id])
        assert db.ask(batches.wake(id)) == []
        due = db.sql("select id from retoma.jobs where run_at <= now() and state = 'queued'")
        assert {id for (id,) in due} == {failed.id, limited.id}


class TestTakeBack:
    def test_only_jobs_that_hang_are_taken_back(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(3, at_once=3)
        [old] = db.take(worker, id)
        db.age(STALL + 1)
        [young] = db.take(worker, id)
        db.stall(id)

        did = db.resume(id)

        assert (did.jobs, db.state(old.id), db.state(young.id)) == (1, "queued", "running")
        assert (db.job(old.id).attempt, db.job(old.id).reason, db.attempts(old.id)[0].ending) == (
            0,
            "resumed",
            "released",
        )
        assert list(db.seats()) == [young.id]
        assert db.counts(id) == (3, 3, 0)

    def test_whoever_held_it_hears_of_it_and_its_words_miss(self, db: BatchHand) -> None:
        worker, other, id = db.hello(lease=1e6), db.hello(lease=1e6), db.batch(1)
        [old] = db.take(worker, id)
        db.age(STALL + 1)
        db.stall(id)
        db.resume(id)

        believed = [(old.id, worker, old.fence)]
        assert db.ask(workers.called_off([worker], believed)) == [(old.id, worker, old.fence, "lost")]
        assert db.end(worker, completed(old)) == []
        assert db.save(worker, old) == []
        [again] = db.take(other, id)
        assert db.end(worker, completed(old)) == []
        assert (again.fence, db.is_(id), db.counts(id)) == (old.fence + 1, "running", (1, 1, 0))

    def test_what_failed_for_good_gives_back_what_hangs_too(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(2, max_resumes=0)
        [claim] = db.take(worker, id)
        db.age(STALL + 1)
        db.stall(id)
        db.ask(batches.give_up())

        assert (db.resume(id, max_resumes=1).jobs, db.state(claim.id)) == (1, "queued")

    def test_a_bounded_number_at_a_time(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(5)
        ids = [each.id for each in db.take(worker, id, 5)]
        db.age(STALL + 1)

        assert [sorted(db.ask(batches.take_back(id, limit=2))) for _ in range(3)] == [ids[:2], ids[2:4], ids[4:]]

    def test_a_job_that_was_asked_to_stop_does_not_go_back_to_the_queue(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(2)
        [claim] = db.take(worker, id)
        db.ask(jobs.cancel([claim.id]))
        db.age(STALL + 1)
        db.stall(id)

        db.resume(id)

        assert (db.state(claim.id), db.counts(id)) == ("cancelled", (2, 1, 0))


class TestCancel:
    def test_what_waits_ends_now_what_runs_is_asked_and_what_is_done_stays_done(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(4)
        db.finish(worker, "completed")
        [claim] = db.take(worker, id)

        batch = db.cancel(id)

        assert (batch.state, batch.reason, batch.unfinished) == ("cancelled", "person", 1)
        assert sorted(db.states_of(id)) == ["cancelled", "cancelled", "completed", "running"]
        assert db.ask(workers.called_off([worker])) == [(claim.id, worker, claim.fence, "cancelled")]
        db.end(worker, ending(claim, "cancelled"))
        assert (db.is_(id), db.counts(id), db.breaches()) == ("cancelled", (4, 0, 0), [])

    def test_one_that_was_never_sealed_is_counted_now(self, db: BatchHand) -> None:
        id, nothing = db.open(), db.open()
        ids = [each.id for each in db.fill(id, 1, 2, 3)]
        db.ask(jobs.cancel(ids[:1]))

        db.cancel(id)
        db.cancel(nothing)

        assert (db.counts(id), db.states_of(id)) == ((3, 0, 0), ["cancelled"] * 3)
        assert (db.is_(nothing), db.counts(nothing)) == ("cancelled", (None, 0, 0))
        assert db.breaches() == []

    def test_a_job_that_fails_for_another_try_afterwards_does_not_come_back(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(1)
        [claim] = db.take(worker, id)
        db.cancel(id)

        db.end(worker, ending(claim, "again"))

        assert (db.state(claim.id), db.is_(id), db.counts(id)) == ("cancelled", "cancelled", (1, 0, 0))


class TestAlone:
    def test_commands_on_one_batch_go_one_after_the_other(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id, other = one.batch(1), one.batch(1)
        one.begin()
        one.ask(batches.alone(id))
        two.ask(batches.alone(other))

        asked = two.start(batches.alone(id))
        two.waits_for(one, asked)
        one.commit()
        asked.result(10)


def moved(seen: list[Seen]) -> list[int]:
    return [each.id for each in seen if each.moved]


class TestCancelJobs:
    def test_a_bounded_number_at_a_time_behind_a_cursor_or_by_name(self, db: BatchHand) -> None:
        id, other = db.batch(5), db.batch(2)
        db.ask(batches.cancel(id, reason="person"))
        ids = db.jobs_of(id)

        assert moved(db.ask(batches.cancel_jobs(id, Piece(limit=2)))) == ids[:2]
        assert moved(db.ask(batches.cancel_jobs(id, Piece(after=ids[2], limit=2)))) == ids[3:]
        assert moved(db.ask(batches.cancel_jobs(id, Piece(ids=[*ids, *db.jobs_of(other)])))) == [ids[2]]
        assert (db.states_of(other), db.counts(id)) == (["queued"] * 2, (5, 0, 0))
        assert db.job(ids[0]).reason == "batch"

    def test_a_running_job_is_asked_once(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(1)
        [claim] = db.take(worker, id)
        db.ask(batches.cancel(id, reason="person"))

        assert db.ask(batches.cancel_jobs(id)) == [(claim.id, True, True)]
        assert db.ask(batches.cancel_jobs(id)) == [(claim.id, False, True)]
        assert db.state(claim.id) == "running"

    @pytest.mark.parametrize("word", ["released", "again", "waiting"])
    def test_a_job_that_is_handed_back_at_that_moment_is_no_error(self, hand: Hands, word: str) -> None:
        one, two, keeper = hand(), hand(), hand()
        worker, id, other = one.hello(), one.batch(1), one.batch(1)
        [claim] = one.take(worker, id)
        one.ask(batches.cancel(id, reason="person"))
        keeper.begin()
        keeper.ask(batches.hold(id))
        returned = two.start(jobs.end(worker, [ending(claim, word)]))  # it has the job, and wants the batch
        two.waits_for(keeper, returned)
        [seen] = one.ask(batches.cancel_jobs(id))
        keeper.rollback()
        returned.result(10)

        assert (seen.id, seen.moved, seen.settled) == (claim.id, False, False), "in other hands: to be looked at again"
        one.ask(batches.cancel_jobs(id))
        assert (one.states_of(id), one.states_of(other), one.breaches()) == (["cancelled"], ["queued"], [])


class TestCancelRest:
    def test_what_came_back_to_cancelled_batches_ends_a_bounded_number_at_a_time(self, db: BatchHand) -> None:
        id, other = db.batch(3), db.batch(2)
        db.ask(batches.cancel(id, reason="person"))

        assert [len(db.ask(batches.cancel_rest(limit=2))) for _ in range(3)] == [2, 1, 0]
        assert (db.states_of(id), db.states_of(other)) == (["cancelled"] * 3, ["queued"] * 2)


class TestHas:
    def test_whether_a_job_is_in_a_state(self, db: BatchHand) -> None:
        id = into(db, "completed")

        assert db.ask(batches.has(id, ["failed", "completed"])) == [True]
        assert db.ask(batches.has(id, ["failed", "queued"])) == [False]


class TestReopen:
    @pytest.mark.parametrize("state", STATES)
    def test_only_what_has_ended(self, db: BatchHand, state: str) -> None:
        id = into(db, state)
        ended = state in {"completed", "failed", "cancelled"}

        assert db.ask(batches.reopen(id)) == ([id] if ended else [])
        assert db.is_(id) == ("running" if ended else state)


class TestSettle:
    def test_one_in_which_nothing_is_left_is_completed_and_another_goes_on(self, db: BatchHand) -> None:
        done, open_ = into(db, "completed"), db.batch(1)
        db.ask(batches.reopen(done))

        assert db.ask(batches.settle(done)) == [(done, "completed")]
        assert db.ask(batches.settle(open_)) == [(open_, "queued")]
        assert (db.told(done)[-1], db.breaches()) == ("completed", [])


class TestOwing:
    def test_only_a_batch_whose_last_step_must_follow_needs_a_hand(self, db: BatchHand) -> None:
        worker, (id, job) = db.hello(), db.finished_batch(2)
        before = db.ask(batches.owing())
        db.finish(worker, "failed", "failed")

        assert (before, db.ask(batches.owing([id + 1]))) == ([], [])
        assert db.ask(batches.owing()) == [(id, job, "ended", True)]

    def test_one_that_needs_no_hand_is_not_locked(self, hand: Hands) -> None:
        db, other = hand(), hand()
        id, _ = db.finished_batch(2)
        db.begin()
        db.ask(batches.owing())

        free = other.sql("select id from retoma.batches where id = %(id)s for no key update skip locked", id=id)

        db.commit()
        assert free == [(id,)]


class TestDismiss:
    def test_a_job_that_waits_ends_and_one_that_runs_does_not(self, db: BatchHand) -> None:
        worker, (id, job), (other, runs) = db.hello(), db.finished_batch(1), db.finished_batch(1)
        db.finish(worker, "failed", "completed")
        db.claim(worker, pipelines=("finish",))

        assert (db.ask(batches.dismiss(id, job)), db.ask(batches.dismiss(other, runs))) == ([job], [])
        assert db.finishing(id)[3] == "cancelled"


class TestResults:
    def test_they_come_in_order_in_pieces_and_without_the_last_step(self, db: BatchHand) -> None:
        worker, (id, job) = db.hello(), db.finished_batch(4)
        claims = db.take(worker, id, 4)
        for claim, word in zip(claims, ("completed", "failed", "review", "completed"), strict=True):
            db.save(worker, claim, "read", '{"pages": 2}')
            db.save(worker, claim, "other")
            db.end(worker, ending(claim, word))
        (last,) = db.claim(worker, pipelines=("finish",))
        db.end(worker, ending(last, "completed"))

        one, two = db.ask(batches.results(id, states=["completed", "review"], after=0, limit=2, steps=["read"]))
        rest = db.ask(batches.results(id, states=["completed", "review"], after=two.job_id, limit=2))

        assert last.id == job
        assert [one.job_id, two.job_id, *(each.job_id for each in rest)] == [claims[place].id for place in (0, 2, 3)]
        assert (one.key, one.state, one.output, one.saved) == ("k0", "completed", '"done"', '{ "read" : {"pages": 2} }')
        assert (two.state, rest[0].saved) == ("review", None)


class TestHoldJobs:
    def test_it_locks_a_piece_and_passes_over_what_another_holds(self, hand: Callable[..., BatchHand]) -> None:
        one, two = hand(), hand()
        id = one.batch(4)
        first, second, third, _ = one.jobs_of(id)
        one.begin()
        one.ask(jobs.hold([second]))

        assert two.ask(batches.hold_jobs(id, Piece(limit=3), ("queued",))) == [first, third]
        assert two.ask(batches.hold_jobs(id, Piece(limit=3), ("failed",))) == []


class TestRetryFailed:
    def failed(self, db: BatchHand, *errors: str, **options: Any) -> int:
        worker, id = db.hello(), db.batch(len(errors) + 1, **options)
        claims = db.take(worker, id, len(errors))
        for claim, error in zip(claims, errors, strict=True):
            how = ending(claim, "failed")
            how.error = error
            db.end(worker, how)
        return id

    def test_only_what_failed_is_tried_again_and_keeps_its_steps(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        one, two, three = db.take(worker, id, 3)
        db.save(worker, one)
        db.end(worker, ending(one, "failed"), ending(two, "completed"), ending(three, "review"))
        assert db.is_(id) == "completed"

        did = db.retry_failed(id)

        assert (did.word, did.jobs, db.is_(id)) == ("retried", 1, "running")
        assert db.states_of(id) == ["queued", "completed", "review"]
        assert (db.counts(id), db.one(id).finished_at, db.breaches()) == ((3, 1, 0), None, [])
        assert db.value("select count(*) from retoma.checkpoints where set_aside_at is null") == 1
        assert [each.id for each in db.claim(worker)] == [one.id]
        assert db.events(id)[-1].data["why"] == "retried"

    def test_one_error_group_alone(self, db: BatchHand) -> None:
        id = self.failed(db, "Broken: page 3 of 'a.pdf'", "Broken: page 14 of 'b.pdf'", "Empty: no text")
        groups = {each.example: each for each in db.ask(batches.errors(id))}
        broken = groups["Broken: page 3 of 'a.pdf'"]
        assert broken.jobs == 2

        assert db.retry_failed(id, fingerprint=broken.fingerprint).jobs == 2

        assert sorted(db.states_of(id)) == ["failed", "queued", "queued", "queued"]
        assert (db.counts(id), db.retry_failed(id, fingerprint="nothing").jobs) == ((4, 3, 1), 0)

    def test_what_was_cancelled_only_when_asked(self, db: BatchHand) -> None:
        id = into(db, "cancelled")

        assert db.retry_failed(id).word == "nothing_to_retry"
        assert db.retry_failed(id, cancelled=True).jobs == 3
        assert (db.is_(id), db.counts(id), db.breaches()) == ("running", (3, 3, 0), [])
        assert len(db.take(db.hello(), id, 3)) == 3

    def test_a_paused_batch_stays_paused(self, db: BatchHand) -> None:
        id = self.failed(db, "a")
        db.pause(id)

        assert db.retry_failed(id).jobs == 1
        assert (db.is_(id), db.counts(id)) == ("paused", (2, 2, 0))

    @pytest.mark.parametrize("how", ["retry_failed", "retry", "restart"])
    def test_a_job_of_a_batch_that_is_still_open_waits_again(self, db: BatchHand, how: str) -> None:
        id = db.open()
        job = db.fill(id, 1, 2)[0].id
        db.ask(jobs.cancel([job]))

        match how:
            case "retry_failed":
                assert db.retry_failed(id, cancelled=True).jobs == 1
            case "retry":
                db.ask(jobs.retry([job]))
            case "restart":
                db.ask(jobs.restart(job))

        assert (db.states_of(id), db.counts(id), db.is_(id)) == (["queued"] * 2, (None, 0, 0), "queued")
        assert (db.seal(id, expected=2).unfinished, db.breaches()) == (2, [])

    def test_as_many_tries_as_are_given(self, db: BatchHand) -> None:
        id = self.failed(db, "a")
        db.retry_failed(id, attempts=7)
        job = db.job(db.jobs_of(id)[0])

        assert (job.max_attempts - job.attempt, job.crashes, job.error) == (7, 0, None)
        with pytest.raises(ConfigurationError):
            db.retry_failed(id, attempts=0)

    def test_a_bounded_number_at_a_time(self, db: BatchHand) -> None:
        id = self.failed(db, *["a"] * 5)
        some, held = Piece(limit=2), db.jobs_of(id)
        ask = batches.retry_failed(id, some, held=held, fingerprint=None, cancelled=False, attempts=None)

        assert [len(db.ask(ask)) for _ in range(4)] == [2, 2, 1, 0]

    def test_a_job_that_is_not_held_is_left_to_a_later_piece(self, db: BatchHand) -> None:
        id = self.failed(db, "a", "b")
        seen = db.ask(batches.retry_failed(id, held=[], fingerprint=None, cancelled=False, attempts=None))

        assert [(each.moved, each.settled) for each in seen] == [(False, False)] * 2

    def test_what_failed_after_it_was_asked_is_left_alone(self, db: BatchHand) -> None:
        id = self.failed(db, "a", "b")
        asked = db.value("select now()")
        db.sql("update retoma.jobs set finished_at = now() + interval '1 s' where id = %(id)s", id=db.jobs_of(id)[0])
        held = db.jobs_of(id)
        seen = db.ask(
            batches.retry_failed(id, held=held, fingerprint=None, cancelled=False, attempts=None, until=asked)
        )

        assert [(each.moved, each.settled) for each in seen] == [(False, True), (True, True)]

    def test_the_failures_that_are_left_alone_do_not_fail_it_again(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(30, max_failure_rate=0.1)
        claims = db.take(worker, id, 4)
        for claim, error in zip(claims, ("Empty", "Empty", "Empty", "Broken"), strict=True):
            how = ending(claim, "failed")
            how.error = error
            db.end(worker, how)
        assert db.is_(id) == "failed"
        [broken] = [each for each in db.ask(batches.errors(id)) if each.example == "Broken"]
        db.retry_failed(id, fingerprint=broken.fingerprint)
        assert db.is_(id) == "running"

        db.finish(worker, "completed")

        assert db.is_(id) == "running"


class TestRestart:
    def test_every_job_begins_anew(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        one, two, three = db.take(worker, id, 3)
        db.save(worker, one)
        db.ask(jobs.signal(two.id, "approved", "1"))
        db.end(
            worker,
            *(
                ending(each, word)
                for each, word in zip((one, two, three), ("completed", "failed", "skipped"), strict=True)
            ),
        )

        did = db.restart(id)

        assert (did.jobs, db.states_of(id), db.counts(id)) == (3, ["queued"] * 3, (3, 3, 0))
        assert {(db.job(each).attempt, db.job(each).output, db.job(each).error) for each in db.jobs_of(id)} == {
            (0, None, None)
        }
        assert db.sql("select reason from retoma.checkpoints where set_aside_at is not null") == [("restart",)]
        assert (db.value("select count(*) from retoma.signals"), db.breaches()) == (0, [])

    def test_a_bounded_number_at_a_time_behind_a_cursor(self, db: BatchHand) -> None:
        id = into(db, "completed", jobs=5)
        ids = db.jobs_of(id)
        db.ask(batches.restarted(id, configuration=None))

        assert moved(db.ask(batches.restart(id, Piece(limit=2)))) == ids[:2]
        assert moved(db.ask(batches.restart(id, Piece(after=ids[1], limit=2)))) == ids[2:4]
        assert moved(db.ask(batches.restart(id, Piece(after=ids[3], limit=2)))) == ids[4:]
        assert db.ask(batches.restart(id, Piece(after=ids[4], limit=2))) == []

    def test_one_that_still_runs_is_taken_from_whoever_holds_it(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(2, at_once=2)
        one, two = db.take(worker, id, 2)
        db.cancel(id)

        assert db.restart(id).jobs == 2
        db.end(worker, completed(one))

        assert (db.states_of(id), db.counts(id), db.breaches()) == (["queued"] * 2, (2, 2, 0), [])
        assert {each.id for each in db.take(db.hello(), id, 2)} == {one.id, two.id}

    def test_it_can_complete_a_second_time(self, db: BatchHand) -> None:
        id = into(db, "completed")
        db.restart(id)
        db.finish(db.hello(), *["completed"] * 3)

        assert (db.is_(id), db.breaches(), db.told(id)[-3:]) == ("completed", [], ["completed", "running", "completed"])

    def test_a_job_that_waits_begins_anew_too(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(2, max_failure_rate=0.0)
        one, two = db.take(worker, id, 2)
        db.save(worker, one)
        db.end(worker, ending(one, "again"), ending(two, "failed"))
        assert (db.is_(id), db.state(one.id)) == ("failed", "queued")

        db.restart(id, configuration={"model": "other"})

        assert db.value("select count(*) from retoma.checkpoints where set_aside_at is null") == 0

    def test_pieces_do_not_trip_the_failure_policy(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(40, max_failure_rate=0.1)
        db.finish(worker, *["failed"] * 5)
        assert db.is_(id) == "failed"
        db.ask(batches.restarted(id, configuration=None))
        begun = len(db.told(id))

        after = 0
        while some := db.ask(batches.restart(id, Piece(after=after, limit=1))):
            after = some[-1].id

        assert db.told(id)[begun:] == []


class TestRestarted:
    @pytest.mark.parametrize("state", STATES)
    def test_only_what_has_ended(self, db: BatchHand, state: str) -> None:
        id = into(db, state)
        ended = state in {"completed", "failed", "cancelled"}

        assert db.ask(batches.restarted(id, configuration=None)) == ([id] if ended else [])
        assert db.is_(id) == ("running" if ended else state)

    def test_its_resumes_are_given_back_and_it_may_carry_another_configuration(self, db: BatchHand) -> None:
        id = into(db, "stalled", configuration={"model": "a"})
        db.resume(id)
        db.cancel(id)

        db.restart(id)
        assert (db.one(id).resumes, db.one(id).configuration) == (0, {"model": "a"})
        db.cancel(id)
        db.restart(id, configuration={"model": "b"})

        assert db.one(id).configuration == {"model": "b"}
        assert [each.data["configuration"] for each in db.events(id) if each.data.get("why") == "restarted"] == [
            False,
            True,
        ]

    def test_one_that_never_held_a_job_is_not_restarted(self, db: BatchHand) -> None:
        id = db.open()
        db.cancel(id)

        assert code_of(lambda: db.restart(id)) == "conflict"
        assert db.is_(id) == "cancelled"


def test_the_event_that_tells_what_was_done_says_who_wanted_it(db: BatchHand) -> None:
    id = db.batch(1)

    db.do(batch_actions.pause(id, reason="person", by="k1"))
    db.do(batch_actions.pause(id, reason="person", by="k2"))

    assert db.events(id)[-1].data == {"before": "queued", "why": "person", "by": "k1"}
    db.do(batch_actions.change(id, {"name": "b"}, by="k3"))
    assert db.events(id)[-1].data == {"name": "b", "by": "k3"}
    db.do(batch_actions.cancel(id, reason="person", by="k4"))
    assert [event.data.get("by") for event in db.events(id) if event.kind == "cancelled"] == ["k4"]
    db.do(batch_actions.retry_failed(id, fingerprint=None, cancelled=True, attempts=None, by="k5"))
    assert db.events(id)[-1].data == {"before": "cancelled", "why": "retried", "by": "k5"}
    db.do(batch_actions.cancel(id, reason="person", by="k6"))
    db.do(batch_actions.restart(id, configuration=None, by="k7"))
    told = [event.data for event in db.events(id) if event.data.get("why") == "restarted"]
    assert told == [{"before": "cancelled", "why": "restarted", "by": "k7", "configuration": False}]


def test_who_has_many_jobs_tried_again_is_in_the_event_that_opens_the_batch(
    db: BatchHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = db.batch(2)
    db.cancel(id)
    monkeypatch.setattr(operation_commands, "SMALL", 1)

    db.do(batch_actions.retry_failed(id, fingerprint=None, cancelled=True, attempts=None, by="k1"))

    assert db.events(id)[-1].data == {"before": "cancelled", "why": "retried", "by": "k1"}


def test_who_has_jobs_of_a_batch_at_work_tried_again_is_in_the_event_of_the_jobs(db: BatchHand) -> None:
    id = db.batch(2)
    db.ask(jobs.cancel(db.jobs_of(id)[:1]))

    db.do(batch_actions.retry_failed(id, fingerprint=None, cancelled=True, attempts=None, by="k1"))

    assert db.events(id)[-1].data == {"jobs": [[db.jobs_of(id)[0], "queued"]], "by": "k1"}


def test_what_nobody_wanted_names_nobody(db: BatchHand) -> None:
    id = db.batch(1)
    db.pause(id)
    db.do(batch_actions.change(id, {"name": "b"}))
    db.cancel(id)
    db.retry_failed(id, cancelled=True)
    db.cancel(id)
    db.restart(id)

    assert [event.data for event in db.events(id) if "by" in event.data] == []


class TestChange:
    def test_what_is_given_changes_and_the_rest_stays(self, db: BatchHand) -> None:
        id = db.batch(1, labels={"a": "1"}, budget=Decimal(5), max_failure_rate=0.5)
        before = db.one(id)

        db.do(batch_actions.change(id, {"name": "b", "max_resumes": 9, "stall_seconds": 7.0, "budget": Decimal("6.5")}))

        now = db.one(id)
        assert (now.name, now.max_resumes, now.stall_seconds, now.budget) == ("b", 9, 7.0, Decimal("6.5"))
        assert (now.labels, now.max_failure_rate, now.state) == ({"a": "1"}, 0.5, "queued")
        assert (now.epoch, now.event_seq) == (before.epoch + 1, before.event_seq + 1)
        assert db.events(id)[-1].data == {"name": "b", "max_resumes": 9, "stall_seconds": 7.0, "budget": "6.5"}

    @pytest.mark.parametrize(
        "wrong", [{"name": " "}, {"max_resumes": -1}, {"max_failure_rate": 2.0}, {"stall_seconds": -1.0}]
    )
    def test_what_makes_no_sense_changes_nothing(self, db: BatchHand, wrong: dict[str, Any]) -> None:
        id = db.batch(1)
        before = db.one(id)

        with pytest.raises(ConfigurationError):
            db.do(batch_actions.change(id, wrong))
        assert db.one(id) == before


class TestStall:
    def test_the_cause_is_kept(self, db: BatchHand) -> None:
        id = into(db, "running")
        db.stall(id, "hanging")

        batch = db.one(id)

        assert (batch.state, batch.reason, batch.cause) == ("stalled", "hanging", {"sentence": "Nothing moves."})
        assert batch.stalled_at is not None
        assert db.events(id)[-1].data == {"before": "running", "why": "hanging", "cause": batch.cause}

    def test_only_if_nothing_happened_since_that_was_found_out(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        db.finish(worker, "completed")
        seen = db.one(id)

        def stall(**changes: Any) -> list[int]:
            now = {"epoch": seen.epoch, "event_seq": seen.event_seq} | changes
            return db.ask(batches.stall(id, verdict="silent", cause="{}", **now))

        assert stall(epoch=seen.epoch - 1) == []
        db.finish(worker, "completed")
        assert stall() == []
        assert stall(event_seq=db.one(id).event_seq) == [id]
        assert stall(event_seq=db.one(id).event_seq) == []

    @pytest.mark.parametrize("state", [each for each in STATES if each != "running"])
    def test_only_what_runs(self, db: BatchHand, state: str) -> None:
        id = into(db, state)
        now = db.one(id)

        assert db.ask(batches.stall(id, epoch=now.epoch, event_seq=now.event_seq, verdict="silent", cause="{}")) == []

    def test_it_goes_on_by_itself_when_a_job_ends(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        [claim] = db.take(worker, id)
        db.stall(id)

        db.end(worker, ending(claim, "again"))
        assert db.is_(id) == "stalled"
        db.finish(worker, "completed")

        batch = db.one(id)
        assert (batch.state, batch.reason, batch.cause, batch.stalled_at) == ("running", None, None, None)
        assert (batch.resumes, db.events(id)[-1].data) == (0, {"before": "stalled", "why": "advanced"})


class TestRecall:
    def test_what_keeps_it_now_is_said_instead_and_nothing_else_changes(self, db: BatchHand) -> None:
        id = into(db, "stalled")
        before = db.one(id)
        seen = {"epoch": before.epoch, "event_seq": before.event_seq}

        assert db.ask(batches.recall(id, **seen, verdict="no_workers", cause='{"sentence": "Nobody is there."}')) == [
            id
        ]

        now = db.one(id)
        assert (now.reason, now.cause) == ("no_workers", {"sentence": "Nobody is there."})
        assert (now.state, now.stalled_at, now.event_seq) == ("stalled", before.stalled_at, before.event_seq)

    def test_only_if_nothing_happened_since_that_was_found_out(self, db: BatchHand) -> None:
        id = into(db, "stalled")
        now = db.one(id)

        assert db.ask(batches.recall(id, epoch=now.epoch, event_seq=now.event_seq - 1, verdict="x", cause="{}")) == []
        assert db.ask(batches.recall(id, epoch=now.epoch - 1, event_seq=now.event_seq, verdict="x", cause="{}")) == []


class TestGiveUp:
    @pytest.mark.parametrize("state", STATES)
    def test_only_what_is_stalled_and_has_no_resume_left(self, db: BatchHand, state: str) -> None:
        id = into(db, state, max_resumes=1)
        assert db.ask(batches.give_up()) == []
        if state != "failed":
            db.sql("update retoma.batches set resumes = 1")

        assert db.ask(batches.give_up()) == ([id] if state == "stalled" else [])
        assert db.breaches() == []

    def test_not_before_a_round_has_passed_and_not_when_something_happened(self, db: BatchHand) -> None:
        id = into(db, "stalled", max_resumes=0)
        now = db.one(id).event_seq

        assert db.ask(batches.give_up(id, event_seq=now, round=60.0)) == []
        db.age(61)
        assert db.ask(batches.give_up(id, event_seq=now - 1, round=60.0)) == []
        assert db.ask(batches.give_up(id, event_seq=now, round=60.0)) == [id]

    def test_what_is_done_stays_done_and_nobody_takes_the_rest(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3, max_resumes=0)
        db.finish(worker, "completed")
        [claim] = db.take(worker, id)
        db.stall(id)

        assert db.ask(batches.give_up()) == [id]

        assert (db.is_(id), db.claim(worker), db.counts(id)) == ("failed", [], (3, 2, 0))
        assert db.ask(workers.called_off([worker])) == [(claim.id, worker, claim.fence, "released")]


class TestAdvance:
    def test_a_step_that_was_saved_since_moves_it_again(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(2)
        [claim] = db.take(worker, id)
        db.save(worker, claim, "early")
        db.age(1)
        db.stall(id)
        assert db.ask(batches.advance()) == []
        db.save(worker, claim, "late")

        assert db.ask(batches.advance()) == [id]

        assert (db.is_(id), db.one(id).resumes, db.one(id).cause) == ("running", 0, None)
        assert db.events(id)[-1].data == {"before": "stalled", "why": "advanced"}
        assert db.ask(batches.advance()) == []

    @pytest.mark.parametrize("state", ["running", "paused", "failed", "cancelled", "completed"])
    def test_only_what_is_stalled(self, db: BatchHand, state: str) -> None:
        worker, id = db.hello(), db.batch(2, max_resumes=0)
        [claim] = db.take(worker, id)
        match state:
            case "paused":
                db.pause(id)
            case "failed":
                db.stall(id)
                db.ask(batches.give_up())
            case "cancelled":
                db.cancel(id)
        db.save(worker, claim)
        if state == "completed":
            db.end(worker, completed(claim))
            db.finish(worker, "completed")

        assert (db.ask(batches.advance()), db.is_(id)) == ([], state)


class TestUnsealed:
    def test_what_was_opened_too_long_ago_is_cancelled_with_its_jobs(self, db: BatchHand) -> None:
        late, young, sealed = db.open(expires=60.0), db.open(expires=600.0), db.batch(1)
        db.fill(late, 1, 2)
        db.age(61)

        assert db.ask(batches.unsealed()) == [late]
        assert db.look_after().expired == [late]

        assert (db.is_(late), db.one(late).reason, db.states_of(late)) == ("cancelled", "unsealed", ["cancelled"] * 2)
        assert (db.is_(young), db.is_(sealed)) == ("queued", "queued")
        assert code_of(lambda: db.fill(late, 3)) == "batch_sealed"
        assert (db.look_after().expired, db.breaches()) == ([], [])


class TestSilent:
    def test_running_batches_in_which_nothing_ended_for_as_long_as_they_allow(self, db: BatchHand) -> None:
        worker = db.hello(lease=1e6)
        patient, quick = db.batch(2, stall_seconds=1000.0), db.batch(2, stall_seconds=100.0)
        db.finish(worker, "completed", "completed")
        assert {db.is_(patient), db.is_(quick)} == {"running"}
        db.age(101)

        assert db.ask(batches.silent()) == [quick]
        db.age(1000)
        assert sorted(db.ask(batches.silent())) == [patient, quick]

    def test_those_come_first_that_nobody_has_looked_at_for_the_longest_time(self, db: BatchHand) -> None:
        ids = {db.batch(1) for _ in range(6)}
        for _ in ids:
            db.claim(db.hello(), 1)
        db.age(10 * STALL)

        seen = [db.ask(batches.silent(limit=2)) for _ in range(3)]

        assert {id for some in seen for id in some} == ids

    def test_a_hundred_that_sleep_for_a_week_do_not_hide_one_whose_worker_is_gone(self, db: BatchHand) -> None:
        worker = db.hello(lease=1e9)
        stuck = db.batch(1)
        asleep = {db.batch(1) for _ in range(101)}
        claims: list[Claim] = []
        turns = Turns()  # there are more lanes than one look reaches
        while len(claims) < 1 + len(asleep):
            claims += db.claim(worker, 50, turns=turns)
        week = 7 * 86400.0
        db.end(
            worker,
            *(ending(each, "postponed", delay=week, reason="sleeping") for each in claims if each.batch_id in asleep),
        )
        db.age(2 * STALL)
        db.silence(worker)

        found = [why.batch_id for _ in range(2) for why in db.look_after().stalled]

        assert found == [stuck]

    @pytest.mark.parametrize("state", [each for each in STATES if each not in {"running", "stalled"}])
    def test_what_does_not_run_is_not_asked(self, db: BatchHand, state: str) -> None:
        into(db, state)
        db.age(10 * STALL)

        assert db.ask(batches.silent()) == []


class TestOne:
    def test_everything_that_is_known(self, db: BatchHand) -> None:
        id = db.batch(2, name="n", labels={"a": "é"}, budget=Decimal("1.5"), max_failure_rate=0.25)

        batch = db.one(id)

        assert (batch.name, batch.pipeline, batch.queue, batch.labels) == ("n", PIPELINE, QUEUE, {"a": "é"})
        assert (batch.budget, batch.spent, batch.max_failure_rate) == (Decimal("1.5"), Decimal(0), 0.25)
        assert db.ask(batches.one(NOBODY)) == []


class TestPage:
    def test_newest_first_after_a_cursor_and_through_each_filter(self, db: BatchHand) -> None:
        one = into(db, "completed", labels={"team": "a", "x": "1"}, name="first")
        two = db.batch(1, labels={"team": "b"}, name="second")
        three = db.batch(1, labels={"team": "a"}, name="third")

        def page(**filters: Any) -> list[int]:
            return [each.id for each in db.ask(batches.page(**filters))]

        assert page() == [three, two, one]
        assert (page(limit=2), page(before=two)) == ([three, two], [one])
        assert page(states=["completed", "failed"]) == [one]
        assert (page(labels='{"team": "a"}'), page(labels='{"team": "a", "x": "1"}')) == ([three, one], [one])
        assert (page(text="IR"), page(text="s"), page(text="x")) == ([three, one], [two, one], [])
        assert (page(name="second"), page(pipeline=PIPELINE), page(pipeline="other")) == ([two], [three, two, one], [])

    def test_a_state_or_a_size_that_cannot_be_is_refused(self, db: BatchHand) -> None:
        plain: dict[str, Any] = {"states": None, "pipeline": None, "labels": None, "name": None, "before": None}
        with pytest.raises(ConfigurationError, match="no state 'done'"):
            db.do(batch_commands.page(**plain | {"states": ["done"]}, limit=1))
        with pytest.raises(ConfigurationError, match="at least 1"):
            db.do(batch_commands.page(**plain, limit=0))


class TestProgress:
    def test_the_sums_are_the_total_in_every_state(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(8)
        db.finish(worker, "completed", "skipped", "failed", "review", "cancelled")
        db.take(worker, id)

        now = db.progress(id)

        assert (now.queued, now.running, now.completed, now.skipped) == (2, 1, 1, 1)
        assert (now.failed, now.review, now.cancelled, now.total) == (1, 1, 1, 8)
        assert (now.done, now.percent, now.last_key) == (5, 62.5, db.one(id).last_key)

    def test_an_open_batch_counts_what_it_holds(self, db: BatchHand) -> None:
        id = db.open()
        assert (db.progress(id).total, db.progress(id).percent) == (0, 0.0)
        db.fill(id, 1, 2)

        assert (db.progress(id).total, db.progress(id).queued) == (2, 2)

    def test_the_pace_fades_with_a_minute_and_with_five(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(10)
        db.finish(worker, *["completed"] * 4, seconds=2.5)
        now = db.progress(id)
        assert (now.pace_minute, now.pace_five, now.busy_seconds) == (
            pytest.approx(4, abs=0.5), pytest.approx(4, abs=0.2), 10.0
        )  # fmt: skip

        db.age(60)
        db.finish(worker, "completed")

        now = db.progress(id)
        assert now.pace_minute == pytest.approx(4 * 0.36788 + 1, abs=0.5)
        assert now.pace_five == pytest.approx(4 * 0.81873 + 1, abs=0.2)

    def test_a_batch_that_rested_for_days_again_and_again_is_shown_and_goes_on(self, db: BatchHand) -> None:
        id, worker = db.batch(5), db.hello()
        db.finish(worker, "failed")
        for _ in range(4):
            db.age(3 * 86_400)
            db.retry_failed(id)
            assert db.progress(id).pace_minute == pytest.approx(0)
            assert db.ask(batch_figures.standings([id]))[0].pace_five == pytest.approx(0)
            db.finish(db.hello(), "failed")
            db.sql("update retoma.batches set pace_minute = 1e-300, pace_five = 1e-300")  # as it may stand in a row

        db.age(86_400)
        db.finish(db.hello(), "completed")

        assert db.progress(id).pace_minute == pytest.approx(1, abs=0.1)

    def test_the_key_of_the_last_that_ended(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        assert db.progress(id).last_key is None
        one, two = db.take(worker, id, 2)
        db.end(worker, completed(two))
        assert db.progress(id).last_key == two.key
        db.end(worker, ending(one, "again"))
        assert db.progress(id).last_key == two.key
        last = max(db.finish(worker, "failed", "completed"))  # of those that end together, the last in line

        assert db.progress(id).last_key == db.job(last).key


class TestSteps:
    def test_figures_by_hand(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        one, two, three = db.take(worker, id, 3)

        def save(claim: Any, step: str, seconds: float) -> None:
            db.save(worker, claim, step)
            db.sql(
                "update retoma.checkpoints set seconds = %(s)s where job_id = %(id)s and step = %(step)s",
                s=seconds, id=claim.id, step=step,
            )  # fmt: skip
            db.age(1)

        for claim, seconds in ((one, 1.0), (two, 2.0), (three, 9.0)):
            save(claim, "read", seconds)
        for place, seconds in ((1, 4.0), (2, 6.0)):
            save(one, f"chapter/{place}", seconds)
        db.end(worker, completed(three))
        db.sql("update retoma.checkpoints set set_aside_at = now() where job_id = %(id)s", id=two.id)
        save(two, "read", 3.0)

        read, chapter = db.ask(batches.steps(id))

        assert (read.step, read.done, read.jobs, read.here) == ("read", 3, 3, 1)
        assert (read.median_seconds, read.slow_seconds) == (3.0, pytest.approx(3 + 0.9 * 6))
        assert (chapter.step, chapter.done, chapter.jobs, chapter.here) == ("chapter/*", 2, 1, 1)
        assert (chapter.median_seconds, chapter.slow_seconds) == (5.0, pytest.approx(5.9))

    def test_the_wait_before_a_step_is_since_the_step_before_it(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(1)
        db.age(2000)
        [claim] = db.take(worker, id)
        db.save(worker, claim, "read")
        db.age(1000)
        db.save(worker, claim, "ask")
        db.sql("update retoma.checkpoints set seconds = 4")

        read, ask = db.ask(batches.steps(id))

        assert read.wait_seconds is not None
        assert ask.wait_seconds is not None
        assert 996 <= ask.wait_seconds < 1996 <= read.wait_seconds


class TestDurations:
    def test_figures_by_hand(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(6)
        assert db.ask(batches.durations(id))[0].jobs == 0
        for seconds, word in (
            (1.0, "completed"),
            (2.0, "skipped"),
            (3.0, "review"),
            (10.0, "completed"),
            (99.0, "failed"),
        ):
            db.finish(worker, word, seconds=seconds)

        [took] = db.ask(batches.durations(id))

        assert (took.jobs, took.mean, took.median, took.slowest) == (4, 4.0, 2.5, 10.0)
        assert took.slow == pytest.approx(3 + 0.85 * 7)


class TestErrors:
    def test_what_is_the_same_but_for_numbers_and_names_is_one_group(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(8)
        texts = [
            "ValueError: page 3 of 'a.pdf'\nTraceback one", "ValueError: page 14 of 'b b.pdf'\nother",
            'ValueError: page 1 of "c"', "ValueError: row 3 of 'a.pdf'", None, None,
        ]  # fmt: skip
        claims = db.take(worker, id, 6)
        for claim, text in zip(claims, texts, strict=True):
            how = ending(claim, "failed")
            how.error = text
            db.end(worker, how)

        groups = db.ask(batches.errors(id))

        assert [each.jobs for each in groups] == [3, 2, 1]
        assert (groups[0].example, groups[0].reason) == ("ValueError: page 3 of 'a.pdf'", "OSError")
        assert groups[0].first_jobs == [each.id for each in claims[:3]]
        assert groups[0].first_keys == [each.key for each in claims[:3]]
        assert (groups[1].example, groups[1].first_jobs) == (None, [each.id for each in claims[4:]])
        assert len({each.fingerprint for each in groups}) == 3

    def test_of_a_long_line_its_beginning_counts(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(2)
        for claim, end in zip(db.take(worker, id, 2), ("x", "y"), strict=True):
            how = ending(claim, "failed")
            how.error = "ValueError: " + "page of a book " * 50 + end
            db.end(worker, how)

        assert [each.jobs for each in db.ask(batches.errors(id))] == [2]

    def test_only_what_failed_and_stayed_failed(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(4)
        ids = db.finish(worker, "failed", "again", "completed")
        assert [each.first_jobs for each in db.ask(batches.errors(id))] == [ids[:1]]
        db.ask(jobs.retry(ids[:1]))

        assert db.ask(batches.errors(id)) == []


class TestEvidence:
    def test_of_a_batch_that_waits_to_begin(self, db: BatchHand) -> None:
        id = db.batch(2)
        seen = db.evidence(id)

        assert (seen.state, seen.queued, seen.due, seen.running, seen.workers) == ("queued", 2, 2, 0, 0)
        assert (seen.started_at, seen.last_progress_at, seen.silent, seen.next_run_at) == (None, None, False, None)
        assert (seen.outlived_seconds, seen.slowest_seconds, seen.suspect_key) == (None, None, None)

    def test_of_one_at_work(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(5)
        db.finish(worker, "completed", seconds=12.0)
        [old] = db.take(worker, id)
        db.age(100)
        [young] = db.take(worker, id)
        db.save(worker, young)
        db.age(10)

        seen = db.evidence(id)

        assert (seen.running, seen.queued, seen.orphaned, seen.slowest_seconds) == (2, 2, 0, 12.0)
        assert (seen.oldest_key, seen.workers, seen.idle_workers) == (old.key, 1, 1)
        assert (seen.outlived_seconds, seen.oldest_seconds) == (pytest.approx(10, abs=5), pytest.approx(110, abs=5))
        assert seen.silent_seconds == pytest.approx(10, abs=5)

    def test_of_workers_that_are_lost_full_or_of_another_trade(self, db: BatchHand) -> None:
        id = db.batch(3)
        gone, full, other = db.hello("gone"), db.hello("full"), db.hello("other")
        [lost] = db.take(gone, id)
        db.silence(gone)
        db.sql("update retoma.workers set at_once = 1 where id = %(id)s", id=full)
        db.take(full, id)
        db.sql("update retoma.workers set pipelines = '{other}' where id = %(id)s", id=other)

        seen = db.evidence(id)

        assert (seen.running, seen.orphaned, seen.lost_worker) == (2, 1, "gone")
        assert (seen.workers, seen.idle_workers) == (1, 0)
        assert seen.lost_at is not None
        assert lost.key == "k0"

    def test_of_what_waits_for_an_hour_and_of_what_ended_badly(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(3)
        db.finish(worker, "completed")
        db.age(50)
        one, two = db.take(worker, id, 2)
        how = ending(one, "again")
        how.delay, how.reason, how.error = 600.0, "RateLimited", "RateLimited: 429\nmore"
        db.end(worker, how)
        db.ask(jobs.bury(worker, [Blame(two.id, "crashed")], reason="why", error="Killed"))
        seen = db.evidence(id)

        assert (seen.queued, seen.due, seen.next_reason, seen.bad_endings) == (2, 1, "RateLimited", 2)
        assert (seen.suspect_key, seen.suspect_crashes) == (two.key, 1)
        assert seen.next_run_at is not None
        assert seen.bad_ending in {"crashed", "failed"}
        assert seen.bad_error in {"RateLimited: 429", "Killed"}

    def test_a_graceful_hand_back_is_not_a_bad_ending(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        db.finish(worker, "released", "postponed", "waiting", delay=0.0)

        assert db.evidence(id).bad_endings == 0

    def test_of_a_queue_that_is_paused(self, db: BatchHand) -> None:
        id = db.batch(1)
        db.ask(queues.pause(QUEUE, reason="repairs"))

        assert db.evidence(id).queue_paused == "repairs"


class TestPlan:
    def test_figures_by_hand(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(9, max_retries=9, configuration={"model": "a"})
        claims = db.take(worker, id, 7)
        for claim in claims[:2]:
            for step in ("a", "b"):
                db.save(worker, claim, step)
        words = ("completed", "again", "again", "failed", "skipped", "review", "cancelled")
        db.end(worker, *(ending(each, word, seconds=2.0) for each, word in zip(claims, words, strict=True)))
        quarantined = claims[3]
        db.sql("update retoma.jobs set reason = 'quarantine' where id = %(id)s", id=quarantined.id)
        db.sql("update retoma.jobs set crashes = 1 where id = %(id)s", id=claims[2].id)
        db.pause(id)

        plan = db.do(batch_commands.plan(id, configuration=None))

        assert (plan.can, plan.why_not) == (True, None)
        assert (plan.skips, plan.continues, plan.begins, plan.reruns) == (3, 1, 3, 0)
        assert (plan.leaves_failed, plan.quarantined, plan.suspects, plan.steps_kept) == (0, 1, 1, 2)
        assert plan.seconds_saved == pytest.approx(3 * 2.0 + 0.2)
        assert plan.seconds_needed == pytest.approx(4 * 2.0 - 0.2)

    def test_another_configuration_runs_what_is_done_again(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(4, configuration={"model": "a"})
        db.finish(worker, "completed", "completed", seconds=3.0)
        db.pause(id)

        same = db.do(batch_commands.plan(id, configuration={"model": "a"}))
        other = db.do(batch_commands.plan(id, configuration={"model": "b"}))

        assert (same.skips, same.reruns, same.seconds_needed) == (2, 0, 6.0)
        assert (other.skips, other.reruns, other.seconds_needed, other.seconds_saved) == (0, 2, 12.0, 0.0)

    @pytest.mark.parametrize(
        ("state", "why"),
        [("queued", "it is queued"), ("running", "it is running"), ("completed", "it is completed"),
         ("cancelled", "it is cancelled"), ("failed", "its 0 resumes are used up"), ("stalled", None)],
    )  # fmt: skip
    def test_it_says_why_it_cannot_be_resumed(self, db: BatchHand, state: str, why: str | None) -> None:
        plan = db.do(batch_commands.plan(into(db, state), configuration=None))

        assert (plan.can, plan.why_not) == (why is None, why)


class TestEvents:
    def test_every_change_is_told_in_order_without_gaps(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(3)
        db.finish(worker, "completed", "again")
        db.pause(id)
        db.resume(id)
        db.stall(id)
        db.resume(id)
        db.do(batch_actions.change(id, {"name": "b"}))
        db.finish(worker, "completed", "failed")
        db.retry_failed(id)
        db.cancel(id)
        db.restart(id)

        events = db.events(id)

        assert [each.seq for each in events] == list(range(1, db.one(id).event_seq + 1))
        assert [each.kind for each in events if each.kind != "jobs"] == [
            "created", "sealed", "running", "paused", "running", "stalled", "running", "changed", "completed",
            "running", "cancelled", "running",
        ]  # fmt: skip
        assert all(a.at <= b.at for a, b in pairwise(events))

    def test_what_happened_to_jobs_says_which_and_how(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(2)
        one, two = db.finish(worker, "completed", "failed")

        assert [each.data for each in db.events(id) if each.kind == "jobs"] == [
            {"jobs": [[one, "completed"], [two, "failed"]]}
        ]

    def test_after_a_cursor_and_no_more_than_wanted(self, db: BatchHand) -> None:
        id = into(db, "completed")
        every = db.events(id)

        assert db.ask(batches.events(id, after=1, limit=2)) == every[1:3]
        assert db.ask(batches.events(id, after=every[-1].seq, limit=2)) == []


class TestNews:
    def test_each_batch_after_its_own_cursor(self, db: BatchHand) -> None:
        one, two, three = into(db, "completed"), db.batch(1), db.batch(1)

        news = db.ask(batches.news({two: 1, one: 2, three: 2}, limit=2))

        assert [(each.batch_id, each.seq) for each in news] == [(one, 3), (one, 4), (two, 2)]
        assert news[-1].kind == "sealed"


class TestHint:
    def test_it_is_sent_only_while_somebody_listens(self, db: BatchHand, room: str) -> None:
        assert db.ask(batches.hint([1, 2])) == [False]

        with psycopg.connect(room, autocommit=True) as listener:
            listener.execute(f"listen {batches.CHANNEL}")
            listener.execute(f"select pg_advisory_lock_shared({batches.LISTENING})")
            assert db.ask(batches.hint([1, 2])) == [True]
            assert [each.payload for each in listener.notifies(timeout=60, stop_after=1)] == ["1,2"]
            listener.execute(f"select pg_advisory_unlock_shared({batches.LISTENING})")
            assert db.ask(batches.hint([])) == [False]


class TestConfiguration:
    def test_the_text_it_was_made_with(self, db: BatchHand) -> None:
        id = db.batch(1, configuration={"b": 1, "a": [1.50]})

        [found] = db.ask(batches.configuration(id, cohort=1))

        assert json.loads(found.configuration) == {"b": 1, "a": [1.5]}
        assert found.traceparent is None
        assert db.ask(batches.configuration(NOBODY, cohort=1)) == []


def replanned(db: BatchHand, id: int, **configuration: Any) -> Resumed:
    return db.do(batch_actions.replan(id, configuration=configuration, note="shorter", by="ana"))


class TestReplanned:
    def test_the_newest_configuration_is_that_of_the_batch_and_the_first_is_kept(self, db: BatchHand) -> None:
        id = db.batch(3, configuration={"prompt": "a"})

        did = replanned(db, id, prompt="b")
        again = replanned(db, id, prompt="b")

        assert (did.word, did.jobs, did.batch.cohort, did.batch.configuration) == ("replanned", 3, 2, {"prompt": "b"})
        assert (again.word, again.changed, again.batch.cohort) == ("already_planned", False, 2)
        texts = [db.ask(batches.configuration(id, cohort=number))[0].configuration for number in (1, 2)]
        assert [json.loads(text) for text in texts] == [{"prompt": "a"}, {"prompt": "b"}]
        assert db.told(id)[-1] == "replanned"

    def test_an_ended_batch_and_one_that_is_open_are_refused(self, db: BatchHand) -> None:
        done, open = db.batch(1), db.do(batch_commands.open(read, "letters", BatchOptions(), expires=60.0)).id
        worker = db.hello()
        db.end(worker, completed(db.take(worker, done)[0]))

        for id in (done, open):
            with pytest.raises(BatchConflict, match="left to re-plan"):
                replanned(db, id, prompt="b")

    def test_a_restart_runs_all_of_it_under_the_newest(self, db: BatchHand) -> None:
        id, worker = db.batch(3, configuration={"prompt": "a"}), db.hello()
        (begun,) = db.take(worker, id)
        replanned(db, id, prompt="b")
        for claim in (begun, *db.take(worker, id, 2)):
            db.end(worker, completed(claim))

        db.do(batch_actions.restart(id, configuration={"prompt": "c"}, by="ana"))

        assert {db.job(each).cohort for each in db.jobs_of(id)} == {3}
        assert json.loads(db.ask(batches.configuration(id, cohort=3))[0].configuration) == {"prompt": "c"}


class TestReplan:
    def test_only_what_has_not_begun_is_given_to_the_new_cohort(self, db: BatchHand) -> None:
        id, worker = db.batch(4, configuration={"prompt": "a"}), db.hello()
        running, released, saved = db.take(worker, id, 3)
        db.save(worker, saved)
        for claim in (released, saved):
            db.end(worker, ending(claim, "released"))

        did = replanned(db, id, prompt="b")

        assert did.jobs == 2
        assert [db.job(each.id).cohort for each in (running, released, saved)] == [1, 2, 1]
        assert {each.cohort for each in db.take(worker, id, 3)} == {1, 2}

    def test_the_last_step_goes_along_and_is_not_counted(self, db: BatchHand) -> None:
        id, last = db.finished_batch(3, configuration={"prompt": "a"})
        db.take(db.hello(), id)

        assert replanned(db, id, prompt="b").jobs == 2
        assert db.job(last).cohort == 2

    def test_where_only_the_last_step_waits_nothing_is_changed(self, db: BatchHand) -> None:
        id, last = db.finished_batch(1)
        db.take(db.hello(), id)

        with pytest.raises(BatchConflict, match="has begun"):
            replanned(db, id, prompt="b")
        assert db.job(last).cohort == 1

    def test_where_everything_has_begun_nothing_is_changed(self, db: BatchHand) -> None:
        id, worker = db.batch(1), db.hello()
        db.take(worker, id)

        with pytest.raises(BatchConflict, match="has begun"):
            replanned(db, id, prompt="b")
        assert (db.sql("select * from retoma.cohorts"), db.do(batch_commands.one(id)).cohort) == ([], 1)

    def test_a_job_that_is_being_taken_is_visited_again_and_keeps_its_configuration(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.batch(3, configuration={"prompt": "a"})
        two.begin()
        two.sql("select id from retoma.jobs where id = %(id)s for update", id=one.jobs_of(id)[0])
        did = replanned(one, id, prompt="b")
        assert (did.jobs, did.batch.operation_id is not None) == (2, True)
        two.sql("update retoma.jobs set state = 'failed', finished_at = now() where id = %(id)s", id=one.jobs_of(id)[0])
        two.commit()

        while did.batch.operation_id and not one.ask(operations.one(did.batch.operation_id))[0].finished:
            one.do(operation_commands.piece(did.batch.operation_id))

        assert [one.job(each).cohort for each in one.jobs_of(id)] == [1, 2, 2]


class TestCohorts:
    def test_one_that_was_never_replanned_has_one(self, db: BatchHand) -> None:
        (only,) = db.ask(batches.cohorts(db.batch(2, configuration={"prompt": "a"})))

        assert (only.number, only.jobs, only.unfinished, only.configuration) == (1, 2, 2, {"prompt": "a"})
        assert (only.failure_rate, only.cost_each, only.review_share, only.agreement) == (None,) * 4

    def test_they_are_compared_by_what_became_of_their_jobs(self, db: BatchHand) -> None:
        id, worker = db.batch(6), db.hello()
        early = db.take(worker, id, 2)
        replanned(db, id, prompt="b")
        late = db.take(worker, id, 4)
        for claim, how in zip((*early, *late), ("completed", "failed", *["completed"] * 3, "review"), strict=True):
            db.end(worker, ending(claim, how))

        first, second = db.ask(batches.cohorts(id))

        assert (first.jobs, first.failed, first.failure_rate) == (2, 1, 0.5)
        assert (second.jobs, second.failed, second.review, second.review_share) == (4, 0, 1, 0.25)
        assert (second.planned_by, second.note, second.cost_each) == ("ana", "shorter", 0)
        assert second.median_seconds is not None


class TestPrune:
    TABLES = ("jobs", "attempts", "checkpoints", "signals", "events", "batches", "lanes", "slots")

    def full(self, db: BatchHand) -> int:
        worker, id = db.hello(), db.batch(3, at_once=5)
        claims = db.take(worker, id, 3)
        for claim in claims:
            db.save(worker, claim)
            db.ask(jobs.signal(claim.id, "approved", "1"))
        db.end(worker, *(completed(each) for each in claims))
        return id

    def rows(self, db: BatchHand) -> list[int]:
        return [db.value(f"select count(*) from retoma.{table}") for table in self.TABLES]

    def test_everything_of_it_goes_and_nothing_else(self, db: BatchHand) -> None:
        self.full(db)
        one = self.rows(db)
        old = self.full(db)
        db.age(1000)
        db.sql("update retoma.batches set finished_at = now() where id <> %(id)s", id=old)  # the first ended just now

        assert db.do(pruning.whole("batches", 500.0)) == 4

        assert db.ask(batches.one(old)) == []
        assert self.rows(db) == one
        assert db.breaches() == []

    def test_a_bounded_number_at_a_time_and_never_a_batch_before_its_jobs_and_its_story(self, db: BatchHand) -> None:
        id = self.full(db)
        story = db.value("select count(*) from retoma.events")
        db.age(1000)

        assert db.ask(batches.retire(500.0)) == [id]
        told = [sorted(what for _, what in db.ask(batches.prune(limit=2))) for _ in range(4 + story // 2 + 1)]

        assert told[:2] == [["job", "job"], ["job"]]
        assert [each for some in told[2:-2] for each in some] == ["event"] * story
        assert told[-2:] == [["batch"], []]

    def test_whoever_looks_sees_a_batch_whole_or_not_at_all(self, db: BatchHand) -> None:
        id = self.full(db)
        db.age(1000)
        db.ask(batches.retire(500.0))
        db.ask(batches.prune(limit=1))

        assert (db.ask(batches.one(id)), db.ask(batches.page()), db.ask(batches.progress(id))) == ([], [], [])
        for command in (db.restart, db.retry_failed, db.resume, db.pause, db.cancel):
            with pytest.raises(NotFound):
                command(id)
        left = db.value("select min(id) from retoma.jobs")
        assert db.ask(jobs.restart(left)) == []
        assert db.breaches() == []

    def test_a_job_that_is_brought_back_to_life_at_that_moment_keeps_its_batch(
        self, db: BatchHand, hand: Callable[..., BatchHand]
    ) -> None:
        id = self.full(db)
        db.age(1000)
        other = hand()
        other.begin()
        other.ask(jobs.restart(db.jobs_of(id)[0]))

        assert db.do(pruning.whole("batches", 500.0)) == 0
        other.commit()

        assert db.do(pruning.whole("batches", 500.0)) == 0
        assert (db.is_(id), db.breaches()) == ("running", [])

    @pytest.mark.parametrize("state", ["queued", "running", "paused", "stalled"])
    def test_what_has_not_ended_stays(self, db: BatchHand, state: str) -> None:
        into(db, state)
        db.age(1e6)

        assert db.do(pruning.whole("batches", 500.0)) == 0

    def test_one_whose_job_still_runs_stays_whole(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e7), db.batch(2)
        [claim] = db.take(worker, id)
        db.cancel(id)
        db.age(1e6)

        assert db.do(pruning.whole("batches", 500.0)) == 0
        db.end(worker, ending(claim, "cancelled"))
        assert db.do(pruning.whole("batches", 500.0)) == 3

    def test_failed_batches_with_waiting_jobs_go_whole_and_hold_up_no_other(self, db: BatchHand) -> None:
        worker = db.hello(lease=1e7)
        for _ in range(20):
            self.full(db)
        for _ in range(12):
            id = db.batch(5, max_failure_rate=0.0, max_retries=0)
            db.end(worker, *(ending(each, "failed") for each in db.take(worker, id)))
            assert db.is_(id) == "failed"
        db.age(1000)
        db.sql("update retoma.batches set finished_at = finished_at - interval '1 hour' where state = 'failed'")

        assert db.do(pruning.whole("batches", 500.0)) == 12 * 6 + 20 * 4
        assert self.rows(db) == [0] * len(self.TABLES)

    def test_jobs_of_batches_are_not_pruned_alone(self, db: BatchHand) -> None:
        self.full(db)
        db.age(1000)

        assert db.ask(jobs.prune(500.0)) == []


class TestEndWaiting:
    def test_a_failed_batch_that_is_resumed_in_the_middle_of_it_has_lost_no_row(self, db: BatchHand) -> None:
        worker = db.hello(lease=1e7)
        id = db.batch(5, max_failure_rate=0.0, max_retries=0)
        db.end(worker, *(ending(each, "failed") for each in db.take(worker, id)))
        db.age(1000)

        assert len(db.ask(batches.end_waiting(500.0, limit=2))) == 2
        assert db.ask(batches.retire(500.0)) == [], "two still wait"
        db.resume(id)

        assert db.do(pruning.whole("batches", 500.0)) == 0
        assert (len(db.jobs_of(id)), db.is_(id), db.breaches()) == (5, "running", [])

    @pytest.mark.parametrize("state", STATES)
    def test_only_what_failed_and_was_left_so_for_long(self, db: BatchHand, state: str) -> None:
        into(db, state)

        assert db.ask(batches.end_waiting(500.0)) == []
        db.age(1000)
        assert bool(db.ask(batches.end_waiting(500.0))) == (state == "failed")


class TestPipelines:
    def test_of_which_pipeline_each_is_and_nothing_of_those_that_are_not_there(self, db: BatchHand) -> None:
        first, second, pruned = db.batch(), db.batch(), db.batch()
        db.sql("update retoma.batches set pipeline = 'other' where id = %(id)s", id=second)
        db.sql("update retoma.batches set pruned_at = now() where id = %(id)s", id=pruned)

        assert dict(db.ask(batches.pipelines([first, second, pruned, 404]))) == {first: PIPELINE, second: "other"}


class TestRetire:
    def test_the_oldest_first_a_bounded_number_at_a_time(self, db: BatchHand) -> None:
        first, second = into(db, "completed"), into(db, "completed")
        db.age(1000)
        db.sql("update retoma.batches set finished_at = finished_at - interval '1 hour' where id = %(id)s", id=second)

        assert db.ask(batches.retire(500.0, limit=1)) == [second]
        assert db.ask(batches.retire(500.0, limit=1)) == [first]
        assert db.ask(batches.retire(500.0, limit=1)) == []


class TestFailurePolicy:
    @pytest.mark.parametrize(
        ("total", "rate", "failures"),
        [(10, 0.0, 1), (10, 0.2, 3), (40, 0.2, 5), (100, 0.1, 3), (3, 0.5, 2), (10, 0.5, 6)],
    )
    def test_it_trips_at_the_first_failure_too_many(
        self, db: BatchHand, total: int, rate: float, failures: int
    ) -> None:
        """The first twenty (or all, when there are fewer) weigh as much as they would together."""
        worker, id = db.hello(), db.batch(total, max_failure_rate=rate)

        for _ in range(failures - 1):
            db.finish(worker, "failed")
            assert db.is_(id) == "running"
        db.finish(worker, "failed")

        assert (db.is_(id), db.one(id).reason, db.claim(worker)) == ("failed", "failures", [])
        assert db.events(id)[-1].data == {"before": "running", "why": "failures"}
        assert db.breaches() == []

    def test_past_the_first_twenty_the_rate_is_of_what_has_ended(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(100, max_failure_rate=0.1)
        db.finish(worker, *["completed"] * 45)

        db.finish(worker, *["failed"] * 5)
        assert db.is_(id) == "running"
        db.finish(worker, "failed")

        assert db.is_(id) == "failed"

    def test_a_stalled_batch_fails_too_and_one_without_a_policy_never(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3, max_failure_rate=0.0)
        [claim] = db.take(worker, id)
        db.stall(id)
        db.end(worker, ending(claim, "failed"))
        assert db.is_(id) == "failed"

        easy = db.batch(5)
        db.finish(worker, *["failed"] * 4)
        assert db.is_(easy) == "running"

    def test_the_last_job_completes_it_whatever_the_rate(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(1, max_failure_rate=0.0)
        db.finish(worker, "failed")

        assert (db.is_(id), db.counts(id)) == ("completed", (1, 0, 1))


class TestTell:
    """What happens to single jobs is told in the row of their batch, by every statement that moves them."""

    def test_the_first_claim_starts_it_and_the_last_ending_completes_it(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        one, two = db.take(worker, id, 2)
        assert (db.is_(id), db.one(id).started_at is not None) == ("running", True)
        [three] = db.take(worker, id)
        db.end(worker, completed(one), completed(three))
        assert (db.is_(id), db.counts(id)) == ("running", (3, 1, 0))

        db.end(worker, ending(two, "failed"))

        assert (db.is_(id), db.counts(id), db.told(id)) == (
            "completed", (3, 0, 1), ["created", "sealed", "running", "completed"]
        )  # fmt: skip
        assert db.one(id).finished_at is not None

    @pytest.mark.parametrize(
        ("word", "counts"),
        [("completed", (2, 1, 0)), ("skipped", (2, 1, 0)), ("review", (2, 1, 0)), ("cancelled", (2, 1, 0)),
         ("failed", (2, 1, 1)), ("again", (2, 2, 0)), ("released", (2, 2, 0)), ("postponed", (2, 2, 0)),
         ("waiting", (2, 2, 0))],
    )  # fmt: skip
    def test_each_ending_counts_as_what_it_is(self, db: BatchHand, word: str, counts: tuple[int, int, int]) -> None:
        worker, id = db.hello(), db.batch(2)
        more = {"delay": 0.0} if word in {"postponed", "waiting"} else {}

        db.finish(worker, word, **more)

        assert (db.counts(id), db.breaches()) == (counts, [])

    def test_jobs_of_several_batches_and_of_none_in_one_statement(self, db: BatchHand) -> None:
        worker, one, two = db.hello(), db.batch(1), db.batch(2)
        db.one_job()
        claims = sorted(db.claim(worker, 10), key=lambda each: each.id)
        assert {each.batch_id for each in claims} == {one, two, None}

        db.end(worker, *(completed(each) for each in claims))

        assert (db.is_(one), db.is_(two), db.breaches()) == ("completed", "completed", [])

    def test_a_worker_that_is_buried_or_lost(self, db: BatchHand) -> None:
        id = db.batch(4, max_retries=9)
        for round in range(1, MOST_CRASHES + 1):
            worker = db.hello()
            [claim] = db.take(worker, id, suspects=round == MOST_CRASHES)
            db.ask(jobs.bury(worker, [Blame(claim.id, "crashed")], reason="why", error="why"))
            assert db.counts(id) == ((4, 4, 0) if round < MOST_CRASHES else (4, 3, 1))
        lost = db.hello()
        [claim] = db.take(lost, id)
        db.sql("update retoma.jobs set attempt = max_attempts where id = %(id)s", id=claim.id)
        db.silence(lost)
        assert [each.state for each in db.recover()] == ["failed"]

        assert (db.counts(id), db.is_(id), db.breaches()) == ((4, 2, 2), "running", [])

    def test_jobs_that_expire_or_are_overdue(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(3)
        [claim] = db.take(worker, id)
        late = next(each for each in db.jobs_of(id) if each != claim.id)
        db.sql("update retoma.jobs set expires_at = now() where id = %(id)s", id=late)

        assert db.ask(jobs.expire()) == [late]
        assert db.counts(id) == (3, 2, 1)
        db.age(1001)
        assert db.ask(jobs.overdue(1000.0)) == [claim.id]

        assert (db.counts(id), db.is_(id), db.breaches()) == ((3, 1, 2), "running", [])

    def test_jobs_that_are_cancelled_one_by_one_complete_it(self, db: BatchHand) -> None:
        id = db.batch(2)
        for job in db.jobs_of(id):
            db.ask(jobs.cancel([job]))

        assert (db.is_(id), db.counts(id), db.one(id).started_at) == ("completed", (2, 0, 0), None)

    @pytest.mark.parametrize("again", ["retry", "restart"])
    @pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
    def test_one_job_that_is_tried_again_revives_it(self, db: BatchHand, state: str, again: str) -> None:
        worker, id = db.hello(), db.batch(2, max_resumes=0)
        [job] = db.finish(worker, "failed")
        match state:
            case "completed":
                db.finish(worker, "completed")
            case "failed":
                db.stall(id)
                db.ask(batches.give_up())
            case "cancelled":
                db.cancel(id)
        before, (total, unfinished, _) = db.one(id), db.counts(id)
        assert before.state == state

        db.ask(jobs.retry([job]) if again == "retry" else jobs.restart(job))

        now = db.one(id)
        assert (now.state, now.finished_at, now.epoch) == ("running", None, before.epoch + 1)
        assert (db.counts(id), db.breaches()) == ((total, unfinished + 1, 0), [])
        assert db.events(id)[-1].data == {"before": state, "why": "retried"}
        assert job in [each.id for each in db.claim(worker, 10)]

    def test_a_job_that_is_tried_again_while_it_runs_is_counted_and_nothing_more(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(3)
        [job] = db.finish(worker, "review")
        db.ask(jobs.retry([job]))

        assert (db.is_(id), db.counts(id), db.told(id)) == ("running", (3, 3, 0), ["created", "sealed", "running"])

    def test_a_stale_ending_is_not_told(self, db: BatchHand) -> None:
        worker, other, id = db.hello(), db.hello(), db.batch(2)
        [claim] = db.take(worker, id)
        db.silence(worker)
        db.recover()
        before = db.one(id)

        assert db.end(worker, completed(claim)) == []
        assert db.end(other, completed(claim)) == []

        assert db.one(id) == before


class TestLookAfter:
    """The watchdog's round, with a clock that is moved."""

    def slow(self, db: BatchHand, **options: Any) -> tuple[int, int]:
        worker, id = db.hello(lease=1e6), db.batch(4, **options)
        db.finish(worker, "completed", seconds=1.0)
        return worker, id

    def test_a_batch_that_hangs_is_stalled_with_its_cause(self, db: BatchHand) -> None:
        worker, id = self.slow(db)
        db.take(worker, id)
        assert db.look_after().stalled == []
        db.age(STALL + 1)

        [why] = db.look_after().stalled

        batch = db.one(id)
        assert (why.verdict, batch.state, batch.reason) == ("hanging", "stalled", "hanging")
        assert batch.cause is not None
        assert (batch.cause["sentence"], batch.cause["action"]) == (why.sentence, "resume")
        assert (db.look_after().stalled, db.breaches()) == ([], [])

    def test_a_slow_one_whose_steps_are_saved_is_not(self, db: BatchHand) -> None:
        worker, id = self.slow(db)
        [claim] = db.take(worker, id)
        db.age(10 * STALL)
        db.save(worker, claim)

        assert (db.look_after().stalled, db.is_(id)) == ([], "running")

    def test_one_that_waits_for_an_hour_is_not(self, db: BatchHand) -> None:
        worker, id = self.slow(db)
        db.finish(worker, *["postponed"] * 3, delay=10 * STALL)
        db.age(5 * STALL)

        assert (db.look_after().stalled, db.is_(id)) == ([], "running")

    def test_one_whose_hour_has_just_come_is_not(self, db: BatchHand) -> None:
        worker, id = self.slow(db)
        db.finish(worker, *["postponed"] * 3, delay=10 * STALL)
        db.age(10 * STALL + 1)

        assert (db.look_after().stalled, db.is_(id)) == ([], "running")

    def test_one_that_saved_a_step_just_now_is_not_for_want_of_a_worker(self, db: BatchHand) -> None:
        worker, id = self.slow(db)
        [claim] = db.take(worker, id)
        db.age(2 * STALL)
        db.save(worker, claim)
        db.silence(worker)

        assert (db.look_after().stalled, db.is_(id)) == ([], "running")

    def test_one_that_moves_again_by_itself_goes_on_and_no_resume_is_counted(self, db: BatchHand) -> None:
        worker, id = self.slow(db, max_resumes=3)
        [claim] = db.take(worker, id)
        db.age(STALL + 1)
        db.look_after()
        db.save(worker, claim)

        assert db.look_after().advanced == [id]
        assert (db.is_(id), db.one(id).resumes) == ("running", 0)

    def test_three_resumes_and_then_it_fails(self, db: BatchHand) -> None:
        worker, id = self.slow(db)
        for _ in range(3):
            db.take(worker, id)
            db.age(STALL + 1)
            assert len(db.look_after().stalled) == 1
            db.resume(id)
        db.take(worker, id)
        db.age(STALL + 1)

        first, second = db.look_after(), db.look_after()

        assert ([each.batch_id for each in first.stalled], first.failed) == ([id], [])
        assert (second.stalled, second.failed) == ([], [id])
        assert (db.is_(id), db.one(id).reason, db.told(id)[-2:]) == ("failed", "resumes", ["stalled", "failed"])
        assert (db.counts(id), db.breaches()) == ((4, 3, 0), [])

    def test_what_was_cancelled_half_way_is_ended(self, db: BatchHand) -> None:
        id = db.batch(3)
        db.ask(batches.cancel(id, reason="person"))  # and whoever asked for it was gone before the jobs were told

        db.look_after()

        assert (db.states_of(id), db.breaches()) == (["cancelled"] * 3, [])

    def test_a_job_that_came_back_to_a_cancelled_batch_is_ended(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(1)
        [claim] = db.take(worker, id)
        db.ask(batches.cancel(id, reason="person"))
        db.end(worker, ending(claim, "released"))
        assert (db.state(claim.id), db.claim(worker)) == ("queued", [])

        db.look_after()

        assert (db.state(claim.id), db.counts(id)) == ("cancelled", (1, 0, 0))


class TestRestingFor:
    def test_only_batches_that_rest_for_that_reason_are_found(self, db: BatchHand) -> None:
        ids = [db.batch() for _ in range(2)]
        for id, reason in zip(ids, ("price_unknown: p/m", "person"), strict=True):
            db.ask(batches.pause(id, reason=reason))

        assert db.ask(batches.resting_for(["price_unknown: p/m"])) == ids[:1]
