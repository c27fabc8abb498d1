"""Compares what the database says a worker holds with what the worker knows, so that no claimed job is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from retoma.model.job import Claim
from retoma.worker.claimer import Claimer


async def reconcile(
    claiming: Claimer, known: Callable[[], set[tuple[int, int]]], give_back: Callable[[Claim], None]
) -> None:
    """Release the jobs that the worker of *claiming* holds but does not know, whatever the cause. Runs once per
    heartbeat.

    Jobs in *known* (by job and fence) and jobs of a claim whose response is still outstanding are left alone. A job
    must be unknown in two consecutive rounds: one that has just ended may still be in the first response.
    """
    before: set[tuple[int, int]] = set()
    while True:
        await asyncio.sleep(claiming.settings.heartbeat_seconds)
        held = await claiming.held()
        here = known()
        unknown = {
            (claim.id, claim.fence): claim
            for claim, token in held
            if (claim.id, claim.fence) not in here and not claiming.knows(token)
        }
        for each in unknown.keys() & before:
            give_back(unknown[each])
        before = set(unknown)
