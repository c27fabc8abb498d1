"""Kills and freezes at random moments, then healing; the logs are the judge. make explore goes on for a minute."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import crash_app
import pytest
from fleet import LEASE, Fleet, Member, until
from oracle import Oracle

from retoma import Retoma

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

SECONDS, JOBS = (60.0, 300) if os.environ.get("EXPLORE") else (20.0, 100)
LABELS = ("ana", "bruno", "clara")


@dataclass
class Havoc:
    """Faults drawn from one seed, and what they were."""

    fleet: Fleet
    chance: random.Random
    members: dict[str, Member] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    deaths: list[tuple[float, int]] = field(default_factory=list)
    """When an executor was killed whose supervisor lives, and its process id."""
    frozen: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def keep_alive(self) -> None:
        for label in LABELS:
            if label not in self.members or self.members[label].ended:
                self.members[label] = self.fleet.start(label, at_once=4)

    async def strike(self) -> None:
        label = self.chance.choice(LABELS)
        member = self.members[label]
        if label in self.frozen and not self.frozen[label].done():
            return
        kinds = ["kill executor", "kill supervisor", "kill both", "freeze executor", "freeze both"]
        kind = self.chance.choices(kinds, weights=[5, 2, 1, 1, 2])[0]
        executors = member.executors()
        if "executor" in kind and not executors:
            return
        self.faults[kind] += 1
        whom = {"executors": "supervisor" not in kind, "supervisor": "executor" not in kind}
        if kind.startswith("kill"):
            if kind == "kill executor":
                self.deaths += [(time.time(), pid) for pid in executors]
            member.send(signal.SIGKILL, **whom)
        else:
            member.send(signal.SIGSTOP, **whom)
            self.frozen[label] = asyncio.create_task(self._wake(member, self.chance.uniform(0.2, 1.5) * LEASE))

    async def _wake(self, member: Member, seconds: float) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(seconds)
        member.wake()

    async def heal(self) -> None:
        for waking in self.frozen.values():
            waking.cancel()
        await asyncio.gather(*self.frozen.values(), return_exceptions=True)
        for member in self.members.values():  # a waking that was cancelled before it began has woken nobody
            member.wake()
        self.keep_alive()


def recoveries(oracle: Oracle, deaths: list[tuple[float, int]]) -> list[float]:
    """For each dead executor that held jobs: how long until the last of them could be claimed again."""
    sql = """
        select extract(epoch from max(attempt.ended_at))::float8
          from retoma.attempts as attempt join retoma.workers as worker on worker.id = attempt.worker_id
         where worker.pid = %s and attempt.ended_at >= to_timestamp(%s)
           and attempt.ending in ('crashed', 'released', 'lost')
    """
    found = [(at, oracle.one(sql, pid, at)) for at, pid in deaths]
    return sorted(ended - at for at, ended in found if ended is not None)


async def test_kills_and_freezes_at_random_lose_nothing_and_double_nothing(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Callable[[str, object], None]
) -> None:
    seed = 20_261
    havoc = Havoc(fleet, random.Random(seed))
    havoc.keep_alive()
    jobs: list[int] = []
    began = time.monotonic()
    while (passed := time.monotonic() - began) < SECONDS:
        due = min(JOBS, int(JOBS * passed / (SECONDS - 8)) + 10)
        if due > len(jobs):
            seconds = [havoc.chance.uniform(0.05, 0.25) for _ in range(due - len(jobs))]
            jobs += [receipt.id for receipt in await app.enqueue_many(crash_app.five, seconds)]
        await asyncio.sleep(havoc.chance.uniform(0.5, 1.5))
        havoc.keep_alive()
        await havoc.strike()
    healed = time.monotonic()
    await havoc.heal()
    await until(oracle.all_ended, what="everything drains after healing")
    drained = time.monotonic() - healed
    await asyncio.sleep(LEASE + 1)  # whoever still sleeps or dreams may try its worst

    after_the_end = oracle.after_the_end()
    quarantined = [job for (job,) in oracle.rows("select id from retoma.jobs where reason = 'quarantine'")]
    for job in quarantined:  # three kills from outside look like a job that kills: a person looks, and tries again
        await app.jobs.retry(job)
    await until(oracle.all_ended, what="what was quarantined ends, too")

    back = recoveries(oracle, havoc.deaths)
    wanted = {(job, f"step/{number}"): 1 for job in jobs for number in (2, 4)}
    ours = set(jobs)  # the chores save steps, too, and come by the clock
    saved = Counter((job, step) for job, step in oracle.rows("select job, step from saves") if job in ours)
    report = {
        "seed": seed,
        "jobs": len(jobs),
        "steps": 5 * len(jobs),
        "seconds": SECONDS,
        "lease": LEASE,
        "faults": dict(havoc.faults),
        "lost": len(jobs) - oracle.states()["completed"],
        "doubled effects": len(oracle.doubled_effects()),
        "doubled checkpoints": len(oracle.doubled_saves()),
        "stale writes": len(oracle.stale_writes()),
        "claims after the end": len(after_the_end),
        "finished steps run again": len(oracle.redone()),
        "steps begun again": oracle.again(),
        "leases lost": oracle.lost(),
        "quarantined by the kills": len(quarantined),
        "recovery p50": round(back[len(back) // 2], 3) if back else None,
        "recovery max": round(back[-1], 3) if back else None,
        "drain seconds": round(drained, 1),
    }
    print(json.dumps(report))  # noqa: T201
    figure("report", json.dumps(report))

    assert len(jobs) == JOBS
    assert report["lost"] == 0
    assert oracle.effects() == wanted
    assert saved == {(job, f"step/{number}"): 1 for job in jobs for number in range(1, 6)}
    assert not report["doubled checkpoints"]
    assert not report["stale writes"]
    assert not report["claims after the end"]
    assert not report["finished steps run again"]
    assert report["steps begun again"] <= report["leases lost"]
