"""Everything at once: eight hands do at random whatever may be done to the store, and the tables stay sound.

``STORE_FUZZ`` says how many operations (100000 for a long look), ``STORE_FUZZ_SEED`` with which luck.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import uuid4

import psycopg
import pytest
from store_batch import BatchHand, empty
from store_hand import QUEUE, completed, failed, released, waiting

from retoma.commands import batch_actions, idle_lanes
from retoma.errors import RetomaError
from retoma.model.job import Claim
from retoma.store import batches, calls, jobs, queues
from retoma.store.calls import Intent, Settled
from retoma.store.jobs import Blame
from retoma.store.turns import Turns

OPERATIONS = int(os.environ.get("STORE_FUZZ", "2400"))
SEED = int(os.environ.get("STORE_FUZZ_SEED", "1"))
HANDS = 8
LANES = ("a", "b", "c")


@dataclass
class World:
    """What the hands know of each other's doings."""

    batches: list[int] = field(default_factory=list)
    claimed: Counter[tuple[int, int]] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Player:
    """One hand and its luck: a worker, a person and a watchdog by turns."""

    def __init__(self, db: BatchHand, world: World, luck: random.Random) -> None:
        self.db, self.world, self.luck = db, world, luck
        self.worker, self.turns = db.hello(lease=600.0), Turns()
        self.held: list[Claim] = []
        self.calls: list[int] = []

    def some_batch(self) -> int:
        with self.world.lock:
            return self.luck.choice(self.world.batches) if self.world.batches else 0

    def some_job(self) -> int:
        rows = self.db.sql("select coalesce(max(id), 0) from retoma.jobs")
        return self.luck.randint(max(1, rows[0][0] - 300), max(1, rows[0][0]))

    def mine(self) -> list[Claim]:
        some = self.luck.sample(self.held, min(len(self.held), self.luck.randint(1, 4)))
        self.held = [each for each in self.held if each not in some]
        return sorted(some, key=lambda each: each.id)

    def new_life(self) -> None:
        self.worker, self.held = self.db.hello(lease=600.0), []

    # — what may be done —

    def claim(self, *, suspects: bool = False) -> None:
        rows = self.db.claim(self.worker, self.luck.randint(1, 6), turns=self.turns, suspects=suspects)
        self.took(rows)

    def claim_alone(self) -> None:
        self.claim(suspects=True)

    def follow(self) -> None:
        rows = self.db.ask(jobs.follow(self.worker, limit=4, token=uuid4(), turns=self.turns))
        self.took(self.turns.followed(rows))

    def took(self, rows: list[Claim]) -> None:
        self.held += rows
        with self.world.lock:
            self.world.claimed.update((each.id, each.fence) for each in rows)

    def enqueue(self) -> None:
        delay = self.luck.choice((0.0, 0.0, 0.01))
        self.db.enqueue(self.luck.randint(1, 4), delay=delay, expires=self.luck.choice((None, 0.05)), max_attempts=6)

    def enqueue_into_lane(self) -> None:
        lane = self.luck.choice(LANES)
        self.db.ask(queues.lanes(QUEUE, [lane], at_once=None))
        self.db.enqueue(self.luck.randint(1, 3), lane=lane, delay=self.luck.choice((0.0, 0.01)), max_attempts=6)

    def complete(self) -> None:
        self.db.end(self.worker, *(completed(each) for each in self.mine()))

    def end_badly(self) -> None:
        ways = (
            lambda each: failed(each, delay=self.luck.choice((0, 0.01))),
            lambda each: failed(each, again=False),
            released,
            lambda each: waiting(each, delay=self.luck.choice((0, 0.01))),
        )
        self.db.end(self.worker, *(self.luck.choice(ways)(each) for each in self.mine()))

    def save(self) -> None:
        for each in self.held[:2]:
            self.db.save(self.worker, each, f"step {self.luck.getrandbits(40)}")  # a run saves a step once

    def bury(self) -> None:
        blamed = [Blame(each.id, self.luck.choice(("crashed", "timeout"))) for each in self.mine()]
        self.db.ask(jobs.bury(self.worker, blamed, reason="signal 9", error="killed"))
        self.new_life()

    def fall_silent(self) -> None:
        self.db.silence(self.worker)
        self.new_life()

    def recover(self) -> None:
        self.db.recover()

    def cancel(self) -> None:
        self.db.ask(jobs.cancel([self.some_job() for _ in range(3)]))

    def retry(self) -> None:
        self.db.ask(jobs.retry([self.some_job() for _ in range(3)]))

    def restart(self) -> None:
        self.db.ask(jobs.restart(self.some_job()))

    def signal(self) -> None:
        self.db.ask(jobs.signal(self.some_job(), self.luck.choice("pq"), "1"))

    def expire(self) -> None:
        self.db.ask(jobs.expire())

    def overdue(self) -> None:
        self.db.ask(jobs.overdue(3600.0))

    def prune(self) -> None:
        self.db.ask(jobs.prune(5.0, limit=5))

    def prune_batches(self) -> None:
        self.db.ask(batches.end_waiting(5.0, limit=5))
        self.db.ask(batches.retire(5.0))
        self.db.ask(batches.prune(limit=5))

    def limit_lane(self) -> None:
        self.db.ask(queues.limit_lane(QUEUE, self.luck.choice(LANES), at_once=self.luck.choice((None, 1, 3))))

    def mend(self) -> None:
        self.db.ask(queues.mend_slots())
        self.db.ask(queues.all_seated())

    def rest(self) -> None:
        self.db.do(self.luck.choice((idle_lanes.rest, idle_lanes.wake, idle_lanes.remove))(0))

    def open(self) -> None:
        id = self.db.open(max_failure_rate=self.luck.choice((None, 0.5)), budget=self.luck.choice((None, "1")))
        with self.world.lock:
            self.world.batches.append(id)
        self.fill(id)

    def fill(self, id: int = 0) -> None:
        self.db.fill(id or self.some_batch(), *(self.luck.randrange(40) for _ in range(4)))

    def seal(self) -> None:
        self.db.seal(self.some_batch())

    def pause(self) -> None:
        self.db.pause(self.some_batch())

    def resume(self) -> None:
        self.db.resume(self.some_batch(), max_resumes=1000)

    def cancel_batch(self) -> None:
        self.db.cancel(self.some_batch())

    def retry_failed(self) -> None:
        self.db.retry_failed(self.some_batch(), cancelled=self.luck.random() < 0.5)

    def restart_batch(self) -> None:
        self.db.restart(self.some_batch())

    def change(self) -> None:
        self.db.do(batch_actions.change(self.some_batch(), {"stall_seconds": self.luck.choice((60.0, 600.0))}))

    def look_after(self) -> None:
        self.db.look_after()

    def ask_provider(self) -> None:
        claim = self.luck.choice(self.held) if self.held else None
        keys = self.luck.sample(range(30), self.luck.randrange(1, 4))
        intents = [
            Intent(
                key=f"key {key}", provider="p", model="m", job_id=claim.id if claim else None,
                fence=claim.fence if claim else None, step=f"x/{key}", kind="first", request="{}",
                reserved=Decimal("0.01"), reuse=self.luck.random() < 0.5, patience=60.0,
            )
            for key in keys
        ]  # fmt: skip
        found = self.db.ask(calls.open(intents, tenant="", worker_id=self.worker if claim else None))
        self.calls += [each.opened for _, each in found if each.opened is not None]

    def settle(self) -> None:
        if not self.calls:
            return
        some = sorted({self.calls.pop() for _ in range(self.luck.randrange(1, 1 + min(3, len(self.calls))))})
        cost = self.luck.choice((Decimal("0.005"), None))
        settled = [
            Settled(
                id=id, answer="{}", text="t", finish=None, request_id=None, cost=cost, input_tokens=1, output_tokens=1,
                cached_tokens=0, units=0, cost_basis="own" if cost else "unpriced",
            )
            for id in some
        ]  # fmt: skip
        match self.luck.randrange(4):
            case 0:
                self.db.ask(calls.answer(settled))
            case 1:
                self.db.ask(calls.answer(settled))
                self.db.ask(calls.unfit(some))
            case 2:
                for id in some:
                    self.db.ask(calls.fail(id, paid=False, status=500, error="it broke"))
            case _:
                for id in some:
                    self.db.ask(calls.withdraw(id))

    def reprice(self) -> None:
        found = self.db.ask(calls.unpriced(after=0, limit=3))
        if found:
            self.db.ask(calls.reprice([(each.id, Decimal("0.001"), "own") for each in found]))

    def abandon(self) -> None:
        self.db.ask(calls.abandon())


# How often each is chosen. Whoever adds a statement adds a line.
TABLE: dict[Callable[[Player], None], int] = {
    Player.claim: 30, Player.claim_alone: 3, Player.follow: 8, Player.enqueue: 6, Player.enqueue_into_lane: 6,
    Player.complete: 16, Player.end_badly: 10, Player.save: 6, Player.bury: 2, Player.fall_silent: 1,
    Player.recover: 3, Player.cancel: 4, Player.retry: 4, Player.restart: 2, Player.signal: 4, Player.expire: 2,
    Player.overdue: 1, Player.prune: 2, Player.prune_batches: 1, Player.limit_lane: 2, Player.mend: 1,
    Player.rest: 8, Player.open: 4, Player.fill: 3, Player.seal: 8, Player.pause: 3, Player.resume: 5,
    Player.cancel_batch: 1, Player.retry_failed: 3, Player.restart_batch: 1, Player.change: 1,
    Player.look_after: 1, Player.ask_provider: 6, Player.settle: 6, Player.reprice: 1, Player.abandon: 1,
}  # fmt: skip


def play(player: Player, number: int, wrong: list[str]) -> None:
    for _ in range(number):
        [operation] = player.luck.choices([*TABLE], [*TABLE.values()])
        try:
            operation(player)
        except RetomaError:
            pass  # it was told why this cannot be done now
        except psycopg.Error as error:
            wrong.append(f"{operation.__name__}: {type(error).__name__}: {error}")
            if player.db.connection.info.transaction_status:
                player.db.rollback()


@pytest.fixture
def players(room: str) -> Iterator[list[Player]]:
    empty(room)
    world, made = World(), [BatchHand(room, hot=each % 2 == 0) for each in range(HANDS)]
    for each in made:
        each.sql("set deadlock_timeout = '100ms'")
    yield [Player(each, world, random.Random(SEED * 1000 + number)) for number, each in enumerate(made)]
    for each in made:
        each.close()
    empty(room)


def test_whatever_is_done_at_once_the_tables_stay_sound(players: list[Player]) -> None:
    wrong: list[str] = []

    doing = [each.db.start(lambda each=each: play(each, OPERATIONS // HANDS, wrong)) for each in players]
    for each in doing:
        each.result(timeout=3600)

    db = players[0].db
    assert Counter(wrong) == {}, f"seed {SEED}"
    assert players[0].world.claimed.most_common(1)[0][1] == 1, "nobody took the same job at the same fence twice"
    for each in players:
        db.silence(each.worker)
    while db.recover():
        pass
    assert db.breaches() == [], f"seed {SEED}"
    everything_that_waits_is_served(db)
    assert db.breaches() == [], f"seed {SEED}"


def everything_that_waits_is_served(db: BatchHand) -> None:
    db.age(60)
    db.ask(jobs.expire())
    worker, turns = db.hello(lease=1e6), Turns()
    while True:
        claims = db.claim(worker, 50, turns=turns) or db.claim(worker, 50, turns=turns, suspects=True)
        if not claims and not turns.cut:
            break
        db.end(worker, *(completed(each) for each in sorted(claims, key=lambda each: each.id)))
    left = db.sql(
        "select job.id from retoma.jobs as job left join retoma.lanes as lane on lane.id = job.lane_id"
        " where job.state = 'queued' and job.run_at <= now() and lane.closed_at is null"
    )
    assert left == []
