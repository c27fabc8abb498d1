"""What the database says a worker holds, against what the worker knows: nothing stays with nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from retoma.model.job import Claim
from retoma.worker.claimer import Claimer


async def reconcile(
    claiming: Claimer, known: Callable[[], set[tuple[int, int]]], give_back: Callable[[Claim], None]
) -> None:
    """Give back what the worker of *claiming* holds and does not know of, whatever lost it; one look per heartbeat.

    What *known* says, by job and fence, and what a claim took whose answer has yet to be read are left alone. So is
    what only one look finds unknown: a job that has just ended may still be in the answer to it.
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
