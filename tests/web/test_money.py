"""Sums that are being made when the site ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retoma import Retoma, Settings
from retoma.web.http.money import Money


async def test_a_sum_under_way_is_given_up_when_the_site_ends_and_nothing_is_left_running(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def endless(*_: Any, **__: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async with Retoma(settings=settings) as app:
        monkeypatch.setattr(app.calls, "spend", endless)
        money = Money(app)
        asked = asyncio.create_task(money.spend("model", since=(await app.system.overview()).now))
        await begun.wait()

        await money.close()

        with pytest.raises(asyncio.CancelledError):
            await asked
        assert [task for task in asyncio.all_tasks() if "_made" in repr(task.get_coro())] == []
