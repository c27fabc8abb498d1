"""Two or three hands at the same rows, in an order that is said and not left to chance.

A hand that has to wait is asked for its answer in a thread, and the test goes on when PostgreSQL itself says that it
waits. Where a statement looks first and locks later, *slowly* stops it between the two (see Slowly).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, permutations
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors as pg
from store_batch import BatchHand, ending, hands
from store_hand import (
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
from store_twin import Twin
from store_twin import ending as twin_ending

from retoma.commands import discards
from retoma.commands import jobs as job_commands
from retoma.commands import operations as operation_commands
from retoma.errors import Conflict
from retoma.model.job import Claim, Ended
from retoma.postgres.connections import run_on_sync
from retoma.store import batches, checkpoints, jobs, queues, schedules, workers
from retoma.store.batches import ALL
from retoma.store.jobs import Blame
from retoma.store.query import Command, Query
from retoma.store.turns import Turns

Hands = Callable[..., Hand]


class Slowly:
    """Stops a statement after it has looked and before it has locked.

    A row policy that waits for an advisory lock is laid over a table, for one role only. A statement of that role
    has its snapshot and waits at the first row it reads; what others commit meanwhile it learns only under the lock.
    """

    KEY = 8_151_119

    def __init__(self, hand: Hands, role: str) -> None:
        self.keeper = hand()
        self._role = role
        self._tables: list[str] = []

    def look(self, hand: Hand, table: str, query: Query[Any]) -> Future[Any]:
        """Begin *query*, and come back when it has looked at *table* and gone no further."""
        self.keeper.sql(f"alter table retoma.{table} enable row level security")
        self._tables.append(table)
        self.keeper.sql(f"select pg_advisory_lock({self.KEY})")
        hand.sql(f"set role {self._role}")
        asked = hand.start(query)
        hand.waits_for(self.keeper, asked)
        return asked

    def go_on(self) -> None:
        self.keeper.sql(f"select pg_advisory_unlock({self.KEY})")

    def close(self) -> None:
        self.keeper.sql("select pg_advisory_unlock_all()")
        for table in self._tables:
            self.keeper.sql(f"alter table retoma.{table} disable row level security")


@pytest.fixture(scope="module")
def slow_role(room_url: str, worker_id_of_run: str) -> Iterator[str]:
    role = f"slow_{worker_id_of_run}"
    with psycopg.connect(room_url, autocommit=True) as connection:
        connection.execute(f"drop role if exists {role}")
        connection.execute(f"create role {role}")
        connection.execute(f"grant usage on schema retoma, years to {role}")
        connection.execute(f"grant all on all tables in schema retoma to {role}")
        connection.execute(
            "create function years.gate() returns boolean language plpgsql volatile as"
            f" $$ begin perform pg_advisory_xact_lock_shared({Slowly.KEY}); return true; end $$"
        )
        for table in ("jobs", "workers", "slots"):
            connection.execute(f"create policy slow on retoma.{table} to {role} using (years.gate()) with check (true)")
        yield role
        for table in ("jobs", "workers", "slots"):
            connection.execute(f"drop policy slow on retoma.{table}")
        connection.execute("drop function years.gate()")
        connection.execute(f"drop owned by {role}")
        connection.execute(f"drop role {role}")


@pytest.fixture
def slowly(hand: Hands, slow_role: str) -> Iterator[Slowly]:
    slow = Slowly(hand, slow_role)
    yield slow
    slow.close()


def claiming(worker: int, limit: int = 10, **changes: Any) -> Query[Claim]:
    return jobs.claim(worker, [QUEUE], [PIPELINE], limit=limit, **{"token": uuid4(), "turns": Turns()} | changes)


def ids_of(rows: list[Any]) -> list[int]:
    return [each.id for each in rows if each.id is not None]


class TestClaimAndClaim:
    def test_rows_in_another_s_hands_are_skipped_and_not_waited_for(self, hand: Hands) -> None:
        one, two = hand(), hand()
        first, second = one.hello(), one.hello()
        ids = one.enqueue(5)
        one.begin()
        assert ids_of(one.claim(first, 3)) == ids[:3]

        assert ids_of(two.claim(second, 5)) == ids[3:]

        one.commit()
        assert two.claim(second, 5) == []

    def test_a_claim_that_was_undone_took_nothing(self, hand: Hands) -> None:
        one, two = hand(), hand()
        first, second = one.hello(), one.hello()
        id = one.one_job()
        one.begin()
        one.claim(first)
        one.rollback()

        assert [(each.id, each.fence, each.attempt) for each in two.claim(second)] == [(id, 1, 1)]

    def test_one_that_looked_before_the_other_committed_takes_nothing_of_it(self, hand: Hands, slowly: Slowly) -> None:
        one, two = hand(), hand()
        first, second = one.hello(), one.hello()
        ids = one.enqueue(4)
        asked = slowly.look(two, "jobs", claiming(second, 2))

        assert ids_of(one.claim(first, 2)) == ids[:2]

        slowly.go_on()
        assert not {*ids_of(answer(asked))} & {*ids[:2]}
        assert [one.job(id).worker_id for id in ids[:2]] == [first, first]

    def test_a_limited_lane_never_runs_more_than_it_allows(self, hand: Hands) -> None:
        one, two, three = hand(), hand(), hand()
        workers = [one.hello() for _ in range(3)]
        one.lanes("pair", at_once=2)
        one.enqueue(6, lane="pair")
        one.begin()
        two.begin()
        mine = ids_of(one.claim(workers[0], 1))
        theirs = ids_of(two.claim(workers[1], 5))
        others = ids_of(three.claim(workers[2], 5))
        one.commit()
        two.commit()

        taken = mine + theirs + others + ids_of(three.claim(workers[2], 5))

        assert len(taken) == len(set(taken)) == 2
        assert sorted(three.seats()) == sorted(taken)

    def test_one_that_looked_at_free_places_does_not_take_them_again(self, hand: Hands, slowly: Slowly) -> None:
        one, two = hand(), hand()
        first, second = one.hello(), one.hello()
        one.lanes("pair", at_once=2)
        one.enqueue(6, lane="pair")
        asked = slowly.look(two, "slots", claiming(second, 5))

        taken = ids_of(one.claim(first, 5))

        slowly.go_on()
        assert len(taken) == 2
        assert ids_of(answer(asked)) == []
        assert sorted(one.seats()) == sorted(taken)

    def test_many_hands_at_one_limited_lane(self, hand: Hands) -> None:
        hands = [hand() for _ in range(3)]
        hands[0].lanes("pair", at_once=2)
        hands[0].enqueue(40, lane="pair")
        count = "select count(*) from retoma.jobs where state = 'running'"

        def work(one: Hand) -> tuple[int, list[int]]:
            worker, done, most, idle = one.hello(), [], 0, 0
            while idle < 50:
                claims = one.claim(worker, 2)
                most = max(most, one.value(count))
                idle = 0 if claims else idle + 1
                for claim in claims:
                    one.end(worker, completed(claim))
                    done.append(claim.id)
            return most, done

        told = [answer(each) for each in [one.start(lambda one=one: work(one)) for one in hands]]

        assert max(most for most, _ in told) <= 2
        done = [id for _, ids in told for id in ids]
        assert len(done) == len(set(done)) == 40


class TestClaimAndCancel:
    def test_a_cancel_waits_for_the_claim_and_then_asks_the_worker(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        id = one.one_job()
        one.begin()
        [claim] = one.claim(worker)
        asked = two.start(jobs.cancel([id]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == [(id, "running")]
        assert one.ask(workers.called_off([worker])) == [(id, worker, claim.fence, "cancelled")]

    def test_a_claim_does_not_wait_for_a_cancel_and_does_not_take_the_job(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        id = one.one_job()
        two.begin()
        two.ask(jobs.cancel([id]))

        assert one.claim(worker) == []

        two.commit()
        assert one.claim(worker) == []
        assert (one.state(id), one.job(id).fence) == ("cancelled", 0)

    def test_a_claim_that_looked_before_the_cancel_does_not_take_the_job(self, hand: Hands, slowly: Slowly) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        id = one.one_job()
        asked = slowly.look(one, "jobs", claiming(worker))
        assert two.ask(jobs.cancel([id])) == [(id, "cancelled")]

        slowly.go_on()

        assert ids_of(answer(asked)) == []
        assert (two.state(id), two.job(id).fence) == ("cancelled", 0)


class TestCompleteAndRecover:
    def test_an_ending_on_its_way_is_not_waited_for_and_not_undone(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        one.begin()
        one.end(worker, completed(claim))

        assert two.recover() == []

        one.commit()
        assert two.recover() == []
        assert (two.state(claim.id), two.job(claim.id).crashes) == ("completed", 0)
        assert [each.ending for each in two.attempts(claim.id)] == ["completed"]

    def test_an_ending_that_was_undone_leaves_the_job_to_the_next_sweep(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        one.begin()
        one.end(worker, completed(claim))
        two.recover()
        one.rollback()

        assert ids_of(two.recover()) == [claim.id]

    def test_an_ending_waits_for_the_sweep_and_then_has_lost(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        two.begin()
        assert ids_of(two.recover()) == [claim.id]
        asked = one.start(jobs.end(worker, [completed(claim)]))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == []
        assert one.ask(jobs.ended([completed(claim)])) == []
        assert (one.state(claim.id), one.job(claim.id).output) == ("queued", None)
        assert [each.ending for each in one.attempts(claim.id)] == ["lost"]

    def test_an_ending_that_waited_for_a_sweep_which_was_undone_counts(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        two.begin()
        two.recover()
        asked = one.start(jobs.end(worker, [completed(claim)]))
        one.waits_for(two, asked)
        two.rollback()

        assert answer(asked) == [(claim.id, "completed")]

    def test_a_sweep_that_looked_before_the_ending_leaves_the_job_ended(self, hand: Hands, slowly: Slowly) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        one.enqueue(2)
        done, lost = one.claim(worker)
        one.silence(worker)
        asked = slowly.look(two, "jobs", jobs.recover())
        one.end(worker, completed(done))

        slowly.go_on()

        assert ids_of(answer(asked)) == [lost.id]
        assert one.state(done.id) == "completed"
        assert [each.ending for each in one.attempts(done.id)] == ["completed"]

    def test_an_ending_that_looked_before_the_sweep_and_the_next_claim_has_lost(
        self, hand: Hands, slowly: Slowly
    ) -> None:
        one, two = hand(), hand()
        worker, other = one.hello(), one.hello()
        stale = one.claimed(worker)
        one.silence(worker)
        asked = slowly.look(one, "jobs", jobs.end(worker, [completed(stale)]))
        two.recover()
        [claim] = two.claim(other)

        slowly.go_on()

        assert answer(asked) == []
        assert (two.state(claim.id), two.job(claim.id).worker_id) == ("running", other)


class TestHeartbeatAndRecover:
    def test_a_beat_on_its_way_keeps_the_worker_alive(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        one.begin()
        assert one.beat(worker) == [worker]

        assert two.recover() == []

        one.commit()
        assert two.recover() == []
        assert two.state(claim.id) == "running"
        assert two.ask(workers.one(worker))[0].alive

    def test_a_beat_waits_for_the_sweep_and_then_hears_that_it_is_lost(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        two.begin()
        two.recover()
        asked = one.start(workers.heartbeat([workers.Pulse(worker)]))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == []
        assert one.state(claim.id) == "queued"
        assert not one.ask(workers.one(worker))[0].alive

    def test_a_beat_that_waited_for_a_sweep_which_was_undone_counts(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        one.claimed(worker)
        one.silence(worker)
        two.begin()
        two.recover()
        asked = one.start(workers.heartbeat([workers.Pulse(worker)]))
        one.waits_for(two, asked)
        two.rollback()

        assert answer(asked) == [worker]
        assert two.recover() == []

    def test_a_sweep_that_looked_before_the_beat_leaves_the_worker_alone(self, hand: Hands, slowly: Slowly) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        asked = slowly.look(two, "workers", jobs.recover())
        assert one.beat(worker) == [worker]

        slowly.go_on()

        assert answer(asked) == []
        assert one.state(claim.id) == "running"
        assert one.ask(workers.one(worker))[0].stopped_at is None

    def test_one_supervisor_s_lost_executor_does_not_hold_up_the_beat_of_the_others(self, hand: Hands) -> None:
        one, two = hand(), hand()
        lost, live = one.hello(), one.hello()
        one.silence(lost)
        two.begin()
        two.recover()
        asked = one.start(workers.heartbeat([workers.Pulse(lost), workers.Pulse(live)]))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == [live]


class TestCancelAndComplete:
    def test_a_cancel_waits_for_the_ending_and_comes_too_late(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.begin()
        one.end(worker, completed(claim))
        asked = two.start(jobs.cancel([claim.id]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []
        assert (two.state(claim.id), two.job(claim.id).cancel_requested_at) == ("completed", None)

    def test_an_ending_waits_for_the_cancel_and_what_is_done_is_done(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        two.begin()
        two.ask(jobs.cancel([claim.id]))
        asked = one.start(jobs.end(worker, [completed(claim)]))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == [(claim.id, "completed")]

    @pytest.mark.parametrize("how", [failed, released, waiting])
    def test_an_ending_that_goes_back_waits_for_the_cancel_and_is_cancelled(
        self, hand: Hands, how: Callable[[Claim], Any]
    ) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        two.begin()
        two.ask(jobs.cancel([claim.id]))
        asked = one.start(jobs.end(worker, [how(claim)]))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == [(claim.id, "cancelled")]

    def test_many_jobs_cancelled_and_ended_at_once_never_wait_in_a_ring(self, hand: Hands) -> None:
        one, two, keeper = hand(), hand(), hand()
        worker = one.hello()
        one.enqueue(3)
        claims = one.claim(worker)
        ids = [each.id for each in claims]
        keeper.begin()
        keeper.sql("select from retoma.jobs where id = %(id)s for update", id=ids[1])
        ending = one.start(jobs.end(worker, [completed(each) for each in claims]))
        one.waits_for(keeper, ending)
        cancelling = two.start(jobs.cancel(list(reversed(ids))))
        two.waits_for(one, cancelling)
        keeper.commit()

        assert sorted(answer(ending)) == [(id, "completed") for id in ids]
        assert answer(cancelling) == []


class TestRecoverAndRecover:
    def test_two_sweeps_at_once_take_each_job_once(self, hand: Hands) -> None:
        one, two = hand(), hand()
        workers = [one.hello() for _ in range(3)]
        ids = [one.claimed(worker).id for worker in workers]
        one.silence(*workers)
        one.begin()
        mine = ids_of(one.recover(limit=2))
        assert two.recover() == [], "one sweep at a time"
        one.commit()
        theirs = ids_of(two.recover())

        assert sorted(mine + theirs) == ids
        assert two.recover() == []
        assert [one.job(id).crashes for id in ids] == [1, 1, 1]

    def test_a_sweep_that_looked_before_the_other_committed_takes_nothing_twice(
        self, hand: Hands, slowly: Slowly
    ) -> None:
        one, two = hand(), hand()
        worker, other = one.hello(), one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        asked = slowly.look(two, "workers", jobs.recover())
        assert ids_of(one.recover()) == [claim.id]
        [again] = one.claim(other)

        slowly.go_on()

        assert answer(asked) == []
        assert (one.job(again.id).worker_id, one.job(again.id).crashes) == (other, 1)
        assert len(one.attempts(claim.id)) == 1

    def test_a_supervisor_that_buries_what_a_sweep_has_taken_gives_nothing_back(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        two.begin()
        two.recover()
        asked = one.start(jobs.bury(worker, [Blame(claim.id, "crashed")], reason="signal 9", error="killed"))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == []
        assert (one.job(claim.id).crashes, len(one.attempts(claim.id))) == (1, 1)

    def test_a_sweep_leaves_to_the_supervisor_what_it_is_burying(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        one.begin()
        one.ask(jobs.bury(worker, [Blame(claim.id, "crashed")], reason="signal 9", error="killed"))

        assert two.recover() == []

        one.commit()
        assert two.recover() == []
        assert [each.ending for each in two.attempts(claim.id)] == ["crashed"]


class TestBuryAndOthers:
    def test_an_ending_on_its_way_is_waited_for_and_stays(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        one.enqueue(2)
        done, fetched = one.claim(worker)
        one.begin()
        one.end(worker, completed(done))
        asked = two.start(jobs.bury(worker, [Blame(done.id, "crashed")], reason="signal 9", error="killed"))
        two.waits_for(one, asked)
        one.commit()

        assert [(each.id, each.ending) for each in answer(asked)] == [(fetched.id, "released")]
        assert one.state(done.id) == "completed"

    def test_an_ending_waits_for_the_burial_and_then_has_lost(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        two.begin()
        two.ask(jobs.bury(worker, [], reason="signal 9", error="killed"))
        asked = one.start(jobs.end(worker, [completed(claim)]))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == []
        assert one.state(claim.id) == "queued"

    def test_a_claim_that_was_still_on_its_way_at_the_burial_is_found_by_the_sweep(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        id = one.one_job()
        one.begin()
        one.claim(worker)
        assert two.ask(jobs.bury(worker, [], reason="signal 9", error="killed")) == []
        one.commit()

        assert two.state(id) == "running"
        assert ids_of(two.recover()) == [id]


class TestSaveAndRecover:
    def test_a_step_on_its_way_is_kept_and_the_next_sweep_takes_the_job(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, other = one.hello(), one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        one.begin()
        assert one.save(worker, claim) == [(claim.id, "step")]

        assert two.recover() == []

        one.commit()
        assert ids_of(two.recover()) == [claim.id]
        assert ids_of(two.claim(other)) == [claim.id]
        assert [each.step for each in two.ask(checkpoints.of(claim.id))] == ["step"]

    def test_a_step_waits_for_the_sweep_and_is_then_refused(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        two.begin()
        two.recover()
        asked = one.start(checkpoints.save(worker, [checkpoint(claim)]))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == []
        assert one.ask(checkpoints.history(claim.id)) == []

    def test_a_step_that_looked_before_the_sweep_and_the_next_claim_is_refused(
        self, hand: Hands, slowly: Slowly
    ) -> None:
        one, two = hand(), hand()
        worker, other = one.hello(), one.hello()
        stale = one.claimed(worker)
        one.silence(worker)
        asked = slowly.look(one, "jobs", checkpoints.save(worker, [checkpoint(stale, value="1")]))
        two.recover()
        [claim] = two.claim(other)
        two.save(other, claim, value="2")

        slowly.go_on()

        assert answer(asked) == []
        assert [each.value for each in two.ask(checkpoints.history(claim.id))] == ["2"]

    def test_the_user_s_rows_are_undone_with_a_step_that_is_refused(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        one.begin()
        one.ask(queues.pause("the user's own row", reason="person"))
        two.recover()

        assert one.save(worker, claim) == []

        one.rollback()
        assert one.value("select count(*) from retoma.queues") == 0

    def test_a_step_set_aside_by_one_who_looked_before_the_sweep_stays(self, hand: Hands, slowly: Slowly) -> None:
        one, two = hand(), hand()
        worker, other = one.hello(), one.hello()
        stale = one.claimed(worker)
        one.save(worker, stale)
        one.silence(worker)
        asked = slowly.look(one, "jobs", checkpoints.set_aside(stale.id, reason="why", fence=stale.fence))
        two.recover()
        two.claim(other)

        slowly.go_on()

        assert answer(asked) == []
        assert len(two.ask(checkpoints.of(stale.id))) == 1


class TestSaveAndSave:
    def test_two_steps_of_one_job_are_both_kept(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.begin()
        one.save(worker, claim, "a")
        asked = two.start(checkpoints.save(worker, [checkpoint(claim, "b")]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == [(claim.id, "b")]
        assert [each.step for each in one.ask(checkpoints.of(claim.id))] == ["a", "b"]

    def test_a_step_that_is_said_again_while_the_first_word_is_on_its_way_is_kept_once(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.begin()
        one.save(worker, claim)
        assert two.ask(checkpoints.saved([checkpoint(claim)])) == []
        asked = two.start(checkpoints.save(worker, [checkpoint(claim)]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []
        assert two.ask(checkpoints.saved([checkpoint(claim)])) == [(claim.id, "step")]
        assert len(two.ask(checkpoints.history(claim.id))) == 1


class TestEndAndEnd:
    def test_an_ending_that_is_said_again_while_the_first_word_is_on_its_way_is_recognised(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.begin()
        one.end(worker, completed(claim))
        assert two.ask(jobs.ended([completed(claim)])) == []
        asked = two.start(jobs.end(worker, [completed(claim)]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []
        assert two.ask(jobs.ended([completed(claim)])) == [(claim.id, "completed")]
        assert len(two.attempts(claim.id)) == 1

    def test_in_the_order_of_their_ids_two_hands_never_wait_in_a_ring(self, hand: Hands) -> None:
        one, two, keeper = hand(), hand(), hand()
        worker = one.hello()
        one.enqueue(3)
        claims = one.claim(worker)
        keeper.begin()
        keeper.sql("select from retoma.jobs where id = %(id)s for update", id=claims[1].id)
        first = one.start(jobs.end(worker, [completed(each) for each in claims]))
        one.waits_for(keeper, first)
        second = two.start(jobs.end(worker, [completed(each) for each in claims]))
        two.waits_for(one, second)
        keeper.commit()

        assert len(answer(first)) == 3
        assert answer(second) == []

    def test_in_another_order_the_ring_is_broken_and_saying_it_again_is_safe(self, hand: Hands) -> None:
        one, two, keeper = hand(), hand(), hand()
        for each in (one, two):
            each.sql("set deadlock_timeout = '50ms'")
        worker = one.hello()
        one.enqueue(3)
        a, b, c = (completed(each) for each in one.claim(worker))
        keeper.begin()
        keeper.sql("select from retoma.jobs where id = %(id)s for update", id=b.id)
        first = one.start(jobs.end(worker, [a, b, c]))
        one.waits_for(keeper, first)
        second = two.start(jobs.end(worker, [c, b, a]))
        two.waits_for(one, second)
        keeper.commit()

        said, broken = [], 0
        for asked in (first, second):
            try:
                said += answer(asked)
            except pg.DeadlockDetected:
                broken += 1
        said += one.end(worker, a, b, c)

        assert broken <= 1
        assert sorted(said) == [(each.id, "completed") for each in (a, b, c)]
        assert sorted(one.ask(jobs.ended([a, b, c]))) == sorted(said)


class TestLostAcknowledgement:
    def test_a_claim_is_adopted_by_its_token(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, token = one.hello(), uuid4()
        ids = one.enqueue(3)
        one.claim(worker, token=token)
        one.connection.close()  # nobody read the answer

        assert ids_of(two.ask(jobs.adopt(worker, token))) == ids

    def test_a_claim_whose_connection_broke_before_the_commit_took_nothing(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, token = one.hello(), uuid4()
        ids = one.enqueue(3)
        one.begin()
        one.claim(worker, token=token)
        two.sql("select pg_terminate_backend(%(pid)s, 20000)", pid=one.pid)

        assert two.ask(jobs.adopt(worker, token)) == []
        assert ids_of(two.claim(worker)) == ids

    def test_a_claim_that_is_still_on_its_way_is_found_when_it_is_asked_for_again(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, token = one.hello(), uuid4()
        ids = one.enqueue(3)
        one.begin()
        one.claim(worker, token=token)
        assert two.ask(jobs.adopt(worker, token)) == []  # too early: once is not enough
        one.commit()

        assert ids_of(two.ask(jobs.adopt(worker, token))) == ids

    def test_an_ending_is_recognised(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.end(worker, completed(claim))
        one.connection.close()

        assert two.ask(jobs.ended([completed(claim)])) == [(claim.id, "completed")]
        assert two.end(worker, completed(claim)) == []

    def test_an_ending_is_recognised_even_when_the_job_runs_again_by_now(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, other = one.hello(), one.hello()
        claim = one.claimed(worker)
        one.end(worker, failed(claim, delay=0))
        two.claim(other)

        assert two.ask(jobs.ended([failed(claim)])) == [(claim.id, "running")]
        assert two.end(worker, failed(claim)) == []

    def test_a_step_is_recognised(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.save(worker, claim)
        one.connection.close()

        assert two.ask(checkpoints.saved([checkpoint(claim)])) == [(claim.id, "step")]


class TestSignalAndWait:
    def test_a_wait_that_is_written_behind_a_signal_wakes_at_once(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        assert one.ask(jobs.heard(claim.id, "approved")) == []
        two.begin()
        two.ask(jobs.signal(claim.id, "approved", "1"))
        asked = one.start(jobs.end(worker, [waiting(claim)]))
        one.waits_for(two, asked)
        two.commit()

        assert answer(asked) == [(claim.id, "queued")]
        assert [each.signals for each in one.claim(worker)] == [1]

    def test_a_signal_that_comes_behind_the_wait_wakes_it(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.begin()
        one.end(worker, waiting(claim))
        asked = two.start(jobs.signal(claim.id, "approved", "1"))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == [(claim.id, "queued")]
        assert ids_of(one.claim(worker)) == [claim.id]

    def test_a_signal_that_was_undone_wakes_nobody(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        two.begin()
        two.ask(jobs.signal(claim.id, "approved", "1"))
        asked = one.start(jobs.end(worker, [waiting(claim)]))
        one.waits_for(two, asked)
        two.rollback()

        assert answer(asked) == [(claim.id, "queued")]
        assert one.claim(worker) == []

    def test_a_signal_and_a_sweep_lose_neither_the_word_nor_the_job(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, other = one.hello(), one.hello()
        claim = one.claimed(worker)
        one.silence(worker)
        two.begin()
        two.ask(jobs.signal(claim.id, "approved", "1"))
        one.recover()
        two.commit()
        one.recover()

        assert [each.signals for each in one.claim(other)] == [1]
        assert one.ask(jobs.heard(claim.id, "approved")) == ["1"]

    def test_of_two_words_under_one_name_the_first_to_commit_stays(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.one_job()
        one.begin()
        one.ask(jobs.signal(id, "approved", "1"))
        asked = two.start(jobs.signal(id, "approved", "2"))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []
        assert one.ask(jobs.heard(id, "approved")) == ["1"]


class TestEnqueueAndEnqueue:
    @staticmethod
    def asking(*keys: str) -> Query[Any]:
        return jobs.enqueue(order_of(), ["1"] * len(keys), keys, [None] * len(keys), notify=False)

    def test_a_key_that_another_is_writing_is_found_afterwards(self, hand: Hands) -> None:
        one, two = hand(), hand()
        one.begin()
        [mine] = one.ask(self.asking("a"))
        asked = two.start(self.asking("a", "b"))
        two.waits_for(one, asked)
        one.commit()

        assert [(each.key, each.new) for each in answer(asked)] == [("b", True)]
        assert ids_of(two.ask(jobs.by_keys(order_of(), ["a"]))) == [mine.id]

    def test_a_key_that_another_wrote_in_vain_is_new(self, hand: Hands) -> None:
        one, two = hand(), hand()
        one.begin()
        one.ask(self.asking("a"))
        asked = two.start(self.asking("a"))
        two.waits_for(one, asked)
        one.rollback()

        assert [(each.key, each.new) for each in answer(asked)] == [("a", True)]
        assert two.value("select count(*) from retoma.jobs") == 1

    def test_nobody_takes_a_job_before_its_caller_commits(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = two.hello()
        one.begin()
        id = one.one_job()
        assert two.claim(worker) == []
        one.commit()

        assert ids_of(two.claim(worker)) == [id]

    def test_the_same_keys_in_another_order_never_wait_in_a_ring(self, hand: Hands) -> None:
        one, two, keeper = hand(), hand(), hand()
        keeper.begin()
        keeper.ask(self.asking("m"))
        first = one.start(self.asking("a", "m", "z"))
        one.waits_for(keeper, first)
        second = two.start(self.asking("z", "m", "a"))
        two.waits_for(one, second)
        keeper.rollback()

        assert [(each.key, each.new) for each in answer(first)] == [("a", True), ("m", True), ("z", True)]
        assert answer(second) == []
        assert [each.key for each in two.ask(jobs.by_keys(order_of(), ["a", "m", "z"]))] == ["a", "m", "z"]

    def test_a_lane_that_two_name_at_once_is_one_lane(self, hand: Hands) -> None:
        one, two = hand(), hand()
        one.begin()
        one.ask(queues.lanes(QUEUE, ["tenant"], at_once=1))
        asked = two.start(queues.lanes(QUEUE, ["tenant"], at_once=1))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []
        [id] = two.enqueue(1, lane="tenant")
        assert two.job(id).lane == "tenant"
        assert two.value("select count(*) from retoma.slots") == 1


class TestFireAndFire:
    AT = datetime(2026, 1, 1, tzinfo=UTC)
    NEXT = datetime(2126, 1, 1, tzinfo=UTC)

    @pytest.fixture
    def due(self, db: Hand) -> None:
        db.ask(
            schedules.put(
                name="nightly", pipeline=PIPELINE, queue=QUEUE, cron="0 0 * * *", zone="UTC", input="1",
                priority=0, max_attempts=1, timeout=1.0, next_run_at=self.AT,
            )
        )  # fmt: skip

    @pytest.mark.usefixtures("due")
    def test_of_two_who_see_it_due_one_queues_the_job(self, hand: Hands) -> None:
        one, two = hand(), hand()
        one.begin()
        assert len(one.ask(schedules.fire("nightly", self.AT, self.NEXT))) == 1
        asked = two.start(schedules.fire("nightly", self.AT, self.NEXT))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []
        assert two.value("select count(*) from retoma.jobs") == 1

    @pytest.mark.usefixtures("due")
    def test_when_the_first_is_undone_the_second_queues_the_job(self, hand: Hands) -> None:
        one, two = hand(), hand()
        one.begin()
        one.ask(schedules.fire("nightly", self.AT, self.NEXT))
        asked = two.start(schedules.fire("nightly", self.AT, self.NEXT))
        two.waits_for(one, asked)
        one.rollback()

        assert len(answer(asked)) == 1
        assert two.value("select count(*) from retoma.jobs") == 1

    @pytest.mark.usefixtures("due")
    def test_one_that_is_paused_meanwhile_does_not_fire(self, hand: Hands) -> None:
        one, two = hand(), hand()
        one.begin()
        one.ask(schedules.pause("nightly"))
        asked = two.start(schedules.fire("nightly", self.AT, self.NEXT))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []


class TestLimitLaneAndClaim:
    def test_a_claim_does_not_take_a_place_that_is_being_taken_away(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        [lane] = one.lanes("tenant", at_once=3)
        one.enqueue(6, lane="tenant")
        one.begin()
        one.ask(queues.limit_lane(QUEUE, "tenant", at_once=1))

        mine = two.claim(worker)

        one.commit()
        assert len(mine) + len(two.claim(worker)) == 1
        assert set(two.seats().values()) == {lane}

    def test_a_lower_limit_waits_for_the_claim_and_lets_nobody_begin_above_it(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        one.lanes("tenant", at_once=3)
        one.enqueue(6, lane="tenant")
        one.begin()
        claims = one.claim(worker)
        asked = two.start(queues.limit_lane(QUEUE, "tenant", at_once=1))
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        assert len(claims) == 3
        assert two.claim(worker) == []
        two.end(worker, completed(claims[0]))
        assert two.claim(worker) == []
        two.end(worker, *(completed(each) for each in claims[1:]))
        assert len(two.claim(worker)) == 1

    def test_two_claims_at_once_count_who_still_runs_above_a_lower_limit(self, hand: Hands, slowly: Slowly) -> None:
        one, two = hand(), hand()
        first, second = one.hello(), one.hello()
        [lane] = one.lanes("tenant", at_once=3)
        one.enqueue(9, lane="tenant")
        *early, _ = one.claim(first)
        one.end(first, *(completed(each) for each in early))  # the third place is taken, the first two are free
        one.ask(queues.limit_lane(QUEUE, "tenant", at_once=2))
        asked = slowly.look(two, "slots", claiming(second))

        assert len(one.claim(first)) == 1

        slowly.go_on()
        answer(asked)
        assert one.value(f"select count(*) from retoma.jobs where state = 'running' and lane_id = {lane}") == 2

    def test_of_two_limits_at_once_the_last_one_counts(self, hand: Hands) -> None:
        one, two = hand(), hand()
        one.lanes("tenant", at_once=1)
        one.begin()
        one.ask(queues.limit_lane(QUEUE, "tenant", at_once=5))
        asked = two.start(queues.limit_lane(QUEUE, "tenant", at_once=2))
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        one.enqueue(9, lane="tenant")
        assert one.value("select at_once from retoma.lanes") == 2
        assert len(one.claim(one.hello())) == 2

    def test_a_place_that_was_mended_and_taken_again_meanwhile_stays_taken(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        one.lanes("tenant", at_once=1)
        ids = one.enqueue(2, lane="tenant")
        gone = 10**9
        one.sql("update retoma.slots set job_id = %(job)s", job=gone)  # somebody forgot to say so
        one.begin()
        one.ask(queues.mend_slots())
        assert ids_of(one.claim(worker)) == ids[:1]
        asked = two.start(queues.mend_slots())
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        assert list(one.seats()) == ids[:1]
        assert one.claim(worker) == []


class TestPruneAndRetry:
    def test_a_retry_waits_for_the_prune_and_finds_nothing(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.end(worker, failed(claim, again=False))
        one.age(101)
        one.begin()
        assert one.ask(jobs.prune(100.0)) == [claim.id]
        asked = two.start(jobs.retry([claim.id]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []
        assert two.ask(jobs.one(claim.id)) == []

    def test_a_prune_does_not_wait_for_a_retry_and_leaves_the_job(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.save(worker, claim)
        one.end(worker, failed(claim, again=False))
        one.age(101)
        one.begin()
        one.ask(jobs.retry([claim.id]))

        assert two.ask(jobs.prune(100.0)) == []

        one.commit()
        assert two.ask(jobs.prune(100.0)) == []
        assert (two.state(claim.id), len(two.ask(checkpoints.of(claim.id)))) == ("queued", 1)

    def test_a_prune_that_looked_before_the_retry_leaves_the_job_and_its_steps(
        self, hand: Hands, slowly: Slowly
    ) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.save(worker, claim)
        one.end(worker, failed(claim, again=False))
        one.age(101)
        asked = slowly.look(two, "jobs", jobs.prune(100.0))
        one.ask(jobs.retry([claim.id]))

        slowly.go_on()

        assert answer(asked) == []
        assert (one.state(claim.id), len(one.ask(checkpoints.of(claim.id)))) == ("queued", 1)
        assert len(one.attempts(claim.id)) == 1


class TestPeopleAndPeople:
    @pytest.mark.parametrize(
        "again", [lambda job: jobs.retry([job], attempts=2), lambda job: jobs.restart(job, attempts=2)]
    )
    def test_two_who_ask_at_once_for_another_try_get_one(self, hand: Hands, again: Callable[[int], Query[Any]]) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.end(worker, failed(claim, again=False))
        one.begin()
        assert one.ask(again(claim.id)) == [(claim.id, "queued")]
        asked = two.start(again(claim.id))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == []
        assert one.job(claim.id).max_attempts - one.job(claim.id).attempt == 2

    def test_a_cancel_that_does_not_see_the_retry_yet_finds_the_job_ended(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.one_job()
        one.ask(jobs.cancel([id]))
        one.begin()
        one.ask(jobs.retry([id]))

        assert two.ask(jobs.cancel([id])) == []

        one.commit()
        assert two.ask(jobs.cancel([id])) == [(id, "cancelled")]

    def test_an_expiry_and_a_cancel_do_not_overwrite_each_other(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.one_job(expires=60.0)
        one.age(61)
        one.begin()
        one.ask(jobs.cancel([id]))

        assert two.ask(jobs.expire()) == []

        one.commit()
        assert two.ask(jobs.expire()) == []
        assert (two.state(id), two.job(id).reason) == ("cancelled", "person")


def again_by_retry(id: int) -> Command[Any]:
    return job_commands.retry(id, attempts=None)


def again_by_restart(id: int) -> Command[Any]:
    return job_commands.restart(id, attempts=None)


AGAIN = [again_by_retry, again_by_restart]


class TestWhatIsDecidedOnAnOlderSight:
    """A command that had to wait for a row decides by what is there then, and not by what it saw before it waited."""

    def failed_job(self, one: Hand) -> int:
        worker = one.hello()
        claim = one.claimed(worker)
        one.end(worker, failed(claim, again=False))
        return claim.id

    @pytest.mark.parametrize("again", AGAIN)
    def test_a_job_that_is_discarded_meanwhile_is_not_tried_again(
        self, hand: Hands, again: Callable[[int], Command[Any]]
    ) -> None:
        one, two = hand(), hand()
        id = self.failed_job(one)
        one.begin()
        one.ask(jobs.discard([id], by="ana"))
        asked = two.start(lambda: two.do(again(id)))
        two.waits_for(one, asked)
        one.commit()

        with pytest.raises(Conflict, match="discarded by ana"):
            answer(asked)
        assert (one.state(id), one.job(id).discarded_by) == ("failed", "ana")

    @pytest.mark.parametrize("again", AGAIN)
    def test_a_discard_that_was_undone_meanwhile_does_not_count(
        self, hand: Hands, again: Callable[[int], Command[Any]]
    ) -> None:
        one, two = hand(), hand()
        id = self.failed_job(one)
        one.begin()
        one.ask(jobs.discard([id], by="ana"))
        asked = two.start(lambda: two.do(again(id)))
        two.waits_for(one, asked)
        one.rollback()

        assert answer(asked).state == "queued"

    def test_of_all_failed_jobs_the_one_that_is_discarded_meanwhile_stays(self, hand: Hands) -> None:
        one, two = hand(), hand()
        kept, settled = self.failed_job(one), self.failed_job(one)
        one.begin()
        one.ask(jobs.discard([settled], by="ana"))
        asked = two.start(lambda: two.do(job_commands.retry_some_failed(0, pipeline=None, attempts=None)))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked).again == [kept]
        assert (one.state(kept), one.state(settled)) == ("queued", "failed")

    @pytest.mark.parametrize("again", AGAIN)
    def test_a_discard_waits_for_the_retry_and_comes_too_late(
        self, hand: Hands, again: Callable[[int], Command[Any]]
    ) -> None:
        one, two = hand(), hand()
        id = self.failed_job(one)
        one.begin()
        run_on_sync(one.connection, again(id))
        asked = two.start(lambda: two.do(discards.discard(id, by="ana", reason=None)))
        two.waits_for(one, asked)
        one.commit()

        with pytest.raises(Conflict, match="only a failed job"):
            answer(asked)
        assert (one.state(id), one.sql("select * from retoma.discards")) == ("queued", [])

    def test_a_job_that_is_reinstated_meanwhile_is_tried_again(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = self.failed_job(one)
        one.ask(jobs.discard([id], by="ana"))
        one.begin()
        run_on_sync(one.connection, discards.reinstate(id))
        asked = two.start(lambda: two.do(again_by_retry(id)))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked).state == "queued"

    def test_a_signal_to_a_job_that_ends_meanwhile_is_not_taken_for_heard(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.one_job()
        one.begin()
        one.ask(jobs.cancel([id]))
        asked = two.start(lambda: two.do(job_commands.signal(id, "go", 1)))
        two.waits_for(one, asked)
        one.commit()

        with pytest.raises(Conflict, match="hears no more signals"):
            answer(asked)
        assert one.sql("select * from retoma.signals") == []


EVERY_FAILURE = {"fingerprint": None, "cancelled": False, "attempts": None}


class TestPiecesThatAreDecidedOnAnOlderSight:
    """The same of a batch in pieces, whose statements look at many jobs and pass over those that others hold."""

    @pytest.fixture
    def hand(self, room: str) -> Iterator[Callable[..., BatchHand]]:
        yield from hands(room)

    def failed_batch(self, one: BatchHand) -> tuple[int, int, int]:
        worker, id = one.hello(), one.batch(2)
        first, second = one.take(worker, id, 2)
        one.end(worker, self.broken(first), self.broken(second))
        return id, first.id, second.id

    def broken(self, claim: Claim, error: str = "Broken") -> Ended:
        return replace(ending(claim, "failed"), error=error)

    def moved(self, asked: Future[Any]) -> list[int]:
        return [each.id for each in answer(asked) if each.moved]

    def test_a_job_that_is_discarded_after_a_look_is_not_tried_again(
        self, hand: Callable[..., BatchHand], slowly: Slowly
    ) -> None:
        one, two = hand(), hand()
        id, first, second = self.failed_batch(one)
        retry = operation_commands.pieces(id, "retry", EVERY_FAILURE)(ALL, None)
        asked = slowly.look(two, "jobs", lambda: two.do(retry))
        one.ask(jobs.discard([first], by="ana"))

        slowly.go_on()

        assert self.moved(asked) == [second]
        assert (one.state(first), one.state(second)) == ("failed", "queued")

    def test_a_job_that_fails_otherwise_after_a_look_is_not_of_that_error_group(
        self, hand: Callable[..., BatchHand], slowly: Slowly
    ) -> None:
        one, two = hand(), hand()
        id, first, second = self.failed_batch(one)
        (group,) = one.ask(batches.errors(id))
        retry = operation_commands.pieces(id, "retry", EVERY_FAILURE | {"fingerprint": group.fingerprint})(ALL, None)
        asked = slowly.look(two, "jobs", lambda: two.do(retry))
        worker = one.hello()
        one.ask(jobs.retry([first]))
        one.end(worker, self.broken(one.take(worker, id)[0], "Empty"))

        slowly.go_on()

        assert self.moved(asked) == [second]
        assert (one.state(first), one.state(second)) == ("failed", "queued")

    def test_a_job_that_begins_after_a_look_keeps_its_configuration(
        self, hand: Callable[..., BatchHand], slowly: Slowly
    ) -> None:
        one, two = hand(), hand()
        id = one.batch(2)
        first, second = one.jobs_of(id)
        replan = operation_commands.pieces(id, "replan", {"cohort": 2})(ALL, None)
        asked = slowly.look(two, "jobs", lambda: two.do(replan))
        worker = one.hello()
        (claim,) = one.take(worker, id)
        one.save(worker, claim)
        one.end(worker, ending(claim, "released"))

        slowly.go_on()

        assert self.moved(asked) == [second]
        assert (one.state(first), one.job(first).cohort, one.job(second).cohort) == ("queued", 1, 2)


# — every order of two short stories about one job —

DEEDS = ("claim", "save", "end", "recover", "cancel")


class Actor:
    """Somebody who does what its story says with the one job there is; without a claim it tries the other's."""

    def __init__(self, twin: Twin, job: int) -> None:
        self.twin = twin
        self.job = job
        self.worker = twin.hello()
        self.last = Claim(job, None, QUEUE, 0, PIPELINE, None, 1, 3, 0, 1, 0, 120.0, None, None, "0")

    def do(self, deed: str, word: str) -> None:
        match deed:
            case "claim":
                for claim in self.twin.claim(self.worker, 1):
                    self.last = claim
            case "save":
                self.twin.save(self.worker, checkpoint(self.last))
            case "end":
                self.twin.end(self.worker, twin_ending(self.last, word, again=True, delay=0.0))
            case "recover":
                self.twin.recover()
            case "cancel":
                self.twin.cancel(self.job)


def orders(first: tuple[str, ...], second: tuple[str, ...]) -> Iterator[list[tuple[int, str]]]:
    """Every way to tell both stories, each in its own order."""
    length = len(first) + len(second)
    for places in combinations(range(length), len(first)):
        left, right = iter(first), iter(second)
        yield [(0, next(left)) if place in places else (1, next(right)) for place in range(length)]


@pytest.mark.parametrize("begins_with", DEEDS)
@pytest.mark.parametrize("one", ["claim save end", "claim end claim"])
def test_every_order_of_two_short_stories_keeps_what_must_be_true(db: Hand, one: str, begins_with: str) -> None:
    word = "completed" if one.endswith("end") else "failed"
    others = [each for length in (1, 2, 3) for each in permutations(DEEDS, length) if each[0] == begins_with]
    for other in others:
        for order in orders(tuple(one.split()), other):
            twin = Twin(db)
            [job] = twin.enqueue()
            actors = [Actor(twin, job), Actor(twin, job)]
            twin.tick(300)  # the first has been silent for longer than its lease, and does not know
            twin.beat(actors[1].worker)
            for who, deed in order:
                actors[who].do(deed, word)
