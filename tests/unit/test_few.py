"""A few at once: the others wait for a place, but not for long."""

from __future__ import annotations

import asyncio

from retoma.system.concurrency import Few


async def test_who_finds_it_full_takes_the_place_of_the_first_that_leaves() -> None:
    few, order = Few(2, patience=60.0), []
    go = asyncio.Event()

    async def visit(name: str) -> None:
        async with few.inside():
            order.append(name)
            await go.wait()

    visits = [asyncio.create_task(visit(name)) for name in "abc"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    early = list(order)
    go.set()
    await asyncio.gather(*visits)

    assert early == ["a", "b"]
    assert order == ["a", "b", "c"]


async def test_nobody_waits_longer_than_patience_for_those_that_stay() -> None:
    few = Few(1, patience=0.001)

    async with few.inside(), asyncio.timeout(60), few.inside():
        pass
    async with few.inside():  # the place that was never held is not given back
        assert few._places.locked()
