"""The life of a job, block by block. How lanes share a claim is told in test_lanes.py."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from store_hand import (
    LEASE,
    PIPELINE,
    QUEUE,
    Hand,
    answer,
    checkpoint,
    completed,
    failed,
    order_of,
    released,
    waiting,
)

from retoma.commands import discards
from retoma.commands import jobs as job_commands
from retoma.errors import Conflict
from retoma.model.job import Claim, Ended, JobState, Receipt
from retoma.store import checkpoints, jobs, queues, workers
from retoma.store.jobs import BESIDE, MOST_BESIDE, MOST_CRASHES, MOST_OUTAGES, Blame
from retoma.store.query import Query
from retoma.store.turns import Turns

Hands = Callable[..., Hand]


def heard_hints(db: Hand, act: Callable[[], object]) -> list[str]:
    """What was notified while *act* ran."""
    db.sql("listen retoma")
    act()
    db.sql("select pg_notify('retoma', 'that was all')")
    heard: list[str] = []
    for notice in db.connection.notifies(timeout=20):
        if notice.payload == "that was all":
            break
        heard.append(notice.payload)
    db.sql("unlisten retoma")
    return heard


def outage(db: Hand) -> None:
    """For longer than a lease nobody could reach the database; every worker had beaten five seconds before that."""
    db.recover()
    db.age(LEASE + 30)
    db.sql("update retoma.duties set last_at = now() - make_interval(secs => %(ago)s)", ago=LEASE + 25)


def crash(db: Hand, ids: Sequence[int]) -> None:
    """An executor takes *ids*, whether they must run alone or not, and dies of them."""
    worker = db.hello()
    held = db.claim(worker, len(ids)) or db.claim(worker, len(ids), suspects=True)
    assert sorted(each.id for each in held) == sorted(ids)
    db.ask(jobs.bury(worker, [Blame(id, "crashed") for id in ids], reason="signal 9", error="killed"))


class TestEnqueue:
    def test_jobs_are_queued_in_the_order_of_their_inputs(self, db: Hand) -> None:
        inputs = [str(each) for each in (7, 3, 9, 1)]

        receipts = db.ask(jobs.enqueue(order_of(), inputs, [None] * 4, [None] * 4, notify=False))

        assert [db.job(each.id).input for each in receipts] == inputs
        assert all(each.new and each.state is JobState.QUEUED for each in receipts)

    def test_a_new_job_has_done_nothing_yet(self, db: Hand) -> None:
        order = order_of(priority=-3, batch_id=8, max_attempts=4, timeout=7.5, correlation_id="c", traceparent="t")
        [receipt] = db.ask(jobs.enqueue(order, ['{"a": 1}'], ["key"], [None], notify=False))

        job = db.job(receipt.id)

        assert (job.state, job.attempt, job.fence, job.crashes, job.worker_id) == ("queued", 0, 0, 0, None)
        assert (job.priority, job.batch_id, job.max_attempts, job.timeout_seconds) == (-3, 8, 4, 7.5)
        assert (job.key, job.correlation_id, job.input, job.expires_at) == ("key", "c", '{"a": 1}', None)

    def test_a_key_that_is_there_gives_its_job_back(self, db: Hand) -> None:
        [first] = db.ask(jobs.enqueue(order_of(), ["1"], ["a"], [None], notify=False))

        again = db.ask(jobs.enqueue(order_of(), ["2", "3"], ["a", "b"], [None] * 2, notify=False))

        assert [(each.key, each.new) for each in again] == [("a", False), ("b", True)]
        assert again[0].id == first.id
        assert db.job(first.id).input == "1"

    def test_the_state_of_the_job_that_was_there_is_told(self, db: Hand) -> None:
        worker = db.hello()
        db.ask(jobs.enqueue(order_of(), ["1"], ["a"], [None], notify=False))
        db.end(worker, *(completed(each) for each in db.claim(worker)))

        [again] = db.ask(jobs.enqueue(order_of(), ["1"], ["a"], [None], notify=False))

        assert (again.state, again.new) == (JobState.COMPLETED, False)

    def test_a_key_counts_within_its_pipeline_and_its_batch(self, db: Hand) -> None:
        orders = (order_of(), order_of(pipeline="other"), order_of(batch_id=1), order_of(batch_id=2))

        receipts = [db.ask(jobs.enqueue(each, ["1"], ["a"], [None], notify=False))[0] for each in orders]

        assert all(each.new for each in receipts)
        assert len({each.id for each in receipts}) == 4

    def test_a_key_said_twice_in_one_breath_is_one_job(self, db: Hand) -> None:
        receipts = db.ask(jobs.enqueue(order_of(), ["1", "2"], ["a", "a"], [None] * 2, notify=False))

        assert [(each.key, each.new) for each in receipts] == [("a", True)]
        assert db.value("select count(*) from retoma.jobs") == 1

    def test_jobs_without_a_key_are_never_the_same(self, db: Hand) -> None:
        assert len({*db.enqueue(3), *db.enqueue(3)}) == 6

    def test_the_database_s_clock_says_when_a_delay_is_over(self, db: Hand) -> None:
        id = db.one_job(delay=90.0, expires=200.0)

        assert 80 < db.seconds_until("run_at", id) <= 90
        assert 280 < db.seconds_until("expires_at", id) <= 290

    def test_an_hour_that_is_said_wins_over_the_delay(self, db: Hand) -> None:
        at = datetime(2031, 5, 6, 7, 8, tzinfo=UTC)

        assert db.job(db.one_job(run_at=at, delay=5.0)).run_at == at

    def test_a_named_lane_is_found_and_nothing_is_queued_into_one_that_is_not_there(self, db: Hand) -> None:
        [lane] = db.lanes("tenant")
        receipts = db.ask(jobs.enqueue(order_of(), ["1"] * 3, [None] * 3, ["tenant", "nobody", None], notify=False))

        found = [db.value(f"select lane_id from retoma.jobs where id = {each.id}") for each in receipts]

        assert found == [lane, 0]

    def test_one_hint_is_sent_however_many_jobs_come(self, db: Hand) -> None:
        def many() -> None:
            db.ask(jobs.enqueue(order_of(), ["1"] * 50, [None] * 50, [None] * 50, notify=True))

        assert heard_hints(db, many) == [QUEUE]

    def test_no_hint_is_sent_when_it_is_not_wanted_or_nothing_is_new(self, db: Hand) -> None:
        def nothing_new() -> None:
            db.ask(jobs.enqueue(order_of(), ["1"], ["a"], [None], notify=False))
            db.ask(jobs.enqueue(order_of(), ["1"], ["a"], [None], notify=True))

        assert heard_hints(db, nothing_new) == []

    def test_an_input_that_is_not_json_queues_nothing(self, db: Hand) -> None:
        with pytest.raises(psycopg.DataError):
            db.ask(jobs.enqueue(order_of(), ["1", "{"], [None] * 2, [None] * 2, notify=False))

        assert db.value("select count(*) from retoma.jobs") == 0


ORDERS: list[dict[str, object]] = [
    {},
    {"priority": -3, "max_attempts": 4, "timeout": 7.5, "correlation_id": "c", "traceparent": "t"},
    {"batch_id": 8, "delay": 90.0, "expires": 200.0},
    {"run_at": datetime(2031, 5, 6, 7, 8, tzinfo=UTC), "delay": 5.0, "expires": 60.0},
]


class TestEnqueueOne:
    @pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(order) or "nothing said")
    @pytest.mark.parametrize("key", [None, "a"])
    def test_one_is_written_as_many_are(self, db: Hand, order: dict[str, object], key: str | None) -> None:
        def written(query: Query[Receipt]) -> tuple[Receipt, dict[str, object]]:
            [receipt] = db.ask(query)
            [(row,)] = db.sql("delete from retoma.jobs as job returning to_jsonb(job)")
            assert row.pop("id") == receipt.id
            return replace(receipt, id=0), row

        db.begin()  # so that it is the same moment for both
        one = written(jobs.enqueue_one(order_of(**order), '{"a": 1}', key, notify=False))
        many = written(jobs.enqueue(order_of(**order), ['{"a": 1}'], [key], [None], notify=False))
        db.rollback()

        assert one == many
        assert one[0] == Receipt(0, key, JobState.QUEUED, new=True)

    def test_a_key_that_is_there_writes_nothing_and_leaves_the_job_to_by_keys(self, db: Hand) -> None:
        [first] = db.ask(jobs.enqueue_one(order_of(), "1", "a", notify=False))

        assert db.ask(jobs.enqueue_one(order_of(), "2", "a", notify=False)) == []
        assert [each.id for each in db.ask(jobs.by_keys(order_of(), ["a"]))] == [first.id]
        assert db.job(first.id).input == "1"

    def test_a_key_counts_within_its_pipeline_and_its_batch(self, db: Hand) -> None:
        orders = (order_of(), order_of(pipeline="other"), order_of(batch_id=1), order_of(batch_id=2))

        receipts = [db.ask(jobs.enqueue_one(each, "1", "a", notify=False)) for each in orders]

        assert [len(each) for each in receipts] == [1, 1, 1, 1]

    def test_a_hint_is_sent_when_it_is_wanted_and_the_job_is_new(self, db: Hand) -> None:
        def three() -> None:
            db.ask(jobs.enqueue_one(order_of(), "1", None, notify=False))
            db.ask(jobs.enqueue_one(order_of(), "1", "a", notify=True))
            db.ask(jobs.enqueue_one(order_of(), "1", "a", notify=True))

        assert heard_hints(db, three) == [QUEUE]

    def test_an_input_that_is_not_json_queues_nothing(self, db: Hand) -> None:
        with pytest.raises(psycopg.DataError):
            db.ask(jobs.enqueue_one(order_of(), "{", None, notify=False))

        assert db.value("select count(*) from retoma.jobs") == 0


class TestByKeys:
    def test_the_jobs_of_these_keys_come_back_and_no_others(self, db: Hand) -> None:
        db.ask(jobs.enqueue(order_of(), ["1"] * 3, ["a", "b", "c"], [None] * 3, notify=False))
        db.ask(jobs.enqueue(order_of(pipeline="other"), ["1"], ["b"], [None], notify=False))
        db.ask(jobs.enqueue(order_of(batch_id=4), ["1"], ["b"], [None], notify=False))

        found = db.ask(jobs.by_keys(order_of(), ["b", "c", "d"]))

        assert [(each.key, each.new) for each in found] == [("b", False), ("c", False)]


class TestClaim:
    def test_atomic_claim_works(self, db: Hand) -> None:
        worker, token = db.hello(), uuid4()
        id = db.one_job(correlation_id="c", timeout=9.0)

        [claim] = db.claim(worker, token=token)

        job = db.job(id)
        assert (claim.id, claim.attempt, claim.fence, claim.timeout_seconds) == (id, 1, 1, 9.0)
        assert (claim.pipeline, claim.queue, claim.input, claim.correlation_id) == (PIPELINE, QUEUE, "0", "c")
        assert (job.state, job.worker_id, job.attempt, job.fence) == ("running", worker, 1, 1)
        assert job.claimed_at is not None
        assert db.value(f"select claim_token from retoma.jobs where id = {id}") == token

    def test_two_workers_never_claim_the_same_job(self, hand: Hands) -> None:
        hands = [hand() for _ in range(3)]
        ids = hands[0].enqueue(300)
        ready = threading.Barrier(len(hands))

        def work(one: Hand) -> list[int]:
            worker = one.hello()
            ready.wait()
            mine: list[int] = []
            while claims := one.claim(worker, 7):
                mine += [each.id for each in claims]
            return mine

        taken = [answer(each) for each in [one.start(lambda one=one: work(one)) for one in hands]]

        # One that found every row in another's hands may have stopped early: the rest is still there to be taken.
        rest = [each.id for each in hands[0].claim(hands[0].hello(), 300)]
        assert sorted(sum(taken, rest)) == ids

    @pytest.mark.parametrize("limit", [1, 2, 7, 19])
    def test_batch_size_respected(self, db: Hand, limit: int) -> None:
        worker = db.hello()
        ids = db.enqueue(20)

        claims = db.claim(worker, limit)

        assert [each.id for each in claims] == ids[:limit]
        assert db.value("select count(*) from retoma.jobs where state = 'running'") == limit

    def test_the_oldest_goes_first(self, db: Hand) -> None:
        ids = db.enqueue(3)
        db.sql("update retoma.jobs set run_at = run_at - interval '1 minute' where id = %(id)s", id=ids[2])

        assert [each.id for each in db.claim(db.hello())] == [ids[2], ids[0], ids[1]]

    def test_a_smaller_priority_goes_before_age(self, db: Hand) -> None:
        [old], [urgent], [late] = db.enqueue(1), db.enqueue(1, priority=-5), db.enqueue(1, priority=5)

        assert [each.id for each in db.claim(db.hello())] == [urgent, old, late]

    def test_what_is_not_due_is_left(self, db: Hand) -> None:
        id = db.one_job(delay=60.0)
        worker = db.hello()

        assert not db.claim(worker)
        db.age(61)
        assert [each.id for each in db.claim(worker)] == [id]

    def test_what_has_waited_too_long_is_left(self, db: Hand) -> None:
        db.one_job(expires=60.0)
        db.age(61)

        assert not db.claim(db.hello())

    def test_a_worker_takes_only_the_pipelines_and_queues_it_serves(self, db: Hand) -> None:
        worker = db.hello()
        mine = db.one_job()
        db.one_job(pipeline="other")
        db.one_job(queue="elsewhere")

        assert [each.id for each in db.claim(worker)] == [mine]

    def test_several_queues_are_served_in_one_statement(self, db: Hand) -> None:
        worker = db.hello()
        ids = {db.one_job(), db.one_job(queue="elsewhere")}

        assert {each.id for each in db.claim(worker, queues=[QUEUE, "elsewhere"])} == ids

    def test_nothing_leaves_a_paused_queue(self, db: Hand) -> None:
        worker = db.hello()
        id = db.one_job()
        other = db.one_job(queue="elsewhere")
        db.ask(queues.pause(QUEUE, reason="person"))

        assert [each.id for each in db.claim(worker, queues=[QUEUE, "elsewhere"])] == [other]

        db.ask(queues.resume(QUEUE))
        assert [each.id for each in db.claim(worker)] == [id]

    def test_a_worker_that_was_given_up_for_lost_gets_nothing(self, db: Hand) -> None:
        worker = db.hello()
        db.one_job()
        db.ask(jobs.bury(worker, [], reason="gone", error="gone"))

        assert not db.claim(worker)

    def test_a_worker_that_never_said_hello_gets_nothing(self, db: Hand) -> None:
        db.one_job()

        assert not db.claim(10**9)

    def test_one_empty_row_says_that_nothing_is_ready(self, db: Hand) -> None:
        rows = db.ask(jobs.claim(db.hello(), [QUEUE], [PIPELINE], limit=5, token=uuid4(), turns=Turns()))

        assert [(each.id, each.cut_queues) for each in rows] == [(None, None)]

    def test_those_that_were_there_when_one_executor_died_are_given_out_like_any_other(self, db: Hand) -> None:
        ids = db.enqueue(3)
        crash(db, ids)
        later = db.enqueue(2)

        assert [each.id for each in db.claim(db.hello())] == [*ids, *later]

    def test_those_that_must_run_alone_and_the_others_are_never_given_out_together(self, db: Hand) -> None:
        worker = db.hello()
        suspects = db.enqueue(12, max_attempts=9)
        crash(db, suspects)
        crash(db, suspects)
        healthy = db.enqueue(4)

        # However many suspects stand before them, the others are found.
        assert [each.id for each in db.claim(worker, 3)] == healthy[:3]
        assert [each.id for each in db.claim(worker, 3, suspects=True)] == suspects[:3]
        assert [each.id for each in db.claim(worker, 3)] == healthy[3:]
        assert [each.id for each in db.claim(worker, 20, suspects=True)] == suspects[3:]

    def test_one_that_must_run_alone_is_looked_for_only_where_it_is_next_in_line(self, db: Hand) -> None:
        worker = db.hello()
        suspects = db.enqueue(1, max_attempts=9)
        crash(db, suspects)
        crash(db, suspects)
        [first] = db.enqueue(1, priority=-1)

        assert not db.claim(worker, suspects=True)
        assert [each.id for each in db.claim(worker)] == [first]
        assert [each.id for each in db.claim(worker, suspects=True)] == suspects

    def test_the_order_of_a_claim_can_be_read_from_its_jobs(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(3)
        db.enqueue(3, priority=-1)

        first, second = db.claim(worker, 4), db.claim(worker, 4)

        hours = [db.job(each.id).claimed_at for each in (*first, *second)]
        assert None not in hours
        assert len(set(hours)) == 6
        assert hours == sorted(hours)  # type: ignore[type-var]

    def test_why_it_was_queued_is_over_once_it_runs(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, failed(claim, delay=0))

        [again] = db.claim(worker)

        assert (again.attempt, again.fence, db.job(again.id).reason) == (2, 2, None)


class TestClaimAlone:
    def test_it_takes_those_that_must_run_alone_from_lanes_and_the_common_line(self, db: Hand) -> None:
        db.lanes("tenant", "shut")
        ids = [id for lane in (None, "tenant", "shut") for id in db.enqueue(1, lane=lane, max_attempts=9)]
        crash(db, ids)
        crash(db, ids)
        db.sql("update retoma.lanes set closed_at = now() where name = 'shut'")
        db.enqueue(2, lane="tenant")

        assert sorted(each.id for each in db.claim(db.hello(), suspects=True)) == ids[:2]

    def test_the_sql_says_the_same_number(self) -> None:
        for block in ("claim", "claim_alone", "follow", "suspects"):
            assert set(re.findall(r"crashes (?:>=|<) (\d+)", jobs.SQL[block])) == {str(jobs.ALONE_FROM)}


class TestFollow:
    def follow(self, db: Hand, worker: int, limit: int, turns: Turns) -> list[int]:
        rows = db.ask(jobs.follow(worker, limit=limit, token=uuid4(), turns=turns))
        return [each.id for each in turns.followed(rows)]

    def test_the_next_of_the_lines_that_were_served_are_taken_in_turn(self, db: Hand) -> None:
        worker, turns = db.hello(), Turns()
        db.lanes("tenant")
        ours, theirs = db.enqueue(6), db.enqueue(6, lane="tenant")
        db.claim(worker, 4, turns=turns)

        assert self.follow(db, worker, 4, turns) == [theirs[2], ours[2], theirs[3], ours[3]]
        assert self.follow(db, worker, 9, turns) == [theirs[4], ours[4], theirs[5], ours[5]]
        assert self.follow(db, worker, 9, turns) == []
        assert db.value("select count(*) from retoma.jobs where state = 'running'") == 12

    def test_what_stands_earlier_is_left_to_the_claim(self, db: Hand) -> None:
        worker, turns = db.hello(), Turns()
        db.enqueue(6)
        claims = db.claim(worker, 3, turns=turns)
        db.end(worker, released(claims[0]))
        [urgent] = db.enqueue(1, priority=-1)

        assert not {urgent, claims[0].id} & {*self.follow(db, worker, 9, turns)}
        assert [each.id for each in db.claim(worker)] == [urgent, claims[0].id]

    @pytest.mark.parametrize("why", ["queue", "lane", "limit", "worker", "late", "alone"])
    def test_nothing_is_taken_that_a_claim_would_not_take(self, db: Hand, why: str) -> None:
        worker, turns = db.hello(), Turns()
        db.lanes("tenant")
        ids = db.enqueue(4, lane="tenant", max_attempts=9)
        db.claim(worker, 1, turns=turns)
        match why:
            case "queue":
                db.ask(queues.pause(QUEUE, reason="person"))
            case "lane":
                db.sql("update retoma.lanes set closed_at = now()")
            case "limit":
                db.ask(queues.limit_lane(QUEUE, "tenant", at_once=1))
            case "worker":
                db.ask(jobs.bury(worker, [], reason="gone", error="gone"))
            case "late":
                db.sql("update retoma.jobs set expires_at = now() where state = 'queued'")
            case "alone":
                db.sql("update retoma.jobs set crashes = 2 where state = 'queued'")

        assert self.follow(db, worker, 9, turns) == []
        assert [db.state(id) for id in ids[1:]] == ["queued"] * 3

    def test_lines_are_followed_only_when_a_claim_has_served_them_all(self, db: Hand) -> None:
        worker, turns = db.hello(), Turns()
        names = ["a", "b", "c"]
        db.lanes(*names)
        for lane in names:
            db.enqueue(9, lane=lane)

        db.claim(worker, 2, turns=turns)
        assert turns.lines == []
        db.claim(worker, 3, turns=turns)
        assert len(turns.lines) == 3


class TestSuspects:
    def suspects(self, db: Hand, **order: Any) -> list[int]:
        ids = db.enqueue(1, max_attempts=9, **order)
        crash(db, ids)
        crash(db, ids)
        return ids

    def look(self, db: Hand, *, pipelines: Sequence[str] = (PIPELINE,)) -> list[str]:
        return db.ask(jobs.suspects([QUEUE, "another"], pipelines))

    def test_one_crash_makes_none(self, db: Hand) -> None:
        crash(db, db.enqueue(1))

        assert self.look(db) == []

    def test_a_second_crash_makes_one_until_it_is_taken(self, db: Hand) -> None:
        self.suspects(db)
        assert self.look(db) == [QUEUE]

        db.claim(db.hello(), suspects=True)
        assert self.look(db) == []

    def test_it_is_seen_in_its_lane_and_not_where_others_are_next(self, db: Hand) -> None:
        db.enqueue(2)
        db.lanes("tenant", "other")
        db.enqueue(1, lane="other")
        assert self.look(db) == []
        db.claim(db.hello(), 20)

        self.suspects(db, lane="tenant")
        db.enqueue(2)
        assert self.look(db) == [QUEUE]

        db.enqueue(1, lane="tenant", priority=-1)
        assert self.look(db) == []

    def test_one_that_cannot_be_taken_now_starts_nobody(self, db: Hand) -> None:
        [lane] = db.lanes("tenant", at_once=1)
        self.suspects(db, lane="tenant")
        assert self.look(db, pipelines=["unknown"]) == []

        db.ask(queues.pause(QUEUE, reason="person"))
        assert self.look(db) == []
        db.ask(queues.resume(QUEUE))

        db.sql("update retoma.slots set job_id = 1 where lane_id = %(lane)s", lane=lane)
        assert self.look(db) == []
        db.sql("update retoma.slots set job_id = null where lane_id = %(lane)s", lane=lane)
        assert self.look(db) == [QUEUE]

        db.sql("update retoma.lanes set closed_at = now() where id = %(lane)s", lane=lane)
        assert self.look(db) == []


def bare(claim: Claim) -> Claim:
    """Without what only the claim itself says."""
    return replace(claim, priority=None, run_at=None, step=None, turned=None, lines=None)


class TestAdopt:
    def test_what_a_claim_took_is_found_by_its_token(self, db: Hand) -> None:
        worker, token = db.hello(), uuid4()
        db.enqueue(3)
        claims = db.claim(worker, 2, token=token)
        db.claim(worker, 1)

        assert db.ask(jobs.adopt(worker, token)) == [bare(each) for each in claims]

    def test_another_worker_cannot_adopt_it(self, db: Hand) -> None:
        worker, token = db.hello(), uuid4()
        db.one_job()
        db.claim(worker, token=token)

        assert db.ask(jobs.adopt(db.hello(), token)) == []

    def test_what_was_taken_away_meanwhile_is_not_adopted(self, db: Hand) -> None:
        worker, token = db.hello(), uuid4()
        db.enqueue(2)
        [first, second] = db.claim(worker, token=token)
        db.end(worker, released(first))

        assert db.ask(jobs.adopt(worker, token)) == [bare(second)]


class TestEnd:
    @pytest.mark.parametrize("ending", ["completed", "skipped", "review", "cancelled"])
    def test_an_ending_that_is_final_is_the_state(self, db: Hand, ending: str) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        answered = db.end(worker, Ended(claim, ending, output="[1]", reason="why", seconds=2.5))

        job = db.job(claim.id)
        assert answered == [(claim.id, ending)]
        assert (job.state, job.reason, job.output, job.error) == (ending, "why", "[1]", None)
        assert (job.worker_id, job.attempt, job.fence) == (None, 1, 1)
        assert job.finished_at is not None
        [attempt] = db.attempts(claim.id)
        assert (attempt.fence, attempt.attempt, attempt.worker_id) == (1, 1, worker)
        assert (attempt.ending, attempt.reason, attempt.seconds) == (ending, "why", 2.5)
        assert attempt.claimed_at == job.claimed_at

    def test_a_failure_that_may_be_tried_again_waits_for_its_turn(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        assert db.end(worker, failed(claim, delay=30.0)) == [(claim.id, "queued")]

        job = db.job(claim.id)
        assert (job.attempt, job.reason, job.error, job.finished_at) == (1, "OSError", "OSError: it broke", None)
        assert 20 < db.seconds_until("run_at", claim.id) <= 30

    def test_waiting_for_a_provider_is_one_attempt_however_often_it_sends_the_job_away(self, db: Hand) -> None:
        worker = db.hello()
        id = db.one_job()
        for _ in range(5):
            [claim] = db.claim(worker)
            db.end(worker, Ended(claim, "postponed", delay=0.0, reason="limited: openai/x", seconds=0.5))

        [waited] = db.attempts(id)
        assert (waited.ending, waited.reason, waited.fence, waited.seconds) == (
            "postponed",
            "limited: openai/x",
            5,
            2.5,
        )
        assert db.ask(jobs.ended([Ended(claim, "postponed")])) == [(id, "queued")], "its last ending is found again"
        [claim] = db.claim(worker)
        db.end(worker, failed(claim, delay=0))
        [claim] = db.claim(worker)
        db.end(worker, Ended(claim, "postponed", delay=0.0, reason="limited: openai/x", seconds=0.5))
        assert [each.ending for each in db.attempts(id)] == ["postponed", "failed", "postponed"]
        assert db.job(id).attempt == 1

    def test_what_chose_to_rest_has_an_attempt_for_each_time(self, db: Hand) -> None:
        worker = db.hello()
        id = db.one_job()
        for _ in range(3):
            [claim] = db.claim(worker)
            db.end(worker, Ended(claim, "postponed", delay=0.0, reason="sleeping"))

        assert len(db.attempts(id)) == 3

    def test_a_failure_that_cannot_be_mended_is_final(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        assert db.end(worker, failed(claim, again=False)) == [(claim.id, "failed")]
        assert db.job(claim.id).finished_at is not None

    def test_jobs_at_max_attempts_go_to_failed(self, db: Hand) -> None:
        worker = db.hello()
        id = db.one_job(max_attempts=3)

        states = [db.end(worker, failed(db.claim(worker)[0], delay=0))[0][1] for _ in range(3)]

        assert states == ["queued", "queued", "failed"]
        assert (db.job(id).attempt, db.job(id).fence) == (3, 3)
        assert [each.attempt for each in db.attempts(id)] == [1, 2, 3]
        assert not db.claim(worker)

    @pytest.mark.parametrize("ending", ["postponed", "waiting", "released"])
    def test_an_ending_that_is_nobody_s_fault_costs_no_attempt(self, db: Hand, ending: str) -> None:
        worker = db.hello()
        id = db.one_job(max_attempts=1)

        for fence in (1, 2, 3):
            [claim] = db.claim(worker)
            assert (claim.attempt, claim.fence) == (1, fence)
            assert db.end(worker, Ended(claim, ending, delay=0)) == [(id, "queued")]

        assert (db.job(id).attempt, db.job(id).fence) == (0, 3)
        assert [(each.attempt, each.ending) for each in db.attempts(id)] == [(1, ending)] * 3

    def test_outages_of_the_database_cost_attempts_only_when_there_were_many_of_them(self, db: Hand) -> None:
        worker = db.hello()
        db.one_job(max_attempts=2)

        def ends(ended: Callable[[Claim], Ended]) -> tuple[str, int]:
            [claim] = db.claim(worker)
            db.end(worker, ended(claim))
            return db.state(claim.id), db.job(claim.id).attempt

        def outage(claim: Claim) -> Ended:
            return Ended(claim, "postponed", delay=0.0, reason="database", error="it went away")

        # Whatever else handed it back, and what a handler chose to call so, is not counted.
        for _ in range(MOST_OUTAGES + 1):
            assert ends(lambda claim: Ended(claim, "postponed", delay=0.0, reason="limited")) == ("queued", 0)
            assert ends(lambda claim: Ended(claim, "postponed", delay=0.0, reason="database")) == ("queued", 0)
        for _ in range(MOST_OUTAGES):
            assert ends(outage) == ("queued", 0)
        assert ends(outage) == ("queued", 1)
        assert ends(outage) == ("failed", 2)

    def test_postponed_until_an_hour_waits_for_that_hour(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        until = datetime.now(UTC) + timedelta(days=2)

        db.end(worker, Ended(claim, "postponed", until=until, delay=None))

        assert db.job(claim.id).run_at == until

    def test_a_released_job_keeps_its_place_in_line(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        before = db.job(claim.id).run_at
        later = db.one_job()

        db.end(worker, released(claim))

        assert db.job(claim.id).run_at == before
        assert [each.id for each in db.claim(worker)] == [claim.id, later]

    @pytest.mark.parametrize("ending", ["failed", "postponed", "waiting", "released"])
    def test_a_job_that_was_asked_to_stop_does_not_go_back_to_the_queue(self, db: Hand, ending: str) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(jobs.cancel([claim.id]))

        assert db.end(worker, Ended(claim, ending, again=True, delay=0)) == [(claim.id, "cancelled")]
        assert db.job(claim.id).finished_at is not None

    def test_a_job_that_was_done_before_it_heard_of_the_cancelling_is_done(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(jobs.cancel([claim.id]))

        assert db.end(worker, completed(claim)) == [(claim.id, "completed")]

    def test_a_signal_that_came_meanwhile_wakes_a_waiting_job_at_once(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(jobs.signal(claim.id, "approved", "true"))

        db.end(worker, waiting(claim))

        assert [each.signals for each in db.claim(worker)] == [1]

    def test_without_a_signal_a_waiting_job_waits(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        db.end(worker, waiting(claim))

        assert not db.claim(worker)
        assert db.job(claim.id).reason == "waiting"

    def test_many_ways_to_end_go_into_one_statement(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(4)
        one, two, three, four = db.claim(worker)

        states = db.end(worker, completed(one), failed(two), failed(three, again=False), released(four))

        assert sorted(states) == [
            (one.id, "completed"), (two.id, "queued"), (three.id, "failed"), (four.id, "queued")
        ]  # fmt: skip

    def test_a_stale_fence_ends_nothing(self, db: Hand) -> None:
        worker = db.hello()
        stale = db.claimed(worker)
        db.end(worker, released(stale))
        [claim] = db.claim(worker)

        assert db.end(worker, completed(stale)) == []
        assert (db.state(claim.id), db.job(claim.id).fence) == ("running", 2)
        assert len(db.attempts(claim.id)) == 1

    def test_another_worker_ends_nothing(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        claim = db.claimed(worker)

        assert db.end(other, completed(claim)) == []
        assert db.state(claim.id) == "running"

    def test_only_those_still_held_come_back(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2)
        one, two = db.claim(worker)
        db.end(worker, released(one))

        assert db.end(worker, completed(one), completed(two)) == [(two.id, "completed")]

    def test_an_output_that_is_not_json_ends_nothing(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        with pytest.raises(psycopg.DataError):
            db.end(worker, completed(claim, output="{"))

        assert db.state(claim.id) == "running"
        assert db.attempts(claim.id) == []


class TestEndAlone(TestEnd):
    """Every promise of ``end`` for jobs of no batch."""

    @pytest.fixture
    def db(self, db: Hand) -> Hand:
        db.ending = jobs.end_alone
        return db


class TestEnded:
    def test_an_ending_whose_acknowledgement_was_lost_is_recognised(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2)
        one, two = db.claim(worker)
        endings = [completed(one), failed(two)]
        db.end(worker, *endings)

        assert db.end(worker, *endings) == []
        assert sorted(db.ask(jobs.ended(endings))) == [(one.id, "completed"), (two.id, "queued")]

    def test_what_the_sweep_wrote_is_not_taken_for_one_s_own(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.silence(worker)
        db.recover()

        assert db.ask(jobs.ended([completed(claim)])) == []

    def test_what_a_later_claim_wrote_is_not_taken_for_one_s_own(self, db: Hand) -> None:
        first, second = db.hello(), db.hello()
        claim = db.claimed(first)
        db.silence(first)
        db.recover()
        db.end(second, completed(db.claim(second)[0]))

        assert db.ask(jobs.ended([completed(claim)])) == []

    def test_what_was_never_written_is_not_found(self, db: Hand) -> None:
        claim = db.claimed(db.hello())

        assert db.ask(jobs.ended([completed(claim)])) == []


class TestBury:
    def test_the_job_that_was_worked_on_answers_and_the_fetched_ones_go_back_untouched(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(3)
        one, two, three = db.claim(worker)

        given_back = db.ask(
            jobs.bury(
                worker,
                [Blame(two.id, "crashed", "parse", 0.0, 1.5)],
                reason="signal 11",
                error="segmentation fault",
                signal=11,
                peak_megabytes=321.0,
            )
        )

        assert [(each.id, each.state, each.ending, each.attempt, each.crashes) for each in given_back] == [
            (one.id, "queued", "released", 0, 0),
            (two.id, "queued", "crashed", 1, 1),
            (three.id, "queued", "released", 0, 0),
        ]
        assert (db.job(one.id).reason, db.job(one.id).error) == (None, None)
        assert (db.job(two.id).reason, db.job(two.id).error) == ("crashed", "segmentation fault")
        [blamed] = db.attempts(two.id)
        assert (blamed.ending, blamed.reason, blamed.step, blamed.signal) == ("crashed", "signal 11", "parse", 11)
        assert (blamed.peak_megabytes, blamed.seconds, blamed.error) == (321.0, 1.5, "segmentation fault")
        [innocent] = db.attempts(one.id)
        assert (innocent.ending, innocent.signal, innocent.error) == ("released", None, None)

    def test_a_third_crash_is_quarantine_with_signal_and_last_step(self, db: Hand) -> None:
        id = db.one_job(max_attempts=10)
        for crash in range(1, MOST_CRASHES + 1):
            worker = db.hello()
            db.claim(worker, suspects=crash == MOST_CRASHES)
            blame = Blame(id, "crashed", f"page/{crash}", 0.0, 0.1)
            [after] = db.ask(jobs.bury(worker, [blame], reason="signal 9", error="killed", signal=9))
            assert (after.crashes, after.attempt) == (crash, crash)

        assert (after.state, after.reason) == ("failed", "quarantine")
        assert (db.state(id), db.job(id).reason) == ("failed", "quarantine")
        assert [(each.signal, each.step) for each in db.attempts(id)] == [(9, "page/1"), (9, "page/2"), (9, "page/3")]
        assert not db.claim(db.hello())
        assert not db.claim(db.hello(), suspects=True)

    def test_a_crash_after_a_new_checkpoint_counts_as_the_first(self, db: Hand) -> None:
        id = db.one_job(max_attempts=10)
        crashes = []
        for crash, saves in enumerate([False, True, True, False, False]):
            worker = db.hello()
            [claim] = db.claim(worker, suspects=crashes[-1:] == [2])
            if saves:
                db.save(worker, claim, f"page/{crash}")
            [after] = db.ask(jobs.bury(worker, [Blame(id, "crashed")], reason="signal 9", error="killed", signal=9))
            crashes.append(after.crashes)

        assert crashes == [1, 1, 1, 2, 3]
        assert (after.state, after.reason) == ("failed", "quarantine")

    def test_a_step_that_each_attempt_does_anew_is_no_progress(self, db: Hand) -> None:
        id = db.one_job(max_attempts=10)
        for crash in range(1, MOST_CRASHES + 1):
            worker = db.hello()
            [claim] = db.claim(worker, suspects=crash == MOST_CRASHES)
            db.save(worker, claim, f"begin/{claim.fence}")
            [after] = db.ask(jobs.bury(worker, [Blame(id, "crashed")], reason="signal 9", error="killed", signal=9))
            assert after.crashes == crash

        assert (after.state, after.reason) == ("failed", "quarantine")

    def test_a_job_that_was_seen_to_do_it_runs_alone_and_its_neighbour_pays_nothing(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2, max_attempts=1)
        culprit, neighbour = db.claim(worker)
        db.sql("update retoma.jobs set max_attempts = 5 where id = %(id)s returning id", id=culprit.id)
        blamed = [
            Blame(culprit.id, "crashed", "bite", 0.0, 1.0, alone=True, error="it was running"),
            Blame(neighbour.id, "released", "nap", 0.0, 2.0, reason=BESIDE, error="it was beside"),
        ]

        db.ask(jobs.bury(worker, blamed, reason="signal 9", error="killed", signal=9, peak_megabytes=80.0))

        assert (db.job(culprit.id).crashes, db.job(neighbour.id).crashes) == (1, 0)
        assert (db.job(culprit.id).error, db.job(neighbour.id).error) == ("it was running", None)
        [ended] = db.attempts(culprit.id)
        assert (ended.ending, ended.reason, ended.error, ended.signal) == ("crashed", "signal 9", "it was running", 9)
        [ended] = db.attempts(neighbour.id)
        assert (ended.ending, ended.reason, ended.error, ended.step) == ("released", BESIDE, "it was beside", "nap")
        assert [each.id for each in db.claim(db.hello())] == [neighbour.id]
        assert [each.id for each in db.claim(db.hello(), suspects=True)] == [culprit.id]

    def test_a_job_that_was_beside_very_many_deaths_runs_alone_without_blame(self, db: Hand) -> None:
        id = db.one_job(max_attempts=1)
        for _ in range(MOST_BESIDE):
            worker = db.hello()
            assert db.claim(worker), "until then it runs with others"
            beside = Blame(id, "released", "nap", 0.0, 2.0, reason=BESIDE, error="it was beside")
            db.ask(jobs.bury(worker, [beside], reason="signal 9", error="killed", signal=9))

        assert not db.claim(db.hello())
        assert [(each.id, each.attempt, each.crashes) for each in db.claim(db.hello(), suspects=True)] == [(id, 1, 0)]

    def test_a_crash_in_the_last_attempt_is_failure(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker, max_attempts=1)

        [after] = db.ask(jobs.bury(worker, [Blame(claim.id, "crashed")], reason="signal 9", error="killed", signal=9))

        assert (after.state, after.reason) == ("failed", "crashed")
        assert db.job(claim.id).finished_at is not None

    def test_a_fetched_job_in_its_last_attempt_goes_back_all_the_same(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker, max_attempts=1)

        [after] = db.ask(jobs.bury(worker, [], reason="signal 9", error="killed", signal=9))

        assert (after.id, after.state, after.attempt) == (claim.id, "queued", 0)

    def test_a_job_killed_by_its_time_out_waits_before_it_is_tried_again(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        [after] = db.ask(
            jobs.bury(worker, [Blame(claim.id, "timeout", "parse", 5.0, 120.0)], reason="late", error="too long")
        )

        assert (after.state, after.reason, after.ending, after.crashes) == ("queued", "timeout", "timeout", 0)
        assert 0 < db.seconds_until("run_at", claim.id) <= 5

    def test_a_job_whose_policy_allows_no_second_try_after_a_time_out_fails(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker, max_attempts=5)

        blame = Blame(claim.id, "timeout", again=False)
        [after] = db.ask(jobs.bury(worker, [blame], reason="late", error="too long"))

        assert (after.state, after.reason, after.attempt) == ("failed", "timeout", 1)

    def test_a_job_whose_attempts_are_used_up_by_time_outs_fails(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker, max_attempts=1)

        [after] = db.ask(jobs.bury(worker, [Blame(claim.id, "timeout")], reason="late", error="too long"))

        assert (after.state, after.reason) == ("failed", "timeout")

    def test_a_cancelled_job_that_had_to_be_killed_is_cancelled(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(jobs.cancel([claim.id]))

        [after] = db.ask(jobs.bury(worker, [Blame(claim.id, "cancelled")], reason="killed", error="killed"))

        assert (after.state, after.reason, after.ending) == ("cancelled", "cancelled", "cancelled")
        assert [each.ending for each in db.attempts(claim.id)] == ["cancelled"]

    @pytest.mark.parametrize("blamed", [True, False])
    def test_a_job_that_was_asked_to_stop_is_not_revived_by_a_crash(self, db: Hand, blamed: bool) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(jobs.cancel([claim.id]))
        blame = [Blame(claim.id, "crashed")] if blamed else []

        [after] = db.ask(jobs.bury(worker, blame, reason="signal 9", error="killed"))

        assert after.state == "cancelled"

    def test_jobs_that_go_back_keep_their_place(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        db.enqueue(2)
        claims = db.claim(worker)
        later = db.one_job()

        db.ask(jobs.bury(worker, [Blame(claims[0].id, "crashed")], reason="signal 9", error="killed"))

        assert [each.id for each in db.claim(other)] == [claims[0].id, claims[1].id, later]

    def test_the_worker_is_over_and_neither_beats_nor_claims_any_more(self, db: Hand) -> None:
        worker = db.hello()
        db.one_job()

        db.ask(jobs.bury(worker, [], reason="signal 9", error="killed"))

        assert db.beat(worker) == []
        assert db.claim(worker) == []
        [gone] = db.ask(workers.one(worker))
        assert (gone.alive, gone.stopped_at is not None, gone.reason) == (False, True, "signal 9")

    def test_nothing_is_taken_from_other_workers(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        theirs = db.claimed(other)
        db.claimed(worker)

        given_back = db.ask(jobs.bury(worker, [Blame(theirs.id, "crashed")], reason="signal 9", error="killed"))

        assert theirs.id not in [each.id for each in given_back]
        assert (db.state(theirs.id), db.job(theirs.id).crashes) == ("running", 0)

    def test_burying_twice_changes_nothing_more(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        burial = jobs.bury(worker, [Blame(claim.id, "crashed")], reason="signal 9", error="killed")
        db.ask(burial)
        before = db.job(claim.id)

        assert db.ask(burial) == []
        assert db.job(claim.id) == before

    def test_a_job_that_the_dead_worker_had_ended_stays_ended(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, completed(claim))

        assert db.ask(jobs.bury(worker, [Blame(claim.id, "crashed")], reason="signal 9", error="killed")) == []
        assert db.state(claim.id) == "completed"


class TestRecover:
    def test_recovery_of_jobs_of_silent_workers(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.age(61)

        [after] = db.recover()

        assert (after.id, after.state, after.reason, after.ending) == (claim.id, "queued", "lost", "lost")
        assert (after.attempt, after.crashes, after.worker_id) == (1, 1, worker)
        job = db.job(claim.id)
        assert (job.worker_id, job.fence) == (None, 1)
        assert "fell silent" in (job.error or "")
        [attempt] = db.attempts(claim.id)
        assert (attempt.fence, attempt.ending, attempt.reason, attempt.worker_id) == (1, "lost", "lease", worker)

    def test_a_recovered_job_that_has_no_attempts_left_is_failed(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker, max_attempts=1)
        db.silence(worker)

        assert [(each.state, each.reason) for each in db.recover()] == [("failed", "lost")]
        assert db.job(claim.id).finished_at is not None

    def test_a_third_lost_worker_is_quarantine(self, db: Hand) -> None:
        id = db.one_job(max_attempts=10)
        for lost in range(1, MOST_CRASHES + 1):
            worker = db.hello()
            db.claim(worker, suspects=lost == MOST_CRASHES)
            db.silence(worker)
            [after] = db.recover()

        assert (after.id, after.state, after.reason, after.crashes) == (id, "failed", "quarantine", 3)

    def test_a_worker_lost_after_a_new_checkpoint_counts_as_the_first(self, db: Hand) -> None:
        db.one_job(max_attempts=10)
        crashes = []
        for lost, saves in enumerate([False, True, True, False, False]):
            worker = db.hello()
            [claim] = db.claim(worker, suspects=crashes[-1:] == [2])
            if saves:
                db.save(worker, claim, f"page/{lost}")
            db.silence(worker)
            [after] = db.recover()
            crashes.append(after.crashes)

        assert crashes == [1, 1, 1, 2, 3]
        assert (after.state, after.reason) == ("failed", "quarantine")

    def test_a_job_that_was_asked_to_stop_is_not_revived(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.ask(jobs.cancel([claim.id]))
        db.silence(worker)

        assert [(each.id, each.state) for each in db.recover()] == [(claim.id, "cancelled")]

    def test_recovered_jobs_keep_their_hour_and_their_order(self, db: Hand) -> None:
        worker, other = db.hello(), db.hello()
        ids = db.enqueue(3)
        before = [db.job(id).run_at for id in ids]
        db.claim(worker)
        later = db.enqueue(2)
        db.silence(worker)

        recovered = db.recover()

        assert [each.id for each in recovered] == ids
        assert [db.job(id).run_at for id in ids] == before
        assert [each.id for each in db.claim(other)] == [*ids, *later]

    def test_what_was_fetched_beyond_the_places_of_the_worker_goes_back_untouched(self, db: Hand) -> None:
        worker = db.hello(at_once=2)
        late = db.enqueue(4, max_attempts=1)
        first = db.enqueue(1, max_attempts=1, priority=-1)
        db.claim(worker, 5)
        db.silence(worker)

        recovered = db.recover()

        # In the order of the claim, not of the ids: those two may have begun, the others cannot.
        assert [(each.id, each.state, each.ending, each.attempt, each.crashes) for each in recovered] == [
            (late[0], "failed", "lost", 1, 1),
            *((id, "queued", "released", 0, 0) for id in late[1:]),
            (first[0], "failed", "lost", 1, 1),
        ]
        assert [(db.job(id).reason, db.job(id).error) for id in late[1:]] == [(None, None)] * 3
        assert [[(each.ending, each.reason) for each in db.attempts(id)] for id in late[1:]] == [
            [("released", "lease")]
        ] * 3
        assert [each.id for each in db.claim(db.hello())] == late[1:]

    def test_a_job_that_takes_its_whole_worker_down_at_once_is_found_out_among_many_that_were_fetched(
        self, db: Hand
    ) -> None:
        poison, *_ = db.enqueue(1, max_attempts=9)
        for lost in range(1, MOST_CRASHES + 1):
            worker = db.hello(at_once=1)
            db.enqueue(5)
            db.claim(worker, 6, suspects=lost == MOST_CRASHES)
            db.silence(worker)
            db.recover()

        assert (db.state(poison), db.job(poison).reason, db.job(poison).crashes) == ("failed", "quarantine", 3)
        assert db.value("select max(crashes) from retoma.jobs where id <> %(id)s", id=poison) == 0

    def test_fetched_jobs_that_were_asked_to_stop_are_not_revived(self, db: Hand) -> None:
        worker = db.hello(at_once=1)
        ids = db.enqueue(2)
        db.claim(worker)
        db.ask(jobs.cancel(ids))
        db.silence(worker)

        assert [(each.id, each.state) for each in db.recover()] == [(id, "cancelled") for id in ids]

    def test_nothing_is_taken_from_a_live_worker_however_long_a_job_takes(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.age(86_400)
        db.beat(worker)

        assert db.recover() == []
        assert db.state(claim.id) == "running"

    def test_a_beat_that_came_late_but_before_the_sweep_is_in_time(self, db: Hand) -> None:
        worker = db.hello()
        db.claimed(worker)
        db.age(600)

        assert db.beat(worker) == [worker]
        assert db.recover() == []

    def test_a_silent_worker_is_over_even_when_it_held_nothing(self, db: Hand) -> None:
        worker = db.hello()
        db.silence(worker)

        assert db.recover() == []
        assert db.sql(f"select stopped_at is not null, reason from retoma.workers where id = {worker}") == [
            (True, "lost")
        ]
        assert db.beat(worker) == []

    def test_a_worker_that_was_stopped_but_still_holds_a_job_is_swept_too(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.sql(
            "update retoma.workers set stopped_at = now(), lease_expires_at = now() - interval '1 s', reason = 'why'"
        )

        assert [each.id for each in db.recover()] == [claim.id]
        assert db.value(f"select reason from retoma.workers where id = {worker}") == "why"

    def test_after_an_outage_everybody_has_as_much_of_the_lease_left_as_before_it(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        outage(db)

        assert db.recover() == []
        assert LEASE / 2 < db.seconds_until("lease_expires_at", worker, "workers") <= LEASE
        assert db.beat(worker) == [worker]
        assert db.state(claim.id) == "running"

    def test_who_does_not_come_back_after_an_outage_is_taken_when_the_rest_of_its_lease_is_over(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        outage(db)
        db.recover()

        # Another outage, or somebody who sweeps once an hour: it was spared once, and has not beaten since.
        db.age(LEASE + 1)
        db.sql("update retoma.duties set last_at = now() - make_interval(secs => %(ago)s)", ago=LEASE)

        assert [each.id for each in db.recover()] == [claim.id]

    def test_the_first_that_beats_after_an_outage_costs_nobody_else_a_job(self, db: Hand) -> None:
        slow, quick = db.hello(), db.hello()
        claim = db.claimed(slow)
        outage(db)
        db.beat(quick)

        assert db.recover() == []
        assert db.beat(slow) == [slow]
        assert db.state(claim.id) == "running"

    def test_a_worker_that_starts_after_an_outage_costs_nobody_else_a_job(self, db: Hand) -> None:
        slow = db.hello()
        db.claimed(slow)
        outage(db)
        db.hello()

        assert db.recover() == []
        assert db.beat(slow) == [slow]

    def test_who_could_not_be_spared_because_its_row_was_locked_is_spared_by_the_next_sweep(
        self, db: Hand, hand: Hands
    ) -> None:
        slow, other = db.hello(), hand()
        db.claimed(slow)
        outage(db)
        with other.connection.transaction():
            other.sql(f"select from retoma.workers where id = {slow} for no key update")
            assert db.recover() == []

        assert db.recover() == []
        assert db.beat(slow) == [slow]

    def test_a_sweep_beside_another_takes_nothing_and_does_not_wait(self, db: Hand, hand: Hands) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.silence(worker)
        other = hand()

        with db.connection.transaction():
            assert [each.id for each in db.recover()] == [claim.id]
            assert other.recover() == []

    def test_a_burial_and_a_sweep_lock_in_the_same_order(self, db: Hand, hand: Hands) -> None:
        """The supervisor finds its executor dead in the moment in which a sweep finds the lease over."""
        worker = db.hello()
        claim = db.claimed(worker)
        db.silence(worker)
        other = hand()

        with db.connection.transaction():
            db.sql(f"select from retoma.workers where id = {worker} for no key update")
            buried = other.start(jobs.bury(worker, [], reason="died", error="It died."))
            other.waits_for(db, buried)
            assert db.sql(f"select id from retoma.jobs where id = {claim.id} for no key update nowait") == [(claim.id,)]
        assert [each.id for each in answer(buried)] == [claim.id]

    def test_a_sweep_takes_a_bounded_number_of_workers_and_the_next_one_the_rest(self, db: Hand) -> None:
        silent = [db.hello() for _ in range(5)]
        ids = [db.claimed(worker).id for worker in silent]
        db.silence(*silent)

        sweeps = [[each.id for each in db.recover(limit=2)] for _ in range(4)]

        assert sweeps == [ids[:2], ids[2:4], ids[4:], []]

    def test_many_jobs_of_many_workers_go_back_at_once(self, db: Hand) -> None:
        silent, live = [db.hello() for _ in range(3)], db.hello()
        ids = db.enqueue(40)
        for worker in (*silent, live):
            db.claim(worker, 10)
        db.silence(*silent)

        assert [each.id for each in db.recover()] == ids[:30]

    def test_an_ended_job_is_left_alone(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, completed(claim))
        db.silence(worker)

        assert db.recover() == []
        assert db.state(claim.id) == "completed"


class TestOverdue:
    def test_what_has_been_running_for_too_long_fails_and_says_so(self, db: Hand) -> None:
        worker = db.hello(lease=1e6)
        late = db.claimed(worker)
        db.age(1001)
        young = db.claimed(worker)

        assert db.ask(jobs.overdue(1000.0)) == [late.id]

        job = db.job(late.id)
        assert (job.state, job.reason, job.worker_id, job.finished_at is not None) == ("failed", "overdue", None, True)
        assert (db.state(young.id), [each.ending for each in db.attempts(late.id)]) == ("running", ["failed"])

    def test_it_counts_from_the_start_and_not_from_the_creation(self, db: Hand) -> None:
        worker = db.hello(lease=1e6)
        id = db.one_job()
        db.age(5000)
        db.claim(worker)

        assert db.ask(jobs.overdue(1000.0)) == []
        assert db.state(id) == "running"

    def test_a_job_that_may_take_longer_is_given_its_own_time(self, db: Hand) -> None:
        worker = db.hello(lease=1e6)
        claim = db.claimed(worker, timeout=5000.0)
        db.age(4000)
        assert db.ask(jobs.overdue(1000.0)) == []
        db.age(1001)

        assert db.ask(jobs.overdue(1000.0)) == [claim.id]

    def test_whoever_held_it_hears_of_it_and_its_words_miss(self, db: Hand) -> None:
        worker = db.hello(lease=1e6)
        claim = db.claimed(worker)
        db.age(1001)
        db.ask(jobs.overdue(1000.0))

        assert db.ask(workers.called_off([worker], [(claim.id, worker, claim.fence)])) == [
            (claim.id, worker, claim.fence, "lost")
        ]
        assert db.end(worker, completed(claim)) == []
        assert db.save(worker, claim) == []
        assert db.state(claim.id) == "failed"

    def test_it_leaves_its_place_to_another(self, db: Hand) -> None:
        worker = db.hello(lease=1e6)
        db.lanes("tenant", at_once=1)
        ids = db.enqueue(2, lane="tenant")
        db.claim(worker)
        db.age(1001)
        db.ask(jobs.overdue(1000.0))

        assert [each.id for each in db.claim(worker)] == ids[1:]

    def test_what_waits_or_has_ended_is_left_alone(self, db: Hand) -> None:
        worker = db.hello(lease=1e6)
        done = db.claimed(worker)
        db.end(worker, completed(done))
        waits = db.one_job()
        db.age(1e6)

        assert db.ask(jobs.overdue(1000.0)) == []
        assert (db.state(done.id), db.state(waits)) == ("completed", "queued")

    def test_a_bounded_number_at_a_time(self, db: Hand) -> None:
        worker = db.hello(lease=1e6)
        ids = db.enqueue(5)
        db.claim(worker)
        db.age(1001)

        assert [sorted(db.ask(jobs.overdue(1000.0, limit=2))) for _ in range(3)] == [ids[:2], ids[2:4], ids[4:]]


class TestExpire:
    def test_jobs_that_waited_too_long_fail_and_say_so(self, db: Hand) -> None:
        late, patient = db.one_job(expires=60.0), db.one_job()
        db.age(61)

        assert db.ask(jobs.expire()) == [late]
        assert (db.state(late), db.job(late).reason, db.state(patient)) == ("failed", "expired", "queued")
        assert db.job(late).finished_at is not None

    def test_what_may_still_wait_waits(self, db: Hand) -> None:
        db.one_job(expires=60.0)

        assert db.ask(jobs.expire()) == []

    def test_a_running_job_does_not_expire(self, db: Hand) -> None:
        claim = db.claimed(db.hello(), expires=60.0)
        db.age(61)

        assert db.ask(jobs.expire()) == []
        assert db.state(claim.id) == "running"

    @pytest.mark.parametrize("ending", ["waiting", "postponed", "released", "failed"])
    def test_a_job_that_was_taken_in_time_does_not_expire_later(self, db: Hand, ending: str) -> None:
        worker = db.hello()
        claim = db.claimed(worker, expires=60.0)
        db.end(worker, Ended(claim, ending, again=True, reason=ending, delay=3600.0, error="it broke", seconds=0.1))
        db.age(61)

        assert db.ask(jobs.expire()) == []

        db.age(3600)
        db.beat(worker)
        assert [each.id for each in db.claim(worker)] == [claim.id]

    @pytest.mark.parametrize("way", ["handed back", "buried", "recovered"])
    def test_a_job_that_was_only_fetched_keeps_its_time_to_expire(self, db: Hand, way: str) -> None:
        worker = db.hello(at_once=1)
        db.enqueue(1)
        id = db.one_job(expires=60.0)
        [_, claim] = db.claim(worker)
        if way == "handed back":
            db.end(worker, released(claim))
        elif way == "buried":
            db.ask(jobs.bury(worker, [], reason="gone", error="gone"))
        else:
            db.silence(worker)
            db.recover()

        assert 0 < db.seconds_until("expires_at", id) <= 60
        db.age(61)
        assert db.ask(jobs.expire()) == [id]

    def test_a_recovered_job_does_not_expire(self, db: Hand) -> None:
        worker = db.hello()
        db.claimed(worker, expires=60.0)
        db.age(61)
        db.recover()

        assert db.ask(jobs.expire()) == []

    def test_a_bounded_number_expires_at_a_time(self, db: Hand) -> None:
        ids = db.enqueue(5, expires=60.0)
        db.age(61)

        assert [sorted(db.ask(jobs.expire(limit=2))) for _ in range(3)] == [ids[:2], ids[2:4], ids[4:]]


class TestCancel:
    def test_a_waiting_job_ends_now(self, db: Hand) -> None:
        id = db.one_job()

        assert db.ask(jobs.cancel([id], reason="person")) == [(id, "cancelled")]

        job = db.job(id)
        assert (job.state, job.reason) == ("cancelled", "person")
        assert job.finished_at is not None
        assert not db.claim(db.hello())

    def test_a_running_job_is_asked_and_goes_on_until_it_hears(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        assert db.ask(jobs.cancel([claim.id])) == [(claim.id, "running")]

        job = db.job(claim.id)
        assert job.cancel_requested_at is not None
        assert (job.state, job.worker_id, job.finished_at) == ("running", worker, None)

    def test_asking_twice_keeps_the_first_hour(self, db: Hand) -> None:
        claim = db.claimed(db.hello())
        db.ask(jobs.cancel([claim.id]))
        before = db.job(claim.id).cancel_requested_at

        db.ask(jobs.cancel([claim.id]))

        assert db.job(claim.id).cancel_requested_at == before

    @pytest.mark.parametrize("ending", ["completed", "skipped", "review", "failed", "cancelled"])
    def test_what_has_ended_stays_as_it_ended(self, db: Hand, ending: str) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, Ended(claim, ending))
        before = db.job(claim.id)

        assert db.ask(jobs.cancel([claim.id])) == []
        assert db.job(claim.id) == before

    def test_many_are_cancelled_at_once_whatever_their_order(self, db: Hand) -> None:
        ids = db.enqueue(3)

        assert sorted(db.ask(jobs.cancel(list(reversed(ids))))) == [(id, "cancelled") for id in ids]


class TestHold:
    def test_those_that_are_there_are_locked(self, db: Hand) -> None:
        one, two = db.enqueue(2)

        assert db.ask(jobs.hold([two, one, two + 1])) == [one, two]


class TestRetry:
    @pytest.mark.parametrize("ending", ["failed", "cancelled", "review"])
    def test_what_ended_badly_gets_another_try_and_keeps_its_steps(self, db: Hand, ending: str) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, "one")
        db.end(worker, Ended(claim, ending, error="it broke"))

        assert db.ask(jobs.retry([claim.id])) == [(claim.id, "queued")]

        job = db.job(claim.id)
        assert (job.state, job.reason, job.error, job.finished_at) == ("queued", None, None, None)
        assert (job.attempt, job.max_attempts, job.fence) == (1, 5, 1)
        assert [each.step for each in db.ask(checkpoints.of(claim.id))] == ["one"]

    def test_a_job_without_attempts_left_gets_one_more(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker, max_attempts=1)
        db.end(worker, failed(claim))

        db.ask(jobs.retry([claim.id]))

        assert (db.job(claim.id).attempt, db.job(claim.id).max_attempts) == (1, 2)

    def test_as_many_attempts_as_one_asks_for(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, failed(claim, again=False))

        db.ask(jobs.retry([claim.id], attempts=7))

        assert (db.job(claim.id).attempt, db.job(claim.id).max_attempts) == (1, 8)

    def test_what_was_held_against_it_is_forgotten(self, db: Hand) -> None:
        id = db.one_job(max_attempts=10, expires=60.0)
        for _ in range(MOST_CRASHES):
            crash(db, [id])

        db.ask(jobs.retry([id]))

        job = db.job(id)
        assert (job.state, job.crashes, job.cancel_requested_at, job.expires_at) == ("queued", 0, None, None)

    def test_a_cancelled_job_runs_to_its_end_after_a_retry(self, db: Hand) -> None:
        worker = db.hello()
        id = db.one_job()
        db.ask(jobs.cancel([id]))
        db.ask(jobs.retry([id]))

        [claim] = db.claim(worker)
        assert db.end(worker, failed(claim, delay=0)) == [(id, "queued")]

    @pytest.mark.parametrize("ending", ["completed", "skipped"])
    def test_what_ended_well_is_not_tried_again(self, db: Hand, ending: str) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, Ended(claim, ending))

        assert db.ask(jobs.retry([claim.id])) == []
        assert db.state(claim.id) == ending

    def test_what_waits_or_runs_is_left_alone(self, db: Hand) -> None:
        claim, id = db.claimed(db.hello()), db.one_job()

        assert db.ask(jobs.retry([claim.id, id])) == []

    def test_one_hint_per_queue_wakes_the_workers(self, db: Hand) -> None:
        ids = [*db.enqueue(2), *db.enqueue(2, queue="elsewhere")]
        db.ask(jobs.cancel(ids))

        assert sorted(heard_hints(db, lambda: db.ask(jobs.retry(ids)))) == ["elsewhere", QUEUE]


class TestFailed:
    def test_the_ids_of_what_failed_come_in_pieces_oldest_first(self, db: Hand) -> None:
        worker = db.hello()
        claims = [db.claimed(worker) for _ in range(4)]
        for claim in claims[:3]:
            db.end(worker, Ended(claim, "failed", error="it broke"))
        ids = [claim.id for claim in claims]

        assert db.ask(jobs.failed(pipeline=None, after=0)) == ids[:3]
        assert db.ask(jobs.failed(pipeline=None, after=0, limit=2)) == ids[:2]
        assert db.ask(jobs.failed(pipeline=None, after=ids[1])) == [ids[2]]

    def test_those_of_another_pipeline_are_left_out(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, Ended(claim, "failed", error="it broke"))

        assert db.ask(jobs.failed(pipeline="another", after=0)) == []
        assert db.ask(jobs.failed(pipeline=db.job(claim.id).pipeline, after=0)) == [claim.id]


class TestRestart:
    @pytest.mark.parametrize("ending", ["completed", "skipped", "review", "failed", "cancelled"])
    def test_an_ended_job_begins_anew_and_its_steps_are_set_aside(self, db: Hand, ending: str) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, "one")
        db.ask(jobs.signal(claim.id, "approved", "true"))
        db.end(worker, Ended(claim, ending, output="1", error="it broke"))

        assert db.ask(jobs.restart(claim.id)) == [(claim.id, "queued")]

        job = db.job(claim.id)
        assert (job.state, job.reason, job.output, job.error) == ("queued", "restart", None, None)
        assert (job.finished_at, job.crashes, job.cancel_requested_at) == (None, 0, None)
        assert db.ask(checkpoints.of(claim.id)) == []
        assert [each.reason for each in db.ask(checkpoints.history(claim.id))] == ["restart"]
        assert db.ask(jobs.heard(claim.id, "approved")) == []
        assert db.claim(worker)[0].fence == 2

    def test_it_has_as_many_attempts_as_at_first_however_often_it_is_restarted(self, db: Hand) -> None:
        worker = db.hello()
        id = db.one_job(max_attempts=3)

        left = []
        for _ in range(4):
            [claim] = db.claim(worker)
            db.end(worker, completed(claim))
            db.ask(jobs.restart(id))
            left.append(db.job(id).max_attempts - db.job(id).attempt)

        assert left == [3, 3, 3, 3]

    def test_as_many_attempts_as_one_asks_for(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, completed(claim))

        db.ask(jobs.restart(claim.id, attempts=2))

        assert db.job(claim.id).max_attempts - db.job(claim.id).attempt == 2

    def test_what_waits_or_runs_is_left_alone(self, db: Hand) -> None:
        claim, id = db.claimed(db.hello()), db.one_job()

        assert db.ask(jobs.restart(claim.id)) == []
        assert db.ask(jobs.restart(id)) == []

    def test_the_checkpoints_of_other_jobs_stay(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(2)
        one, two = db.claim(worker)
        db.save(worker, one)
        db.save(worker, two)
        db.end(worker, completed(one), completed(two))

        db.ask(jobs.restart(one.id))

        assert len(db.ask(checkpoints.of(two.id))) == 1


class TestRestartFromAStep:
    """Only what follows from the step is done again."""

    def test_what_was_saved_before_the_step_stays(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        for step in ("read", "ask", "write"):
            db.save(worker, claim, step)
        db.end(worker, completed(claim))

        assert db.ask(jobs.restart(claim.id, step="ask")) == [(claim.id, "queued")]

        kept = [each.step for each in db.ask(checkpoints.of(claim.id))]
        assert (kept, len(db.ask(checkpoints.history(claim.id, values=False, after=None, limit=None)))) == (["read"], 3)

    def test_a_step_that_was_never_saved_restarts_nothing(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim, "read")
        db.end(worker, completed(claim))

        assert db.ask(jobs.restart(claim.id, step="nobody")) == []
        assert (db.state(claim.id), len(db.ask(checkpoints.of(claim.id)))) == ("completed", 1)


class TestSignal:
    def test_a_waiting_job_wakes_and_hears(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, waiting(claim))

        assert db.ask(jobs.signal(claim.id, "approved", '{"by": "Ana"}')) == [(claim.id, "queued")]

        assert db.ask(jobs.heard(claim.id, "approved")) == ['{"by": "Ana"}']
        assert [each.signals for each in db.claim(worker)] == [1]

    def test_the_first_word_under_a_name_stays(self, db: Hand) -> None:
        id = db.one_job()
        db.ask(jobs.signal(id, "approved", "1"))

        assert db.ask(jobs.signal(id, "approved", "2")) == []
        assert db.ask(jobs.heard(id, "approved")) == ["1"]
        assert db.value("select signals from retoma.jobs") == 1

    def test_names_are_counted_together(self, db: Hand) -> None:
        id = db.one_job()
        db.ask(jobs.signal(id, "approved", "1"))
        db.ask(jobs.signal(id, "paid", "2"))

        assert db.value("select signals from retoma.jobs") == 2

    def test_a_job_that_waits_for_its_hour_and_not_for_a_signal_keeps_waiting(self, db: Hand) -> None:
        worker = db.hello()
        id = db.one_job(delay=60.0)

        db.ask(jobs.signal(id, "approved", "1"))

        assert not db.claim(worker)

    def test_a_running_job_is_told_and_not_disturbed(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)

        assert db.ask(jobs.signal(claim.id, "approved", "1")) == [(claim.id, "running")]
        assert db.end(worker, completed(claim)) == [(claim.id, "completed")]

    def test_an_ended_job_hears_nothing(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, completed(claim))

        assert db.ask(jobs.signal(claim.id, "approved", "1")) == []
        assert db.ask(jobs.heard(claim.id, "approved")) == []

    def test_a_hint_wakes_the_workers_of_its_queue(self, db: Hand) -> None:
        id = db.one_job()

        assert heard_hints(db, lambda: db.ask(jobs.signal(id, "approved", "1"))) == [QUEUE]


class TestHeard:
    def test_only_the_word_of_that_name_and_job(self, db: Hand) -> None:
        one, two = db.enqueue(2)
        db.ask(jobs.signal(one, "approved", "1"))

        assert db.ask(jobs.heard(one, "approved")) == ["1"]
        assert db.ask(jobs.heard(one, "paid")) == []
        assert db.ask(jobs.heard(two, "approved")) == []


class TestOne:
    def test_a_running_job_names_its_worker_and_its_lane(self, db: Hand) -> None:
        db.lanes("tenant")
        worker = db.hello("ana")
        claim = db.claimed(worker, lane="tenant")

        job = db.job(claim.id)

        assert (job.worker, job.worker_id, job.lane, job.state) == ("ana", worker, "tenant", JobState.RUNNING)

    def test_a_job_that_is_not_there_is_no_row(self, db: Hand) -> None:
        assert db.ask(jobs.one(10**9)) == []


class TestPrune:
    def test_what_ended_long_ago_goes_with_all_that_belongs_to_it(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.save(worker, claim)
        db.ask(jobs.signal(claim.id, "approved", "1"))
        db.end(worker, completed(claim))
        db.age(101)

        assert db.ask(jobs.prune(100.0)) == [claim.id]
        for table in ("jobs", "attempts", "checkpoints", "signals"):
            assert db.value(f"select count(*) from retoma.{table}") == 0

    def test_what_ended_lately_waits_or_runs_stays(self, db: Hand) -> None:
        worker = db.hello()
        db.claimed(worker)
        db.age(101)
        db.beat(worker)
        db.one_job()
        ended = db.one_job()
        db.ask(jobs.cancel([ended]))

        assert db.ask(jobs.prune(100.0)) == []
        assert db.value("select count(*) from retoma.jobs") == 3

    def test_the_jobs_of_a_batch_go_with_their_batch(self, db: Hand) -> None:
        id = db.one_job(batch_id=1)
        db.ask(jobs.cancel([id]))
        db.age(101)

        assert db.ask(jobs.prune(100.0)) == []

    def test_a_bounded_number_goes_at_a_time_and_what_belongs_to_others_stays(self, db: Hand) -> None:
        worker = db.hello()
        db.enqueue(3)
        claims = db.claim(worker)
        db.ask(checkpoints.save(worker, [checkpoint(each) for each in claims]))
        db.end(worker, *(completed(each) for each in claims))
        db.age(101)

        assert sorted(db.ask(jobs.prune(100.0, limit=2))) == [claims[0].id, claims[1].id]
        assert len(db.attempts(claims[2].id)) == 1
        assert len(db.ask(checkpoints.of(claims[2].id))) == 1


class TestMove:
    def test_waiting_jobs_of_no_lane_go_to_another_queue(self, db: Hand) -> None:
        worker = db.hello()
        running = db.claimed(worker)
        db.lanes("slow")
        waiting, laned = db.one_job(), db.one_job(lane="slow")

        moved = db.ask(jobs.move([running.id, waiting, laned], "fast"))

        assert moved == [(waiting, "queued")]
        assert [db.job(each).queue for each in (running.id, waiting, laned)] == [QUEUE, "fast", QUEUE]


class TestDiscard:
    def test_a_failure_leaves_the_dead_letters_and_keeps_its_history(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, failed(claim, again=False))

        done = db.ask(jobs.discard([claim.id], by="ana", reason="a scan of nothing"))
        again = db.ask(jobs.discard([claim.id], by="bea"))

        assert (done, again) == ([(claim.id, "failed")], [])
        job = db.job(claim.id)
        assert (job.state, job.discarded_by, job.error) == ("failed", "ana", "OSError: it broke")
        assert db.ask(jobs.failed(pipeline=None, after=0)) == []
        assert db.ask(jobs.retry([claim.id])) == db.ask(jobs.restart(claim.id)) == []

    def test_only_a_failed_job_is_discarded(self, db: Hand) -> None:
        waiting = db.one_job()

        assert db.ask(jobs.discard([waiting], by="ana")) == []
        with pytest.raises(Conflict, match="only a failed job"):
            db.do(discards.discard(waiting, by="ana", reason=None))

    def test_another_failure_of_the_same_job_is_a_dead_letter_again(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, failed(claim, again=False))
        db.ask(jobs.discard([claim.id], by="ana"))
        db.sql("update retoma.jobs set finished_at = finished_at + interval '1 second'")

        assert db.job(claim.id).discarded_at is None
        assert db.ask(jobs.failed(pipeline=None, after=0)) == [claim.id]
        assert db.ask(jobs.discard([claim.id], by="bea")) == [(claim.id, "failed")]

    def test_what_is_pruned_takes_its_discard_along(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, failed(claim, again=False))
        db.ask(jobs.discard([claim.id], by="ana"))

        db.ask(jobs.prune(-1.0))

        assert db.sql("select * from retoma.discards") == []


class TestReinstate:
    def test_a_discard_is_undone_and_the_job_can_be_retried(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, failed(claim, again=False))
        db.do(discards.discard(claim.id, by="ana", reason=None))
        with pytest.raises(Conflict, match="discarded by ana"):
            db.do(job_commands.retry(claim.id, attempts=None))

        job = db.do(discards.reinstate(claim.id))

        assert (job.discarded_at, db.ask(jobs.reinstate([claim.id]))) == (None, [])
        assert db.do(job_commands.retry(claim.id, attempts=None)).state == "queued"


class TestPrioritise:
    def test_a_waiting_job_comes_before_the_others_and_a_running_one_is_left_alone(self, db: Hand) -> None:
        worker = db.hello()
        running = db.claimed(worker)
        _, last = db.enqueue(2)

        changed = db.ask(jobs.prioritise([running.id, last], -5))

        assert (changed, [each.id for each in db.claim(worker, 1)]) == ([(last, "queued")], [last])
