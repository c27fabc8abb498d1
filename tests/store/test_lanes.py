"""How lanes share a claim: turns, limits, and the walk that reaches every lane in the end."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from store_hand import QUEUE, Hand, completed, failed, order_of, released

from retoma.model.job import Claim
from retoma.store import jobs, queues
from retoma.store.jobs import Blame
from retoma.store.turns import Turns

LANES_OF_ONE_WALK = 64


def enqueue_into(db: Hand, lanes: list[str], **order: object) -> list[int]:
    """One job in each of these lanes."""
    numbers = [str(each) for each in range(len(lanes))]
    asked = jobs.enqueue(order_of(**order), numbers, [None] * len(lanes), lanes, notify=False)
    return [each.id for each in db.ask(asked)]


def running_in(db: Hand, lane: int) -> int:
    return int(db.value(f"select count(*) from retoma.jobs where state = 'running' and lane_id = {lane}"))


class TestTurns:
    def test_a_small_batch_does_not_wait_behind_a_large_one(self, db: Hand) -> None:
        large, small = db.lanes("large", "small")
        db.enqueue(2000, lane="large")
        db.enqueue(3, lane="small")

        claims = db.claim(db.hello(), 6)

        assert Counter(each.lane_id for each in claims) == {large: 3, small: 3}

    def test_lanes_are_served_in_turn_within_one_claim(self, db: Hand) -> None:
        one, two, three = db.lanes("one", "two", "three")
        for lane in ("one", "two", "three"):
            db.enqueue(4, lane=lane)

        claims = db.claim(db.hello(), 6)

        assert [each.lane_id for each in claims] == [one, two, three, one, two, three]

    def test_the_next_claim_begins_behind_the_lane_served_last(self, db: Hand) -> None:
        worker = db.hello()
        lanes = db.lanes("one", "two", "three")
        for lane in ("one", "two", "three"):
            db.enqueue(4, lane=lane)

        turns, served = Turns(), []
        for _ in range(6):
            [claim] = db.claim(worker, 1, turns=turns)
            served.append(claim.lane_id)

        assert served == lanes + lanes

    def test_a_priority_goes_before_a_turn(self, db: Hand) -> None:
        db.lanes("one", "two")
        db.enqueue(3, lane="one")
        urgent = db.enqueue(3, lane="two", priority=-1)

        assert [each.id for each in db.claim(db.hello(), 3)] == urgent

    def test_a_lane_alone_gets_everything(self, db: Hand) -> None:
        db.lanes("one")
        ids = db.enqueue(20, lane="one")

        assert [each.id for each in db.claim(db.hello(), 15)] == ids[:15]

    def test_jobs_without_a_lane_take_turns_with_the_others(self, db: Hand) -> None:
        [lane] = db.lanes("one")
        db.enqueue(5)
        db.enqueue(5, lane="one")

        assert Counter(each.lane_id for each in db.claim(db.hello(), 4)) == {0: 2, lane: 2}

    def test_nothing_leaves_a_closed_lane_and_the_others_go_on(self, db: Hand) -> None:
        worker = db.hello()
        db.lanes("open", "closed")
        [theirs] = db.enqueue(1, lane="closed")
        [mine] = db.enqueue(1, lane="open")
        db.sql("update retoma.lanes set closed_at = now() where name = 'closed'")

        assert [each.id for each in db.claim(worker)] == [mine]

        db.sql("update retoma.lanes set closed_at = null")
        assert [each.id for each in db.claim(worker)] == [theirs]


class TestLimits:
    @pytest.mark.parametrize("at_once", [1, 2, 5])
    def test_no_more_run_than_the_lane_allows(self, db: Hand, at_once: int) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant", at_once=at_once)
        ids = db.enqueue(8, lane="tenant")

        claims = db.claim(worker, 20)

        assert [each.id for each in claims] == ids[:at_once]
        assert db.seats() == dict.fromkeys(ids[:at_once], lane)
        assert not db.claim(worker, 20)
        assert not db.claim(db.hello(), 20)

    def test_every_way_to_let_go_of_a_job_frees_its_place(self, db: Hand) -> None:
        db.lanes("tenant", at_once=1)
        db.enqueue(1, lane="tenant", max_attempts=20)

        def once_more(*, suspects: bool = False) -> tuple[int, Claim]:
            worker = db.hello()
            [claim] = db.claim(worker, suspects=suspects)
            assert list(db.seats()) == [claim.id]
            return worker, claim

        for ending in (released, failed):
            worker, claim = once_more()
            db.end(worker, ending(claim))
            assert db.seats() == {}
            db.age(60)
        worker, claim = once_more()
        db.silence(worker)
        db.recover()
        assert db.seats() == {}
        worker, claim = once_more()
        db.ask(jobs.bury(worker, [Blame(claim.id, "crashed")], reason="signal 9", error="killed"))
        assert db.seats() == {}
        worker, claim = once_more(suspects=True)
        db.end(worker, completed(claim))
        assert db.seats() == {}

    def test_a_full_lane_does_not_hold_up_the_others(self, db: Hand) -> None:
        worker = db.hello()
        db.lanes("full", at_once=1)
        db.lanes("free")
        db.enqueue(5, lane="full")
        db.claim(worker, 1)
        ids = db.enqueue(3, lane="free")

        assert [each.id for each in db.claim(worker, 3)] == ids

    def test_several_limited_lanes_each_fill_their_own_places(self, db: Hand) -> None:
        lanes = db.lanes("a", "b", "c", at_once=2)
        for lane in "abc":
            db.enqueue(4, lane=lane)

        claims = db.claim(db.hello(), 12)

        assert Counter(each.lane_id for each in claims) == dict.fromkeys(lanes, 2)
        assert len(db.seats()) == 6

    def test_a_claim_smaller_than_the_lane_takes_only_as_many_places(self, db: Hand) -> None:
        db.lanes("tenant", at_once=5)
        ids = db.enqueue(5, lane="tenant")

        db.claim(db.hello(), 2)

        assert sorted(db.seats()) == ids[:2]

    def test_a_queue_named_twice_does_not_double_the_limit(self, db: Hand) -> None:
        [lane] = db.lanes("tenant", at_once=1)
        db.enqueue(4, lane="tenant")

        db.claim(db.hello(), 4, queues=[QUEUE, QUEUE])

        assert running_in(db, lane) == 1


class TestWalk:
    def test_a_ready_lane_behind_a_hundred_that_are_not_is_reached(self, db: Hand) -> None:
        worker = db.hello()
        names = [f"lane {each:03}" for each in range(101)]
        db.lanes(*names)
        enqueue_into(db, names[:100], delay=3600.0)
        [ready] = enqueue_into(db, names[100:])

        turns, rounds, claims = Turns(), 0, []
        while not claims and rounds < 10:
            claims = db.claim(worker, 10, turns=turns)
            rounds += 1

        assert [each.id for each in claims] == [ready]

    @pytest.mark.parametrize("ready", [0, 40, 63, 64, 99, 100, 140, 199])
    def test_wherever_the_walk_begins_every_lane_is_reached(self, db: Hand, ready: int) -> None:
        worker = db.hello()
        names = [f"lane {each:03}" for each in range(200)]
        lanes = db.lanes(*names)
        enqueue_into(db, names[:ready] + names[ready + 1 :], delay=3600.0)
        [id] = enqueue_into(db, [names[ready]])

        for begin in (0, lanes[0], lanes[ready], lanes[150], lanes[199], lanes[199] + 1000):
            turns, rounds, claims = Turns({QUEUE: begin}), 0, []
            while not claims and rounds < 20:
                claims = db.claim(worker, 3, turns=turns)
                rounds += 1
            assert [each.id for each in claims] == [id]
            db.end(worker, released(claims[0]))

    @pytest.mark.parametrize("where", ["first", "second"])
    def test_a_worker_of_two_queues_reaches_the_ready_lane_of_either(self, db: Hand, where: str) -> None:
        worker = db.hello()
        names = [f"lane {each:03}" for each in range(100)]
        for queue in ("first", "second"):
            db.lanes(*names, queue=queue)
            late = [each for each in names if not (queue == where and each == names[60])]
            enqueue_into(db, late, queue=queue, delay=3600.0)
        [ready] = enqueue_into(db, [names[60]], queue=where)

        turns, rounds, claims = Turns(), 0, []
        while not claims and rounds < 100:
            claims = db.claim(worker, 10, queues=["first", "second"], turns=turns)
            rounds += 1

        assert [each.id for each in claims] == [ready]

    @pytest.mark.parametrize("limit", [1, 10])
    def test_a_lane_that_is_always_ready_does_not_keep_the_walk_from_a_far_one(self, db: Hand, limit: int) -> None:
        worker = db.hello()
        names = [f"lane {each:03}" for each in range(101)]
        db.lanes(*names)
        enqueue_into(db, names[1:100], delay=3600.0)
        [far] = enqueue_into(db, names[100:])

        turns, taken = Turns(), []
        for _ in range(50):
            enqueue_into(db, names[:1])  # the lane that never runs dry
            claims = db.claim(worker, limit, turns=turns)
            taken += [each.id for each in claims]

        assert far in taken

    @pytest.mark.parametrize("limit", [1, 2, 5, 20])
    def test_lanes_that_never_run_dry_do_not_keep_the_walk_from_a_far_one(self, db: Hand, limit: int) -> None:
        worker = db.hello()
        names = [f"lane {each:03}" for each in range(101)]
        db.lanes(*names)
        enqueue_into(db, names[5:100], delay=3600.0)
        [far] = enqueue_into(db, names[100:])

        turns, taken = Turns(), []
        for _ in range(50):
            enqueue_into(db, names[:5])
            claims = db.claim(worker, limit, turns=turns)
            taken += [each.id for each in claims]

        assert far in taken

    @pytest.mark.parametrize("limit", [1, 10, 50])
    @pytest.mark.parametrize("number", [10, 70, 200])
    def test_of_many_lanes_that_are_all_ready_each_is_served(self, db: Hand, number: int, limit: int) -> None:
        worker = db.hello()
        names = [f"lane {each:03}" for each in range(number)]
        lanes = db.lanes(*names)
        for _ in range(20):
            enqueue_into(db, names)

        turns, served = Turns(), Counter[int]()
        while served.total() < number * 4:
            claims = db.claim(worker, limit, turns=turns)
            served.update(each.lane_id for each in claims)

        assert {lane: served[lane] for lane in lanes} == pytest.approx(
            dict.fromkeys(lanes, 4), abs=4 if limit > 10 else 2
        )

    def test_full_lanes_do_not_hide_the_one_behind_them(self, db: Hand) -> None:
        worker = db.hello()
        names = [f"lane {each:03}" for each in range(LANES_OF_ONE_WALK + 5)]
        db.lanes(*names, at_once=1)
        last = names.pop()
        enqueue_into(db, names)
        turns = Turns()
        while db.claim(worker, 100, turns=turns) or turns.cut:
            pass
        enqueue_into(db, names)
        [ready] = enqueue_into(db, [last])

        turns, rounds, claims = Turns(), 0, []
        while not claims and rounds < 10:
            claims = db.claim(worker, 10, turns=turns)
            rounds += 1

        assert [each.id for each in claims] == [ready]


SWITCHES = ("nestloop", "hashjoin", "mergejoin", "indexscan", "seqscan", "sort", "material", "memoize")
# Each switch alone, each pair of the joins, and what a worker's own connection has.
PLANS = [
    (),
    *((each,) for each in SWITCHES),
    *((one, two) for one, two in product(SWITCHES[:3], SWITCHES[:5]) if one < two),
    ("seqscan", "hashjoin", "mergejoin", "bitmapscan"),
    ("indexscan", "indexonlyscan", "bitmapscan", "nestloop"),
    ("nestloop", "mergejoin", "indexscan", "bitmapscan", "sort"),
    ("nestloop", "hashjoin", "indexscan", "bitmapscan"),
]


class TestPlans:
    @pytest.mark.parametrize("off", PLANS, ids=lambda off: "+".join(off) or "as it is")
    @pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
    def test_no_plan_takes_more_than_the_limit(self, db: Hand, off: tuple[str, ...], generic: bool) -> None:
        worker = db.hello()
        one, two = db.lanes("one", "two", at_once=3)
        for lane in ("one", "two", None):
            db.enqueue(30, lane=lane)
        for switch in (*SWITCHES, "bitmapscan", "indexonlyscan"):
            db.sql(f"set enable_{switch} = {'off' if switch in off else 'on'}")
        db.sql(f"set plan_cache_mode = force_{'generic' if generic else 'custom'}_plan")
        if generic:
            db.sql("analyze retoma.jobs, retoma.slots, retoma.lanes, retoma.workers")

        for limit in (1, 4, 7):
            before = int(db.value("select count(*) from retoma.jobs where state = 'running'"))
            claims = db.claim(worker, limit)
            running = int(db.value("select count(*) from retoma.jobs where state = 'running'")) - before
            assert len(claims) == running <= limit
            assert len({each.id for each in claims}) == len(claims)

        for lane in (one, two):
            assert running_in(db, lane) == Counter(db.seats().values())[lane] <= 3

    @pytest.mark.parametrize("off", PLANS[:9], ids=lambda off: "+".join(off) or "as it is")
    def test_every_plan_ends_and_recovers_the_same_jobs(self, db: Hand, off: tuple[str, ...]) -> None:
        worker, other = db.hello(), db.hello()
        db.lanes("one", at_once=4)
        db.enqueue(10, lane="one")
        db.enqueue(10)
        for switch in SWITCHES:
            db.sql(f"set enable_{switch} = {'off' if switch in off else 'on'}")
        mine, theirs = db.claim(worker, 6), db.claim(other, 6)
        db.silence(other)

        assert sorted(id for id, _ in db.end(worker, *(completed(each) for each in mine))) == sorted(
            each.id for each in mine
        )
        assert [each.id for each in db.recover()] == sorted(each.id for each in theirs)
        assert db.seats() == {}


class TestChangedLimits:
    """A limit that changes while jobs run: nobody is stopped, and nobody new begins above it."""

    def test_a_lower_limit_lets_nobody_begin_until_enough_have_ended(self, db: Hand) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant", at_once=3)
        db.enqueue(10, lane="tenant")
        first, *rest = db.claim(worker, 3)
        db.end(worker, completed(first))  # the lowest place is free, two are taken

        db.ask(queues.limit_lane(QUEUE, "tenant", at_once=1))

        assert not db.claim(worker)
        db.end(worker, completed(rest[0]))
        assert not db.claim(worker)
        db.end(worker, completed(rest[1]))
        assert len(db.claim(worker)) == 1
        assert running_in(db, lane) == 1

    def test_a_limit_that_was_lowered_and_raised_counts_those_who_run(self, db: Hand) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant", at_once=3)
        db.enqueue(10, lane="tenant")
        db.claim(worker, 10)

        db.ask(queues.limit_lane(QUEUE, "tenant", at_once=1))
        db.ask(queues.limit_lane(QUEUE, "tenant", at_once=3))
        db.claim(worker, 10)

        assert running_in(db, lane) <= 3

    def test_a_limit_on_a_lane_that_had_none_counts_those_who_run(self, db: Hand) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant")
        db.enqueue(10, lane="tenant")
        db.claim(worker, 2)

        db.ask(queues.limit_lane(QUEUE, "tenant", at_once=3))
        db.claim(worker, 10)

        assert running_in(db, lane) <= 3

    def test_a_higher_limit_gives_more_places(self, db: Hand) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant", at_once=1)
        db.enqueue(10, lane="tenant")
        db.claim(worker, 10)

        db.ask(queues.limit_lane(QUEUE, "tenant", at_once=4))
        db.claim(worker, 10)

        assert running_in(db, lane) == 4

    def test_a_limit_that_is_lifted_lets_everybody_in(self, db: Hand) -> None:
        worker = db.hello()
        [lane] = db.lanes("tenant", at_once=1)
        db.enqueue(10, lane="tenant")
        db.claim(worker, 10)

        db.ask(queues.limit_lane(QUEUE, "tenant", at_once=None))
        db.claim(worker, 20)

        assert running_in(db, lane) == 10


class TestQueues:
    """Queues of one worker take turns, and what waits longest is not passed over for ever."""

    def test_a_queue_that_never_runs_dry_does_not_keep_an_older_job_waiting(self, db: Hand) -> None:
        worker, turns = db.hello(), Turns()
        db.enqueue(3, queue="mapper")
        [older] = db.enqueue(1, queue="pure")

        begun: list[int] = []
        while older not in begun:
            db.enqueue(2, queue="mapper")
            begun += [each.id for each in db.claim(worker, 1, queues=["mapper", "pure"], turns=turns)]

        assert len(begun) <= 2

    @pytest.mark.parametrize("limit", [1, 2, 10])
    def test_eight_queues_have_as_many_turns_each(self, db: Hand, limit: int) -> None:
        worker, turns = db.hello(), Turns()
        names = [f"queue {each}" for each in range(8)]
        for queue in names:
            db.enqueue(30, queue=queue)

        served: list[str] = []
        while len(served) < 160:
            served += [each.queue for each in db.claim(worker, limit, queues=names, turns=turns)]

        for begin in range(0, 152, 8):
            counted = Counter(served[begin : begin + 8])
            assert max(counted.values()) <= (1 if limit < 10 else 3), counted

    def test_one_that_was_empty_does_not_get_its_missed_turns_back(self, db: Hand) -> None:
        worker, turns = db.hello(), Turns()
        db.enqueue(60, queue="busy")
        for _ in range(40):
            db.claim(worker, 1, queues=["busy", "late"], turns=turns)
        db.enqueue(20, queue="late")

        served = [db.claim(worker, 1, queues=["busy", "late"], turns=turns)[0].queue for _ in range(10)]

        assert Counter(served) == {"busy": 5, "late": 5}

    def test_a_recovered_job_is_the_next_of_its_queue(self, db: Hand) -> None:
        worker, turns, queues_ = db.hello(), Turns(), ["a", "b", "c"]
        [lost] = db.enqueue(1, queue="c")
        gone = db.hello()
        db.claim(gone, 1, queues=["c"])
        for queue in queues_:
            db.enqueue(20, queue=queue)
        db.silence(gone)
        db.recover()

        begun = [each.id for _ in range(3) for each in db.claim(worker, 1, queues=queues_, turns=turns)]

        assert lost in begun

    def test_a_busy_queue_gets_all_there_is_while_the_others_are_empty(self, db: Hand) -> None:
        ids = db.enqueue(20, queue="queue 3")

        claims = db.claim(db.hello(), 20, queues=[f"queue {each}" for each in range(8)])

        assert [each.id for each in claims] == ids
