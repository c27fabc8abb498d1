"""The watchdog: periodic duties for the whole fleet. Every worker checks what is due, and one of them does it."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from retoma.commands import idle_lanes, maintenance, operation_runner
from retoma.commands import schedules as schedule_commands
from retoma.commands import webhooks as webhook_rules
from retoma.postgres.connections import run_on
from retoma.postgres.database import Database
from retoma.postgres.faults import UNAVAILABLE, Outages, jitter
from retoma.store import batches, calls, duties, jobs, limits, queues, webhooks, workers
from retoma.store.duties import Due
from retoma.store.query import Command, Query
from retoma.system.concurrency import cancel_and_wait
from retoma.system.process_identity import has_ended, is_near
from retoma.telemetry import emit
from retoma.telemetry.events import (
    DutyDone,
    JobsExpired,
    ScheduleFired,
    WorkerGone,
)
from retoma.worker import alerting

T = TypeVar("T")

_LOOK_SECONDS = 1.0
_LOOKS_A_SECOND = 5  # checks by the whole fleet: the larger the fleet, the less often each worker checks
_LONGEST_LOOK = 10.0  # seconds between two checks, at most
_MEND_SECONDS = 60.0
_WEBHOOK_SECONDS = 2.0
_SOON = 0.1
_PAGES = 20  # pages of lanes that one round searches for idle lanes
_AT_A_TIME = 20  # workers whose jobs one statement recovers


class Asks(Protocol):
    """Anything that runs a query."""

    async def all(self, query: Query[T]) -> list[T]: ...


class Watchdog:
    """Checks what is due, and does it. It needs only a database, and any number of watchdogs may run at once.

    *line* is a connection for the checks themselves, so that an idle watchdog needs no pool. *recovered* is called with
    the number of jobs that a sweep recovered.
    """

    def __init__(
        self,
        database: Callable[[], Database],
        *,
        line: Asks | None = None,
        recovered: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._line = line
        self._tell_recovered = recovered
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._duties: dict[str, Callable[[], Awaitable[None]]] = {
            "look_after": self.look_after,
            "mend": self.mend,
            "rest_lanes": self.rest_lanes,
            "webhooks": self.hurry_webhooks,
            "judge_alerts": self.judge_alerts,
            "send_alerts": self.send_alerts,
        }
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._failed_at: dict[str, float] = {}
        self._pages = dict.fromkeys((idle_lanes.wake, idle_lanes.remove), 0)

    # — scheduling —

    async def go_on(self, seconds: float, until: asyncio.Event) -> None:
        """Do all duties, *seconds* apart, until *until* is set."""
        looking = asyncio.create_task(self.keep_looking(sweep=seconds, rounds=dict.fromkeys(self._duties, seconds)))
        await until.wait()
        await cancel_and_wait(looking)

    async def keep_looking(self, *, sweep: float | None = None, rounds: dict[str, float] | None = None) -> None:
        """Check what is due and start it, forever. An unreachable database does not end the loop."""
        settings = self._database().settings
        sweep_seconds = settings.sweep_seconds if sweep is None else sweep
        rounds = rounds or {
            "look_after": settings.watchdog_seconds,
            "mend": _MEND_SECONDS,
            "rest_lanes": settings.sweep_seconds,
            "webhooks": min(_WEBHOOK_SECONDS, settings.sweep_seconds),
            "judge_alerts": settings.watchdog_seconds,
            "send_alerts": settings.sweep_seconds,
        }
        if not alerting.channels_of(settings):  # then another process sends, if any has a channel
            rounds = {name: each for name, each in rounds.items() if name != "send_alerts"}
        usual = min(_LOOK_SECONDS, sweep_seconds, settings.lease_seconds / 8)

        async def look() -> float:
            return _rest(await self._look(sweep_seconds, rounds), usual)

        try:
            await every(usual, look, self._database().outages)
        finally:
            await cancel_and_wait(*self._under_way.values())

    async def _look(self, every: float, rounds: dict[str, float]) -> Due:
        now = asyncio.get_running_loop().time()
        # A duty that failed here is left to other workers for one interval.
        mine = {name: each for name, each in rounds.items() if now - self._failed_at.get(name, -each) >= each}
        ask = self._line or self._database()
        (due,) = await ask.all(duties.look(mine, every=every, taken_by=self._name))
        # Use the connection that made the check: only a session opened before can tell a dead worker
        # from a restarted server.
        gone = due.missing and await self._give_up(ask)
        if due.sweep or gone:
            self._begin("sweep", self.sweep)
        if due.fire:
            self._begin("fire", self.fire)
        for name in due.rounds:
            self._begin(name, self._duties[name])
        return due

    def _begin(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        """Start the duty as a task beside the checks, unless it is already running."""
        if name not in self._under_way:
            doing = asyncio.create_task(self._do(name, duty))
            self._under_way[name] = doing
            doing.add_done_callback(lambda _: self._under_way.pop(name))

    async def _do(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        began = time.monotonic()
        try:
            await duty()
            emit(DutyDone(duty=name, done=True, duration_ms=(time.monotonic() - began) * 1000))
        except Exception as error:  # noqa: BLE001 - the next round may succeed, here or on another worker
            emit(DutyDone(duty=name, done=False, duration_ms=(time.monotonic() - began) * 1000))
            if isinstance(error, UNAVAILABLE):
                self._database().outages.tell(name, error)
            else:
                _tell_failure(name, error)
            if name in self._duties:
                self._failed_at[name] = asyncio.get_running_loop().time()
                try:
                    await self._database().all(duties.leave(name, taken_by=self._name))
                except Exception as again:  # noqa: BLE001 - then it is due at its next interval
                    self._database().outages.tell(name, again)

    # — duties —

    async def sweep(self) -> None:
        """Recover the jobs of dead or silent workers, and end jobs that have waited past their deadline."""
        if expired := await self._database().all(jobs.expire()):
            emit(JobsExpired(jobs=len(expired)))
        await self._give_up(self._database())
        while True:
            recovered = await self._database().all(jobs.recover(limit=_AT_A_TIME, taken_by=self._name))
            self._tell_recovered(len(recovered))
            maintenance.tell_recovered(recovered)
            if len({each.worker_id for each in recovered}) < _AT_A_TIME:
                break
        await self._database().all(calls.abandon())

    async def _give_up(self, ask: Asks) -> bool:
        """Give up workers without any open session: those whose process has ended, and those on other
        machines that have been missing for long enough. A process that still exists, frozen or cut off, keeps
        its jobs until its lease ends.
        """
        found = await ask.all(workers.missing())
        ended = [each for each in found if has_ended(each.where) or (each.gone and not is_near(each.where))]
        given_up = await ask.all(workers.give_up(ended)) if ended else []
        for id in given_up:
            emit(WorkerGone(worker=id))
        return bool(given_up)

    async def look_after(self) -> None:
        """Diagnose batches that do not progress, and report those that are stalled."""
        async with self._database().transaction() as connection:
            did = await run_on(connection, maintenance.tidy())
        await operation_runner.carry_on(self._database())
        # One transaction per batch, so that the expensive reads hold no lock across batches.
        for id in await self._database().all(batches.silent()):
            async with self._database().transaction() as connection:
                await run_on(connection, maintenance.look_at(id, did, round=self._database().settings.watchdog_seconds))
        maintenance.tell_round(did)

    async def fire(self) -> None:
        """Enqueue the jobs of schedules that are due."""
        async with self._database().connection() as connection:
            fired = await run_on(connection, schedule_commands.fire())
        for name, job in fired:
            emit(ScheduleFired(schedule=name, job=job))

    async def mend(self) -> None:
        """Free the slots of lanes whose job no longer runs, and the slots of limits whose executor is gone."""
        await self._database().all(queues.mend_slots())
        await self._database().all(limits.mend())
        await self._database().all(queues.all_seated())

    async def rest_lanes(self) -> None:
        """Take idle lanes out of the claim scan, and check one page of the lanes that rest."""
        if not (await (self._line or self._database()).all(queues.any_lane()))[0]:
            return
        after, pages = 0, 0
        while pages < _PAGES and (after or not pages):
            after, pages = await self._in_one(idle_lanes.rest(after)), pages + 1
        for look, place in self._pages.items():
            self._pages[look] = await self._in_one(look(place))

    async def hurry_webhooks(self) -> None:
        """Write the messages about lost workers, and queue the job that delivers webhooks, when one is due."""
        # On the line: where nobody is told anything, this round must not keep one more connection of each worker open.
        if not (await (self._line or self._database()).all(webhooks.anybody()))[0]:
            return
        await self._database().all(webhooks.lost())
        await self._database().all(webhooks.hurry(webhook_rules.SCHEDULE))

    async def judge_alerts(self) -> None:
        """Look for what a person should know, and open or resolve incidents."""
        await alerting.judge(self._database())

    async def send_alerts(self) -> None:
        """Send the incidents that were not sent yet through the channels of this process."""
        await alerting.send(self._database())

    async def _in_one(self, command: Command[int]) -> int:
        async with self._database().transaction() as connection:
            return await run_on(connection, command)


async def every(
    seconds: float,
    duty: Callable[[], Awaitable[float | None]],
    outages: Outages,
    *,
    at_once: asyncio.Event | None = None,
) -> None:
    """Call *duty* forever, and at once whenever *at_once* is set. A failed call is retried soon. A duty that returns
    seconds sets its own pause; the others pause for *seconds*.
    """
    failures = 0
    called = at_once or asyncio.Event()
    name = duty.__name__.strip("_")
    while True:
        rest = seconds
        try:
            said = await duty()
            rest = seconds if said is None else said
            failures = 0
            called.clear()
        except UNAVAILABLE as error:
            failures += 1
            outages.tell(name, error)
        except Exception as error:  # noqa: BLE001 - a loop that has ended for good is worse than any error
            failures += 1
            _tell_failure(name, error)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(rest, jitter(failures, longest=_LOOK_SECONDS)) if failures else rest):
                await called.wait()


def _rest(due: Due, usual: float) -> float:
    """Seconds until the next check. The fleet as a whole checks a few times a second; a worker also checks at the
    moment when the next lease ends.
    """
    rest = max(usual, min(_LONGEST_LOOK, due.workers / _LOOKS_A_SECOND)) * random.uniform(0.8, 1.2)  # noqa: S311
    if due.missing:
        rest = min(rest, usual)
    if due.next_lease is not None:
        rest = min(rest, max(_SOON, due.next_lease + _SOON))
    return rest


def _tell_failure(name: str, error: Exception) -> None:
    told = {"message": f"The duty to {name} failed", "exception": error}
    asyncio.get_running_loop().call_exception_handler(told)
