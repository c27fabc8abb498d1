"""Several hands at one batch, in an order that is said and not left to chance: who waits for whom is PostgreSQL's
own word, and nobody ever waits in a ring.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from store_batch import STALL, BatchHand, ending, hands, key, read
from store_hand import PATIENCE, PIPELINE, QUEUE, answer, completed

from retoma.commands import batch_actions, maintenance
from retoma.commands import batches as batch_commands
from retoma.errors import BatchConflict
from retoma.model.job import Claim
from retoma.store import batches, jobs, workers
from retoma.store.query import Command, Query
from retoma.store.turns import Turns

Hands = Callable[..., BatchHand]


@pytest.fixture
def hand(room: str) -> Iterator[Hands]:
    yield from hands(room)


def claiming(worker: int, limit: int) -> Query[Claim]:
    return jobs.claim(worker, [QUEUE], [PIPELINE], limit=limit, token=uuid4(), turns=Turns())


def pausing(id: int) -> Command[Any]:
    return batch_actions.pause(id, reason="person")


def cancelling(id: int) -> Command[Any]:
    return batch_actions.cancel(id, reason="person")


def resuming_(id: int) -> Command[Any]:
    return batch_actions.resume(id, epoch=None, max_resumes=None, by="person")


def retrying(id: int) -> Command[Any]:
    return batch_actions.retry_failed(id, fingerprint=None, cancelled=True, attempts=None)


def restarting(id: int) -> Command[Any]:
    return batch_actions.restart(id, configuration=None)


def changing(id: int) -> Command[Any]:
    return batch_actions.change(id, {"name": "another"})


COMMANDS = {
    "pause": pausing,
    "cancel": cancelling,
    "resume": resuming_,
    "retry_failed": retrying,
    "restart": restarting,
    "change": changing,
}
ALLOWED = {
    "running": ("pause", "cancel", "resume", "retry_failed", "change"),
    "stalled": ("pause", "cancel", "resume", "retry_failed", "change"),
    "cancelled": ("cancel", "retry_failed", "restart", "change"),
}
AFTERWARDS = {
    # What a batch of four (one failed, one completed, two in a worker's hands) is when one more job is completed.
    "pause": "paused",
    "cancel": "cancelled",
    "resume": "running",
    "retry_failed": "running",
    "restart": "running",
    "change": "running",
}


def scene(db: BatchHand, command: str) -> tuple[int, int, list[Claim]]:
    """A batch for which this *command* has something to do, while two of its jobs are in a worker's hands."""
    worker, id = db.hello(lease=1e6), db.batch(4, max_retries=9)
    db.finish(worker, "completed", "failed")
    claims = db.take(worker, id, 2)
    if command == "resume":
        db.age(STALL + 1)
        db.stall(id)
    if command == "restart":
        db.ask(batches.cancel(id, reason="person"))
    return worker, id, claims


def sound(db: BatchHand, id: int) -> None:
    assert db.breaches() == []
    assert [each.seq for each in db.events(id)] == list(range(1, db.one(id).event_seq + 1))


def all_wait(looking: BatchHand, hands: list[BatchHand]) -> None:
    """Come back when each of them waits for somebody."""
    give_up = time.monotonic() + PATIENCE
    waiting = "select count(*) from unnest(%(pids)s::integer[]) as pid where cardinality(pg_blocking_pids(pid)) > 0"
    while looking.value(waiting, pids=[each.pid for each in hands]) < len(hands):
        assert time.monotonic() < give_up, "Not all of them wait"
        time.sleep(0.01)


class TestEndAndEnd:
    def test_of_two_last_endings_the_second_completes_it(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(2)
        first, second = one.take(worker, id, 2)
        one.begin()
        one.end(worker, completed(first))
        asked = two.start(jobs.end(worker, [completed(second)]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == [(second.id, "completed")]
        assert (one.is_(id), one.counts(id), one.told(id).count("completed")) == ("completed", (2, 0, 0), 1)
        sound(one, id)

    def test_when_the_first_of_two_is_undone_it_is_not_completed(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(2)
        first, second = one.take(worker, id, 2)
        one.begin()
        one.end(worker, completed(first))
        asked = two.start(jobs.end(worker, [completed(second)]))
        two.waits_for(one, asked)
        one.rollback()

        answer(asked)
        assert (one.is_(id), one.counts(id)) == ("running", (2, 1, 0))
        one.end(worker, completed(first))
        assert (one.is_(id), one.told(id).count("completed")) == ("completed", 1)
        sound(one, id)

    def test_many_who_wait_for_one_row_complete_it_once(self, hand: Hands) -> None:
        keeper, *many = (hand() for _ in range(6))
        worker, id = keeper.hello(), keeper.batch(5)
        claims = keeper.take(worker, id, 5)
        keeper.begin()
        keeper.ask(batches.hold(id))
        asked = [
            each.start(jobs.end(worker, [ending(claim, "failed")])) for each, claim in zip(many, claims, strict=True)
        ]
        all_wait(keeper, many)
        keeper.commit()
        for one in asked:
            answer(one)

        assert (keeper.is_(id), keeper.counts(id), keeper.told(id).count("completed")) == ("completed", (5, 0, 5), 1)
        sound(keeper, id)

    def test_statements_over_two_batches_in_opposite_order_never_wait_in_a_ring(self, hand: Hands) -> None:
        one, two, keeper = hand(), hand(), hand()
        worker, other = one.hello(), one.hello()
        a, b = one.open(), one.open()
        for number in (1, 2):
            one.fill(a, number)
            one.fill(b, number)
        one.seal(a)
        one.seal(b)
        claims = sorted(one.claim(worker, 10), key=lambda each: each.id)
        assert [each.batch_id for each in claims] == [a, b, a, b]
        a1, b1, a2, b2 = claims
        one.sql("update retoma.jobs set worker_id = %(w)s where id = any (%(ids)s)", w=other, ids=[b1.id, a2.id])
        keeper.begin()
        keeper.ask(batches.hold(b))
        first = one.start(jobs.end(worker, [completed(a1), completed(b2)]))
        one.waits_for(keeper, first)  # it has the first batch, and wants the second
        second = two.start(jobs.end(other, [completed(b1), completed(a2)]))
        two.waits_for(one, second)
        keeper.commit()

        assert len(answer(first)) == len(answer(second)) == 2
        assert (keeper.is_(a), keeper.is_(b)) == ("completed", "completed")
        sound(keeper, a)
        sound(keeper, b)


class TestEndAndCommand:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_an_ending_waits_for_the_command_and_counts(self, hand: Hands, command: str) -> None:
        one, two = hand(), hand()
        worker, id, [claim, _] = scene(one, command)
        one.begin()
        one.inside(COMMANDS[command](id))
        asked = two.start(jobs.end(worker, [completed(claim)]))
        two.waits_for(one, asked)
        one.commit()

        # A resume took back what hung, a restart all: whoever held it has nothing to say any more.
        assert answer(asked) == ([] if command in {"resume", "restart"} else [(claim.id, "completed")])
        assert one.is_(id) == AFTERWARDS[command]
        sound(one, id)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_command_waits_for_the_ending_and_finds_it_told(self, hand: Hands, command: str) -> None:
        one, two = hand(), hand()
        worker, id, [claim, _] = scene(one, command)
        one.begin()
        one.end(worker, completed(claim))
        asked = two.start(lambda: two.do(COMMANDS[command](id)))
        two.waits_for(one, asked)
        one.commit()

        answer(asked)
        assert one.is_(id) == AFTERWARDS[command]
        assert one.state(claim.id) == ("queued" if command == "restart" else "completed")
        sound(one, id)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_an_ending_that_has_its_job_and_a_command_that_has_the_batch_make_no_ring(
        self, hand: Hands, command: str
    ) -> None:
        one, two = hand(), hand()
        worker, id, [claim, _] = scene(one, command)
        one.begin()
        one.ask(batches.hold(id))
        asked = two.start(jobs.end(worker, [completed(claim)]))
        two.waits_for(one, asked)  # the job is theirs, the batch is ours
        one.inside(COMMANDS[command](id))
        one.commit()

        assert answer(asked) == [(claim.id, "completed")]
        assert one.is_(id) == AFTERWARDS[command]
        sound(one, id)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_when_the_last_job_ends_first_the_command_finds_a_completed_batch(self, hand: Hands, command: str) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(1)
        [claim] = one.take(worker, id)
        one.begin()
        one.end(worker, completed(claim))
        asked = two.start(lambda: two.do(COMMANDS[command](id)))
        two.waits_for(one, asked)
        one.commit()

        match command:
            case "pause" | "cancel":
                with pytest.raises(BatchConflict):
                    answer(asked)
            case "resume":
                assert answer(asked).word == "already_finished"
            case "retry_failed":
                assert answer(asked).word == "nothing_to_retry"
            case _:
                answer(asked)
        assert one.is_(id) == ("running" if command == "restart" else "completed")
        sound(one, id)


class TestCommandAndCommand:
    @pytest.mark.parametrize(
        ("state", "first", "second"),
        [(state, first, second) for state, allowed in ALLOWED.items() for first in allowed for second in COMMANDS],
    )
    def test_the_second_waits_and_is_decided_by_what_the_first_left(
        self, hand: Hands, state: str, first: str, second: str
    ) -> None:
        one, two = hand(), hand()
        _, id, _ = scene(one, {"running": "pause", "stalled": "resume", "cancelled": "restart"}[state])
        assert one.is_(id) == state
        one.begin()
        one.inside(COMMANDS[first](id))
        asked = two.start(lambda: two.do(COMMANDS[second](id)))
        two.waits_for(one, asked)
        one.commit()

        with suppress(BatchConflict):  # what each state allows is told in test_batches.py
            answer(asked)
        sound(one, id)

    def test_of_fifty_who_resume_at_once_one_does_it(self, hand: Hands) -> None:
        keeper, *many = (hand() for _ in range(51))
        id = scene(keeper, "resume")[1]
        epoch = keeper.one(id).epoch
        keeper.begin()
        keeper.ask(batches.hold(id))
        asked = [each.start(lambda each=each: each.do(resuming_(id))) for each in many]
        all_wait(keeper, many)
        keeper.commit()

        words = [answer(one).word for one in asked]

        assert sorted(words) == ["already_running"] * 49 + ["resumed"]
        assert (keeper.one(id).resumes, keeper.one(id).epoch) == (1, epoch + 1)
        assert [each.data.get("why") for each in keeper.events(id)].count("resumed") == 1
        sound(keeper, id)

    def test_somebody_who_saw_the_same_epoch_is_refused_when_another_was_quicker(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = scene(one, "resume")[1]
        epoch = one.one(id).epoch
        one.begin()
        one.inside(pausing(id))
        asked = two.start(lambda: two.do(batch_actions.resume(id, epoch=epoch, max_resumes=None, by="person")))
        two.waits_for(one, asked)
        one.commit()

        with pytest.raises(BatchConflict) as refused:
            answer(asked)
        assert (refused.value.code, one.is_(id)) == ("stale_epoch", "paused")


class TestClaimAndPause:
    def test_a_claim_that_did_not_see_the_pause_is_called_off(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(2)
        one.begin()
        one.inside(pausing(id))
        asked = two.start(claiming(worker, 1))
        two.waits_for(one, asked)  # it has the job, and wants to start the batch
        one.commit()
        [claim] = [each for each in answer(asked) if each.id is not None]

        assert one.is_(id) == "paused"
        assert one.ask(workers.called_off([worker])) == [(claim.id, worker, claim.fence, "released")]
        two.end(worker, ending(claim, "released"))
        assert (one.claim(worker), one.counts(id)) == ([], (2, 2, 0))
        sound(one, id)

    def test_a_pause_waits_for_the_claim_that_starts_it(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(2)
        one.begin()
        assert len(one.claim(worker, 1)) == 1
        asked = two.start(lambda: two.do(pausing(id)))
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        assert (one.is_(id), one.told(id)[-2:], one.claim(worker)) == ("paused", ["running", "paused"], [])
        assert one.resume(id).batch.state == "running"
        sound(one, id)

    def test_two_first_claims_at_once_start_it_once(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(4)
        one.begin()
        assert len(one.claim(worker, 1)) == 1
        asked = two.start(claiming(worker, 1))
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        assert (one.is_(id), one.told(id).count("running")) == ("running", 1)
        sound(one, id)

    def test_one_whose_first_job_was_claimed_meanwhile_resumes_to_running(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(lease=1e6), one.batch(1)
        one.begin()
        one.inside(pausing(id))
        asked = two.start(claiming(worker, 1))
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        one.resume(id)

        assert one.is_(id) == "running"  # or else nobody would ever ask why this job does not end

    def test_a_claim_that_did_not_see_the_cancel_is_called_off_and_asked_by_the_watchdog(self, hand: Hands) -> None:
        one, two, three = hand(), hand(), hand()
        worker, id = one.hello(), one.batch(2)
        one.claim(worker, 1)
        two.begin()
        [claim] = two.claim(worker, 1)
        one.cancel(id)  # skips the job that is being claimed
        two.commit()

        assert (one.is_(id), one.state(claim.id)) == ("cancelled", "running")
        called = {each.id: each.why for each in one.ask(workers.called_off([worker]))}
        assert called[claim.id] == "cancelled"
        three.look_after()
        assert one.job(claim.id).cancel_requested_at is not None
        one.end(worker, ending(claim, "again"))
        assert one.state(claim.id) == "cancelled"
        sound(one, id)


class TestFillAnd:
    def filling(self, id: int, *numbers: int) -> Command[Any]:
        return batch_commands.fill(id, read, numbers, key)

    def test_a_seal_waits_for_whoever_fills_and_counts_all(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.open()
        one.fill(id, 1)
        one.begin()
        one.inside(self.filling(id, 2, 3))
        asked = two.start(lambda: two.do(batch_commands.seal(id, expected=3)))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked).total == 3
        sound(one, id)

    def test_two_fill_at_once_without_waiting(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.open()
        one.begin()
        one.inside(self.filling(id, 1, 2))
        two.fill(id, 3, 4)
        one.commit()

        assert one.seal(id, expected=4).total == 4

    @pytest.mark.parametrize("command", ["seal", "cancel"])
    def test_who_comes_after_the_seal_or_the_cancel_is_refused(self, hand: Hands, command: str) -> None:
        one, two = hand(), hand()
        id = one.open()
        one.fill(id, 1)
        one.begin()
        one.inside(batch_commands.seal(id, expected=None) if command == "seal" else cancelling(id))
        asked = two.start(lambda: two.do(self.filling(id, 2)))
        two.waits_for(one, asked)
        one.commit()

        with pytest.raises(BatchConflict) as refused:
            answer(asked)
        assert (refused.value.code, len(one.jobs_of(id))) == ("batch_sealed", 1)
        sound(one, id)

    def test_a_cancel_waits_for_whoever_fills_and_ends_all(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.open()
        one.begin()
        one.inside(self.filling(id, 1, 2))
        asked = two.start(lambda: two.do(cancelling(id)))
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        assert (one.states_of(id), one.counts(id)) == (["cancelled"] * 2, (2, 0, 0))
        sound(one, id)

    @pytest.mark.parametrize("before", [0, 1])
    def test_a_batch_that_expires_while_somebody_fills_it_ends_all_its_jobs(self, hand: Hands, before: int) -> None:
        one, two = hand(), hand()
        id = one.open(expires=60.0)
        if before:
            one.fill(id, 0)
        one.age(61)
        one.begin()
        one.inside(self.filling(id, 1, 2))
        asked = two.start(two.look_after)
        if two.has_to_wait_for(one, asked):
            one.commit()
            answer(asked)
        else:
            one.commit()
            two.look_after()

        assert (one.is_(id), set(one.states_of(id))) == ("cancelled", {"cancelled"})
        sound(one, id)

    def test_a_job_that_is_cancelled_while_the_batch_is_sealed_is_counted_once(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.open()
        job = one.fill(id, 1, 2)[0].id
        one.begin()
        one.inside(batch_commands.seal(id, expected=None))
        asked = two.start(jobs.cancel([job]))
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        assert one.counts(id) == (2, 1, 0)
        sound(one, id)

    def test_jobs_that_are_cancelled_while_the_batch_is_cancelled_unsealed_are_counted_once(self, hand: Hands) -> None:
        one, two, three = hand(), hand(), hand()
        id = one.open()
        first, second = (each.id for each in one.fill(id, 1, 2))
        one.begin()
        one.ask(batches.hold(id))
        asked = [two.start(jobs.cancel([first])), three.start(jobs.cancel([second]))]
        all_wait(one, [two, three])
        one.inside(cancelling(id))
        one.commit()
        for each in asked:
            answer(each)

        assert one.counts(id) == (2, 0, 0)
        sound(one, id)

    def test_a_batch_that_is_sealed_at_the_last_moment_does_not_expire(self, hand: Hands) -> None:
        one, two = hand(), hand()
        id = one.open(expires=60.0)
        one.fill(id, 1)
        one.age(61)
        one.begin()
        one.inside(batch_commands.seal(id, expected=None))
        asked = two.start(two.look_after)
        two.has_to_wait_for(one, asked)
        one.commit()

        assert (answer(asked).expired, one.is_(id)) == ([], "queued")


class TestWatchdogs:
    @pytest.mark.parametrize("word", ["again", "released", "postponed"])
    def test_an_attempt_that_ends_while_its_batch_is_called_stalled_is_told(self, hand: Hands, word: str) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(lease=1e6), one.batch(3)
        [claim] = one.take(worker, id)
        one.begin()
        one.stall(id)
        asked = two.start(jobs.end(worker, [ending(claim, word)]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == [(claim.id, "queued")]
        assert (one.is_(id), one.counts(id)) == ("stalled", (3, 3, 0))
        sound(one, id)

    def test_jobs_that_are_recovered_while_their_batch_is_called_stalled_are_told(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(3)
        [claim] = one.take(worker, id)
        one.silence(worker)
        one.begin()
        one.stall(id)
        asked = two.start(jobs.recover())
        two.waits_for(one, asked)
        one.commit()

        assert [each.id for each in answer(asked)] == [claim.id]
        sound(one, id)

    def test_of_two_rounds_at_once_one_says_that_it_stalled(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(lease=1e6), one.batch(3, max_resumes=0)
        one.finish(worker, "completed", seconds=1.0)
        one.take(worker, id)
        one.age(STALL + 1)
        one.begin()
        assert len(one.inside(maintenance.look_after()).stalled) == 1

        round = two.look_after()  # does not wait, and does not say it again

        one.commit()
        assert (round.stalled, round.failed, two.look_after().stalled) == ([], [], [])
        assert (one.is_(id), one.told(id)[-2:]) == ("failed", ["stalled", "failed"])
        sound(one, id)

    def test_many_rounds_at_once_tell_every_batch_once(self, hand: Hands) -> None:
        many = [hand() for _ in range(6)]
        one = many[0]
        worker = one.hello(lease=1e6)
        ids = [one.batch(2) for _ in range(8)]
        late = [one.open(expires=1.0) for _ in range(4)]
        for id in late:
            one.fill(id, 1, 2)
        claims = sorted(one.claim(worker, 100), key=lambda each: each.id)
        assert {one.is_(id) for id in ids} == {"running"}
        one.end(worker, *(ending(each, "completed", seconds=1.0) for each in claims[::2]))
        one.age(10 * STALL)

        rounds = [answer(each) for each in [hand.start(hand.look_after) for hand in many]]

        assert sorted(why.batch_id for round in rounds for why in round.stalled) == ids
        assert sorted(id for round in rounds for id in round.expired) == late
        for id in ids + late:
            sound(one, id)
            assert one.told(id).count("stalled") + one.told(id).count("cancelled") == 1

    def test_a_verdict_that_came_too_late_is_not_written(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(lease=1e6), one.batch(3)
        one.take(worker, id)
        [claim] = one.take(worker, id)
        one.age(STALL + 1)
        seen = two.evidence(id)
        one.end(worker, completed(claim))

        late = batches.stall(id, epoch=seen.epoch, event_seq=seen.event_seq, verdict="hanging", cause="{}")

        assert (two.ask(late), one.is_(id)) == ([], "running")

    def test_a_round_does_not_wait_for_an_ending(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(lease=1e6), one.batch(3)
        one.finish(worker, "completed", seconds=1.0)
        [claim] = one.take(worker, id)
        one.age(STALL + 1)
        one.begin()
        one.end(worker, completed(claim))

        assert two.look_after().stalled == []

        one.commit()
        assert (two.look_after().stalled, one.is_(id)) == ([], "running")


class TestRecoverAndEndAndCancel:
    @pytest.mark.parametrize("order", ["end recover cancel", "recover cancel end", "cancel end recover"])
    def test_three_at_one_job_leave_the_counts_exact(self, hand: Hands, order: str) -> None:
        many = {name: hand() for name in order.split()}
        one = hand()
        worker, id = one.hello(), one.batch(2)
        [claim] = one.take(worker, id)
        one.silence(worker)
        deeds: dict[str, Callable[[], Any]] = {
            "end": lambda: many["end"].end(worker, completed(claim)),
            "recover": many["recover"].recover,
            "cancel": lambda: many["cancel"].do(cancelling(id)),
        }
        first, second, third = order.split()
        many[first].begin()
        if first == "cancel":
            many[first].inside(cancelling(id))
        else:
            deeds[first]()
        asked = [(name, many[name].start(deeds[name])) for name in (second, third)]
        many[second].has_to_wait_for(many[first], asked[0][1])
        many[first].commit()
        for _, each in asked:
            answer(each)
        one.look_after()

        assert one.state(claim.id) in {"completed", "cancelled"}
        assert (one.is_(id), one.counts(id)) == ("cancelled", (2, 0, 0))
        sound(one, id)

    def test_a_recovery_and_an_ending_of_the_same_batch_are_both_told(self, hand: Hands) -> None:
        one, two = hand(), hand()
        lost, alive = one.hello(), one.hello()
        id = one.batch(2, max_retries=0)
        [first] = one.take(lost, id)
        [second] = one.take(alive, id)
        one.silence(lost)
        one.begin()
        assert [each.state for each in one.recover()] == ["failed"]
        asked = two.start(jobs.end(alive, [completed(second)]))
        two.waits_for(one, asked)
        one.commit()
        answer(asked)

        assert (one.is_(id), one.counts(id), one.state(first.id)) == ("completed", (2, 0, 1), "failed")
        sound(one, id)


class TestPersonAndBatch:
    def test_a_job_that_is_retried_while_its_batch_is_restarted_is_counted_once(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(2)
        job, _ = one.finish(worker, "failed", "completed")
        one.begin()
        one.ask(batches.hold(id))
        asked = two.start(jobs.retry([job]))
        two.waits_for(one, asked)
        one.inside(restarting(id))
        one.commit()

        assert answer(asked) == [(job, "queued")]
        assert (one.is_(id), one.counts(id)) == ("running", (2, 2, 0))
        sound(one, id)

    def test_a_retry_that_comes_while_its_batch_is_retired_finds_it_gone(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(2)
        one.finish(worker, "failed", "failed")
        one.age(1000)
        first, second = one.jobs_of(id)
        one.begin()
        assert one.ask(batches.retire(500.0)) == [id]
        retried = two.start(jobs.retry([second]))
        two.waits_for(one, retried)
        one.ask(batches.prune(limit=1))
        one.commit()

        assert answer(retried) == []
        assert one.state(second) == "failed" if one.jobs_of(id) == [second] else one.state(first) == "failed"


class TestStory:
    def test_a_reader_never_sees_a_number_before_those_below_it(self, hand: Hands) -> None:
        one, two, reader = hand(), hand(), hand()
        worker, id = one.hello(), one.batch(3)
        first, second, _ = one.take(worker, id, 3)
        before = reader.one(id).event_seq
        one.begin()
        one.end(worker, completed(first))
        asked = two.start(jobs.end(worker, [completed(second)]))
        two.waits_for(one, asked)

        assert [each.seq for each in reader.events(id)] == list(range(1, before + 1))

        one.commit()
        answer(asked)
        assert [each.seq for each in reader.events(id)] == list(range(1, before + 3))

    def test_what_is_undone_leaves_no_gap(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker, id = one.hello(), one.batch(3)
        first, second, _ = one.take(worker, id, 3)
        one.begin()
        one.end(worker, completed(first))
        asked = two.start(jobs.end(worker, [completed(second)]))
        two.waits_for(one, asked)
        one.rollback()
        answer(asked)

        sound(one, id)
