"""A batch as people see it: looked at all the time through the front door, while things are done to its workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

from retoma import Retoma
from retoma.model.batch import Event, Progress


@asynccontextmanager
async def looking_at(app: Retoma, batch: int) -> AsyncIterator[list[Progress]]:
    """Every progress that was seen in the block; at its end, whether all of them made sense."""
    seen: list[Progress] = []

    async def look() -> None:
        while True:
            seen.append(await app.batches.progress(batch))
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    try:
        yield seen
        assert not looking.done(), "whoever looked was turned away"
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
    seen.append(await app.batches.progress(batch))
    make_sense(seen)


def make_sense(seen: list[Progress]) -> None:
    for now in seen:
        assert now.queued + now.running + now.done == now.total == seen[0].total
        assert 0 <= now.percent <= 100
        assert (now.percent == 100) == (now.done == now.total)
    for before, after in pairwise(seen):
        assert before.done <= after.done, "progress went backwards"
        assert before.completed <= after.completed
        assert before.percent <= after.percent
        assert before.event_seq <= after.event_seq
        assert before.epoch <= after.epoch


async def story_of(app: Retoma, batch: int) -> list[Event]:
    """All its events, page by page, without a gap."""
    events: list[Event] = []
    while page := await app.batches.events(batch, after=events[-1].seq if events else 0, limit=200):
        events += page
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return events


async def turns_of(app: Retoma, batch: int) -> list[tuple[str, str | None]]:
    """The states it went through, and why."""
    return [
        (event.kind, event.data.get("why"))
        for event in await story_of(app, batch)
        if event.kind not in {"created", "sealed", "jobs", "changed"}
    ]
