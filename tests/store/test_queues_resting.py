"""Lanes with nothing to give rest, wake when they have something, and go when they are empty: no job is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from store_batch import BatchHand
from store_hand import PIPELINE, QUEUE, Hand, answer, completed, failed, order_of, released, waiting

from retoma.commands import batch_actions
from retoma.model.job import Claim
from retoma.store import jobs, queues
from retoma.store.jobs import Blame
from retoma.store.turns import Turns

Hands = Callable[..., Hand]


@pytest.fixture
def batches(room: str) -> Iterator[BatchHand]:
    hand = BatchHand(room)
    yield hand
    hand.close()


def into(lane: str, **order: object) -> object:
    return jobs.enqueue(order_of(**order), ["1"], [None], [lane], notify=False)


def remove(db: Hand) -> list[int]:
    """Remove the empty lanes, as the duty does: which."""
    db.begin()
    empty = [id for _, id in db.ask(queues.empty_lanes(after=0, limit=1000)) if id is not None]
    gone = sorted(db.ask(queues.remove_lanes(empty)))
    db.commit()
    return gone


class TestIdleLanes:
    def test_those_without_a_job_that_is_due_are_found_page_by_page(self, db: Hand) -> None:
        empty, asleep, ready, shut = db.lanes("empty", "asleep", "ready", "shut")
        db.enqueue(2, lane="asleep", delay=600.0)
        db.enqueue(1, lane="ready", delay=600.0)
        db.enqueue(1, lane="ready", priority=5)
        db.sql("update retoma.lanes set closed_at = now() where name = 'shut'")

        assert db.ask(queues.idle_lanes(after=0, limit=10)) == [(ready, empty), (ready, asleep)]
        assert db.ask(queues.idle_lanes(after=0, limit=1)) == [(empty, empty)]
        assert db.ask(queues.idle_lanes(after=asleep, limit=5)) == [(ready, None)]
        assert db.ask(queues.idle_lanes(after=shut, limit=5)) == [(None, None)]

    def test_one_into_which_somebody_is_putting_a_job_is_left_alone(self, hand: Hands) -> None:
        one, two = hand(), hand()
        [lane] = one.lanes("tenant")
        one.begin()
        [id] = one.enqueue(1, lane="tenant")

        assert two.rest() == []

        one.commit()
        assert two.awake() == [lane]
        assert [each.id for each in two.claim(two.hello())] == [id]


class TestRestLanes:
    def test_no_claim_looks_at_it_until_its_first_job_is_due(self, db: Hand) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant")
        [late] = db.enqueue(1, lane="tenant", delay=600.0)
        [soon] = db.enqueue(1, lane="tenant", delay=60.0, priority=7)

        assert db.rest() == [lane]
        assert db.awake() == []
        assert db.claim(worker) == []

        db.age(61)
        assert [each.id for each in db.claim(worker)] == [soon]
        assert db.awake() == [lane]
        assert db.rest() == [lane]
        db.age(600)
        db.beat(worker)
        assert [each.id for each in db.claim(worker)] == [late]

    def test_more_lanes_than_one_claim_wakes_are_all_served(self, db: Hand) -> None:
        worker, turns = db.hello(), Turns()
        names = [f"lane {each}" for each in range(100)]
        db.lanes(*names)
        db.ask(jobs.enqueue(order_of(delay=60.0), ["1"] * 100, [None] * 100, names, notify=False))
        db.rest()
        db.age(61)

        taken: list[Claim] = []
        while claims := db.claim(worker, 10, turns=turns):
            taken += claims

        assert len({each.lane_id for each in taken}) == len(taken) == 100

    def test_one_that_has_something_to_give_by_now_goes_on(self, db: Hand) -> None:
        [lane] = db.lanes("tenant")
        db.enqueue(1, lane="tenant")

        assert db.ask(queues.rest_lanes([lane])) == []
        assert db.awake() == [lane]

    def test_whoever_comes_while_it_is_put_to_rest_waits_and_wakes_it(self, hand: Hands) -> None:
        one, two = hand(), hand()
        [lane] = one.lanes("tenant")
        one.begin()
        assert one.ask(queues.idle_lanes(after=0, limit=10)) == [(lane, lane)]
        asked = two.start(into("tenant"))  # type: ignore[arg-type]
        two.waits_for(one, asked)
        assert one.ask(queues.rest_lanes([lane])) == [lane]
        one.commit()

        [receipt] = answer(asked)
        assert two.awake() == [lane]
        assert [each.id for each in two.claim(two.hello())] == [receipt.id]

    def test_two_who_wake_the_same_lanes_do_not_wait_in_a_ring(self, hand: Hands) -> None:
        one, two = hand(), hand()
        one.lanes("a", "b")
        one.rest()
        one.begin()
        one.enqueue(1, lane="b")
        asked = two.start(jobs.enqueue(order_of(), ["1", "2"], [None] * 2, ["a", "b"], notify=False))
        two.waits_for(one, asked)
        one.enqueue(1, lane="b")
        one.commit()

        assert len(answer(asked)) == 2
        assert len(one.claim(one.hello())) == 4


class TestWays:
    """Every way in which a job comes to wait in a lane wakes it."""

    def given_back(self, db: Hand, let_go: Callable[[int, Claim], object]) -> None:
        [lane] = db.lanes("tenant")
        worker = db.hello()
        db.enqueue(1, lane="tenant", max_attempts=9)
        [claim] = db.claim(worker)
        assert db.rest() == [lane]

        let_go(worker, claim)

        assert db.awake() == [lane]
        db.age(1)
        assert [each.id for each in db.claim(db.hello())] == [claim.id]

    @pytest.mark.parametrize("ending", [released, lambda claim: failed(claim, delay=0), lambda claim: waiting(claim, delay=0)])  # noqa: E501 # fmt: skip
    def test_an_attempt_that_ends_without_an_end(self, db: Hand, ending: object) -> None:
        self.given_back(db, lambda worker, claim: db.end(worker, ending(claim)))  # type: ignore[operator]

    def test_an_executor_that_died(self, db: Hand) -> None:
        self.given_back(
            db, lambda worker, claim: db.ask(jobs.bury(worker, [Blame(claim.id, "crashed")], reason="9", error="9"))
        )

    def test_a_worker_that_fell_silent(self, db: Hand) -> None:
        def lose(worker: int, _claim: Claim) -> None:
            db.silence(worker)
            db.recover()

        self.given_back(db, lose)

    @pytest.mark.parametrize("again", [lambda job: jobs.retry([job]), jobs.restart])
    def test_a_person_who_asks_for_another_try(self, db: Hand, again: Callable[[int], object]) -> None:
        def fail(worker: int, claim: Claim) -> None:
            db.end(worker, failed(claim, again=False))
            assert db.awake() == []
            db.ask(again(claim.id))  # type: ignore[arg-type]

        self.given_back(db, fail)

    def test_a_signal(self, db: Hand) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant")
        db.enqueue(1, lane="tenant")
        [claim] = db.claim(worker)
        db.end(worker, waiting(claim))
        assert db.rest() == [lane]

        db.ask(jobs.signal(claim.id, "approved", "1"))

        assert [each.id for each in db.claim(worker)] == [claim.id]

    def test_a_batch_that_is_sealed_paused_resumed_and_tried_again(self, batches: BatchHand) -> None:
        db = batches
        worker, id = db.hello(), db.open()
        db.fill(id, 1, 2)
        db.rest()
        db.seal(id)
        claims = db.claim(worker)
        assert len(claims) == 2
        assert len(db.rest()) == 1

        db.end(worker, released(claims[0]))
        db.do(batch_actions.pause(id, reason="person"))
        assert db.claim(worker) == []
        db.rest()
        db.do(batch_actions.resume(id, epoch=None, max_resumes=None, by="person"))
        [claim] = db.claim(worker)
        db.end(worker, completed(claim))
        db.end(worker, failed(claims[1], again=False))
        assert db.value("select closed_at is not null from retoma.lanes"), "nobody looks at one that has ended"
        db.do(batch_actions.retry_failed(id, fingerprint=None, cancelled=False, attempts=None))
        assert [each.id for each in db.claim(worker)] == [claims[1].id]


class TestHandedBack:
    @pytest.mark.parametrize("ending", [released, failed, waiting])
    def test_a_job_that_is_cancelled_while_it_is_handed_back_ends(self, hand: Hands, ending: object) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        claim = one.claimed(worker)
        one.begin()
        one.end(worker, ending(claim))  # type: ignore[operator]
        asked = two.start(jobs.cancel([claim.id]))
        two.waits_for(one, asked)
        one.commit()

        assert answer(asked) == [(claim.id, "cancelled")]

    def test_verify_sees_a_due_job_in_a_lane_at_which_nobody_looks(self, batches: BatchHand) -> None:
        db = batches
        [lane] = db.lanes("tenant")
        [job] = db.enqueue(1, lane="tenant")
        assert db.breaches() == []

        db.sql("update retoma.lanes set awake = false")

        (found,) = db.breaches()
        assert found.what == f"job {job}"
        assert f"lane {lane}" in found.found


class TestAnyLane:
    def test_whether_there_is_one(self, db: Hand) -> None:
        db.enqueue(1)
        assert db.ask(queues.any_lane()) == [False]

        db.lanes("tenant")
        assert db.ask(queues.any_lane()) == [True]


class TestWakeLanes:
    def test_one_that_rests_with_a_job_is_found_whoever_put_it_there(self, db: Hand) -> None:
        one, two, three = db.lanes("one", "two", "three")
        db.enqueue(1, lane="two", delay=600.0)
        assert db.rest() == [one, two, three]
        db.sql(
            "insert into retoma.jobs (queue, lane_id, pipeline, max_attempts, timeout_seconds, input)"
            " values (%(queue)s, %(lane)s, %(pipeline)s, 3, 60, '1')",
            queue=QUEUE,
            lane=three,
            pipeline=PIPELINE,
        )

        assert db.ask(queues.wake_lanes(after=0, limit=2)) == [(two, None)]
        assert db.ask(queues.wake_lanes(after=two, limit=2)) == [(three, three)]
        assert db.ask(queues.wake_lanes(after=three, limit=2)) == [(None, None)]
        assert len(db.claim(db.hello())) == 1


class TestEmptyLanes:
    def test_one_with_jobs_of_any_state_or_a_limit_of_its_own_or_of_a_batch_stays(self, batches: BatchHand) -> None:
        db = batches
        worker = db.hello()
        db.lanes("empty", "ended", "asleep", "batch:0", "limited")
        db.lanes("narrow", at_once=2)
        db.ask(queues.limit_lane(QUEUE, "limited", at_once=None))
        db.enqueue(1, lane="ended")
        db.enqueue(1, lane="asleep", delay=600.0)
        [claim] = db.claim(worker)
        db.end(worker, failed(claim, again=False))
        db.batch(1)
        db.rest()

        removed = {
            name
            for _, id in db.ask(queues.empty_lanes(after=0, limit=100))
            for (name,) in db.sql("select name from retoma.lanes where id = %(id)s", id=id)
        }

        assert removed == {"empty", "narrow"}

    def test_one_that_claims_look_at_stays(self, db: Hand) -> None:
        db.lanes("empty")

        assert db.ask(queues.empty_lanes(after=0, limit=100)) == [(None, None)]


class TestRemoveLanes:
    def test_it_goes_with_its_places_and_comes_again_with_its_next_job(self, db: Hand) -> None:
        [lane] = db.lanes("tenant", at_once=2)
        db.rest()

        assert remove(db) == [lane]
        assert db.value("select count(*) from retoma.slots") == 0
        [again] = db.lanes("tenant", at_once=2)
        db.enqueue(3, lane="tenant")
        assert [each.lane_id for each in db.claim(db.hello())] == [again, again]

    def test_whoever_comes_while_it_is_removed_finds_that_it_is_gone(self, hand: Hands) -> None:
        one, two = hand(), hand()
        [lane] = one.lanes("tenant")
        one.rest()
        one.begin()
        one.ask(queues.empty_lanes(after=0, limit=10))
        asked = two.start(into("tenant"))  # type: ignore[arg-type]
        two.waits_for(one, asked)
        assert one.ask(queues.remove_lanes([lane])) == [lane]
        one.commit()

        assert answer(asked) == [], "and makes it again"
        assert one.value("select count(*) from retoma.jobs") == 0

    def test_one_that_was_named_anew_stays_until_its_job_is_there(self, hand: Hands) -> None:
        one, two = hand(), hand()
        [lane] = one.lanes("tenant")
        one.rest()
        one.begin()
        one.ask(queues.lanes(QUEUE, ["tenant"], at_once=None))

        assert remove(two) == []

        assert one.enqueue(1, lane="tenant")
        one.commit()
        assert [each.lane_id for each in two.claim(two.hello())] == [lane]

    def test_one_that_is_made_while_it_is_removed_is_a_new_one(self, hand: Hands) -> None:
        one, two = hand(), hand()
        [lane] = one.lanes("tenant")
        one.rest()
        one.begin()
        one.ask(queues.empty_lanes(after=0, limit=10))
        asked = two.start(queues.lanes(QUEUE, ["tenant"], at_once=3))
        two.waits_for(one, asked)
        one.ask(queues.remove_lanes([lane]))
        one.commit()

        assert [place for _, place in answer(asked)] == [1, 2, 3]

    def test_many_hands_put_jobs_into_lanes_that_come_and_go(self, hand: Hands) -> None:
        hands = [hand() for _ in range(4)]
        names = ["a", "b", "c"]

        def send(db: Hand, number: int) -> list[int]:
            sent = []
            for each in range(60):
                lane, rows = names[(each + number) % 3], []
                while not rows:
                    db.ask(queues.lanes(QUEUE, [lane], at_once=None))
                    rows = db.ask(into(lane))  # type: ignore[arg-type, var-annotated]
                sent.append(rows[0].id)
            return sent

        senders = [each.start(lambda db=each, number=number: send(db, number)) for number, each in enumerate(hands[:2])]
        keeper, worker = hands[2], hands[3].hello()
        done: set[int] = set()
        while not all(each.done() for each in senders) or len(done) < 120:
            keeper.rest()
            remove(keeper)
            claims = hands[3].claim(worker, 20)
            hands[3].end(worker, *sorted((completed(each) for each in claims), key=lambda each: each.id))
            done.update(each.id for each in claims)
            hands[3].sql("delete from retoma.jobs where state = 'completed' and id % 2 = 0")
            if all(each.done() for each in senders) and not claims:
                break

        assert done == {id for each in senders for id in answer(each)}


class TestAllSeated:
    def test_places_are_kept_empty_until_those_who_began_without_one_have_ended(self, db: Hand) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant")
        db.enqueue(9, lane="tenant")
        claims = db.claim(worker, 3)
        db.ask(queues.limit_lane(QUEUE, "tenant", at_once=4))

        assert len(db.claim(worker, 9)) == 1
        db.end(worker, *(completed(each) for each in claims[:2]))
        assert len(db.claim(worker, 9)) == 2
        assert db.ask(queues.all_seated()) == []
        db.age(61)
        assert db.ask(queues.all_seated()) == []
        db.beat(worker)
        db.end(worker, completed(claims[2]))
        assert len(db.claim(worker, 9)) == 1
        assert db.ask(queues.all_seated()) == [lane]
        assert db.value("select count(*) from retoma.jobs where state = 'running'") == 4

    def test_a_job_that_ends_while_its_lane_gets_a_limit_keeps_no_place(self, hand: Hands) -> None:
        one, two = hand(), hand()
        worker = one.hello()
        one.lanes("tenant")
        one.enqueue(2, lane="tenant")
        [claim] = one.claim(worker, 1)
        one.begin()
        one.end(worker, completed(claim))
        two.ask(queues.limit_lane(QUEUE, "tenant", at_once=1))
        one.commit()

        assert two.seats() == {}
        assert len(two.claim(worker)) == 1


class TestWeigh:
    def test_a_queue_of_weight_three_has_three_turns_for_one(self, db: Hand) -> None:
        worker, turns = db.hello(), Turns()
        for queue in ("heavy", "light"):
            db.enqueue(40, queue=queue)
        assert db.ask(queues.weigh("heavy", 3)) == ["heavy"]

        served = [db.claim(worker, 1, queues=["heavy", "light"], turns=turns)[0].queue for _ in range(40)]

        assert served.count("heavy") == 30
        assert all("light" in served[each : each + 5] for each in range(35))
        db.ask(queues.weigh("heavy", 1))
        assert {each.name: each.weight for each in db.ask(queues.all())} == {"heavy": 1, "light": 1}
