"""Quotes through kills: none is lost, and what the provider was paid for is told by the provider."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from retoma import Retoma
from retoma.bench import figures, quote_figures
from retoma.bench.machine import WorkerProcess, server_cpu, worker
from retoma.bench.program import app
from retoma.bench.quote_figures import Told
from retoma.bench.quote_market import BILL, PATIENCE, POISON, Bill, Paid
from retoma.bench.trouble import kill_whole
from retoma.model.ids import BatchId
from retoma.pipelines.quotes.extension import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import ItemList, ListedItem
from retoma.pipelines.quotes.stages import QUEUE

Figures = dict[str, Any]

PROGRAM = "retoma.bench.quote_market:app"
WORKERS, AT_ONCE = 5, 20
_POISONED = 100
"""One item in so many is poison."""
_KILL_EVERY = 100
"""Quotes between two kills, in the mean: by what was done and not by the clock, so that a slow machine has no more."""
_WHOLE = 4
"""One kill in so many takes a worker whole; the others take an executor."""
_LONGEST = 7200.0
_PATIENCE = (0.2, 2.0)


# — through kills —


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoning:
    """What the provider was paid for, held against what the ledger says."""

    paid: int
    one_pass: int
    """Requests that are different from each other: what a run without any kill pays."""
    again: int
    in_doubt: int
    """Calls of which the ledger says that nobody knows whether they were paid."""
    unexplained: int
    """Requests that were paid and are neither answered nor in doubt in the ledger: must be none."""
    answered_twice: int
    """Requests with more than one answer in the ledger: must be none."""
    seconds: float
    """How long the provider thought in one pass, all requests one after the other."""


def reckoned(lines: Sequence[Paid], ledger: Iterable[Told]) -> Reckoning:
    """The bill of the provider beside the ledger, item by item."""
    asked = Counter(each.item for each in lines)
    distinct = {each.request: each.seconds for each in lines}
    of_item = Counter(each.item for each in {(line.item, line.request): line for line in lines}.values())
    told = {each.item: each for each in ledger}
    nothing = Told("", 0, 0)
    known = {item: told.get(item, nothing) for item in asked}
    return Reckoning(
        paid=len(lines),
        one_pass=len(distinct),
        again=len(lines) - len(distinct),
        in_doubt=sum(each.doubtful for each in told.values()),
        unexplained=sum(max(0, asked[item] - known[item].answered - known[item].doubtful) for item in asked),
        answered_twice=sum(max(0, each.answered - of_item[item]) for item, each in told.items()),
        seconds=sum(distinct.values()),
    )


@dataclass(slots=True)
class Fleet:
    """Workers, each a process tree of its own, that are killed now and then and replaced when they are gone whole."""

    url: str
    environment: dict[str, str]
    stack: ExitStack
    running: list[WorkerProcess] = field(default_factory=list)
    every: list[WorkerProcess] = field(default_factory=list)
    executors: int = 0
    whole: int = 0

    def start(self) -> WorkerProcess:
        """One more worker."""
        begun = self.stack.enter_context(
            worker(self.url, at_once=AT_ONCE, program=PROGRAM, environment=self.environment)
        )
        self.every.append(begun)
        return begun

    async def fill(self, here: Retoma) -> None:
        """All workers, each of them ready."""
        self.running = [self.start() for _ in range(WORKERS)]
        async with asyncio.timeout(180):
            while len(await here.workers.all()) < WORKERS:
                await asyncio.sleep(0.1)

    async def suffer(self, here: Retoma, id: BatchId, chance: Random) -> None:
        """Kill one now and then: whoever holds a quote, by chance. At the end, when there is not work for all, nobody
        is killed: what is left by then has been in the hands of the dead before.
        """
        left = (await here.fetch(quote_figures.unended(id)))[0]
        while True:
            left -= chance.randrange(_KILL_EVERY // 2, 3 * _KILL_EVERY // 2)
            if left < WORKERS * AT_ONCE:
                return
            while (await here.fetch(quote_figures.unended(id)))[0] > left:
                await asyncio.sleep(0.5)
            if chance.randrange(_WHOLE) == 0:
                place = chance.randrange(len(self.running))
                kill_whole(self.running[place])
                self.running[place] = self.start()
                self.whole += 1
                continue
            if holders := await here.fetch(quote_figures.holders(id)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(holders), signal.SIGKILL)
                    self.executors += 1


def items_of(number: int) -> ItemList:
    """So many items, each another; one in a hundred brings down who opens a page for it."""
    poisoned = {place for place in range(number) if place % _POISONED == _POISONED // 2}
    texts = [f"{POISON if place in poisoned else 'mesa'} {place:05}" for place in range(number)]
    return ItemList(items=[ListedItem(line=place + 1, text=text) for place, text in enumerate(texts)])


@asynccontextmanager
async def _quoting() -> AsyncIterator[Quotes]:
    async with Retoma(settings=app.settings, extensions=[QUOTES]) as ready:
        for provider, model in (("bench-shops", "search"), ("bench-shops", "product"), ("bench", "analyst")):
            await ready.calls.set_price(
                provider, model, unit=Decimal("0.01"), input=Decimal("0.15"), output=Decimal("0.60")
            )
        yield Quotes(ready)


async def through_kills(number: int) -> Figures:
    """*number* quotes on five workers of twenty at once, each paid call as slow as a provider's, while executors and
    whole workers are killed; what the provider was paid for, from its own file; and how long all of it took beside the
    time that the provider thought, divided by a hundred.
    """
    with tempfile.TemporaryDirectory(prefix="retoma-bench-") as folder:
        bill = Bill(Path(folder, "bill.jsonl"))
        environment = {BILL: str(bill.file), PATIENCE: "-".join(map(str, _PATIENCE)), "RETOMA_HOME": folder}
        async with _quoting() as quotes:
            listed = items_of(number)
            id, _ = await quotes.create_batch(listed, name="bench")
            await quotes.app.queues.pause(QUEUE)
            with ExitStack() as stack:
                fleet = Fleet(quotes.app.database.url, environment, stack)
                await fleet.fill(quotes.app)
                since, cpu = await _ended(quotes, fleet, id, Random(number))  # noqa: S311 - chance, and no secret
            found = await _found(quotes, id, since, bill)
    poison = sum(1 for each in listed.items if POISON in each.text)
    return {
        "quotes": number,
        "workers": WORKERS,
        "at_once": WORKERS * AT_ONCE,
        "latency_seconds": list(_PATIENCE),
        "poison": poison,
        "executors_killed": fleet.executors,
        "workers_killed": fleet.whole,
        **found,
        "worker_cpu_ms_each": round(1000 * sum(each.cpu_seconds for each in fleet.every) / number, 1),
        **({} if cpu is None else {"server_cpu_ms_each": round(1000 * cpu / number, 1)}),
    }


async def _ended(quotes: Quotes, fleet: Fleet, id: BatchId, chance: Random) -> tuple[datetime, float | None]:
    """Let the quotes go, and wait for the last: when they began, and the server's processor seconds meanwhile."""
    async with await psycopg.AsyncConnection.connect(quotes.app.database.url) as connection:
        before = server_cpu(connection.info.backend_pid)
        since = (await quotes.app.fetch(figures.clock()))[0]
        await quotes.app.queues.resume(QUEUE)
        killing = asyncio.create_task(fleet.suffer(quotes.app, id, chance))
        try:
            async with asyncio.timeout(_LONGEST):
                while (await quotes.app.fetch(quote_figures.unended(id)))[0]:
                    if killing.done():
                        killing.result()
                    await asyncio.sleep(1.0)  # the rows say when the last one ended
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        after = server_cpu(connection.info.backend_pid)
    return since, None if before is None or after is None else after - before


async def _found(quotes: Quotes, id: BatchId, since: datetime, bill: Bill) -> Figures:
    """How the quotes ended, what they cost, and how long it took."""
    standing = await quotes.batch_status(id)
    failed = await quotes.app.fetch(quote_figures.failed(id))
    (crashed,) = await quotes.app.fetch(quote_figures.crashed(id))
    seconds = (await quotes.app.fetch(quote_figures.seconds(id, since)))[0]
    sum_up = reckoned(bill.lines(), await quotes.app.fetch(quote_figures.ledger(id)))
    ideal = sum_up.seconds / (WORKERS * AT_ONCE)
    return {
        "status": standing.status_distribution,
        "stuck": standing.total_items - standing.completed_items - standing.failed_items,
        "failed_without_poison": sum(1 for each in failed if POISON not in each),
        "crashes_of_quotes": crashed.crashes,
        "ran_alone": crashed.alone,
        "breaches": len(await quotes.app.system.verify()),
        "paid_calls": sum_up.paid,
        "one_pass": sum_up.one_pass,
        "paid_again": sum_up.again,
        "in_doubt": sum_up.in_doubt,
        "unexplained": sum_up.unexplained,
        "answered_twice": sum_up.answered_twice,
        "ideal_seconds": round(ideal, 1),
        "seconds": round(seconds, 1),
        "ratio": round(seconds / ideal, 2),
    }
