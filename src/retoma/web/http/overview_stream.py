"""The overview as it changes. One look for everybody who follows, about once a second; each hears of it when something
is another way than before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from retoma.app.retoma import Retoma
from retoma.model.overview import Overview
from retoma.postgres.faults import UNAVAILABLE
from retoma.system.concurrency import cancel_and_wait
from retoma.web.http.errors import Refusal
from retoma.web.http.money import Money
from retoma.web.http.request_deadline import bounded
from retoma.web.http.stream_encoders import EVENT_STREAM, SERVER_SENT_EVENTS, News
from retoma.web.http.stream_followers import Follower, OpenedBy, dismiss

EVERY = 1.0
"""Seconds between two looks."""
HEARTBEAT = 15.0

Pause = Callable[[float], Awaitable[bool]]
"""Waits that many seconds, or until the server stops, and says whether it does."""


class OverviewFeed:
    """Who follows the overview, and how it stood when it was last looked at."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self._money = Money(app)
        self._followers: set[Follower] = set()
        self._looking: asyncio.Task[Overview] | None = None
        self._looked_at = 0.0

    async def close(self) -> None:
        """Give up the look that is under way."""
        await cancel_and_wait(*([self._looking] if self._looking else []))
        await self._money.close()

    async def follow(self, pause: Pause, opened_by: OpenedBy) -> AsyncIterator[bytes]:
        """What the overview says whenever it says something else, until the server stops or the client may no longer
        be here.
        """
        yield SERVER_SENT_EVENTS.hello()
        follower = Follower(EVENT_STREAM[False], 1, opened_by)
        self._followers.add(follower)
        known, told_at = None, time.monotonic()
        try:
            while not follower.dismissed:
                seen = await self._look()
                now, mark = time.monotonic(), told_by(seen)
                if mark != known or now - told_at >= HEARTBEAT:
                    name = "overview" if mark != known else "heartbeat"
                    yield SERVER_SENT_EVENTS.text(News(name, None, {"server_time": seen.now.isoformat(), **mark}))
                    known, told_at = mark, now
                if await pause(EVERY):
                    yield SERVER_SENT_EVENTS.goodbye("stopping")
                    return
            yield SERVER_SENT_EVENTS.goodbye("signed_out")
        except (Refusal, *UNAVAILABLE):
            yield SERVER_SENT_EVENTS.goodbye("database")
        finally:
            self._followers.discard(follower)

    async def _look(self) -> Overview:
        """One look for all who ask at the same time; a client that goes away does not break it off."""
        now = time.monotonic()
        if self._looking is None or (self._looking.done() and now - self._looked_at >= EVERY / 2):
            self._looked_at = now
            asked = bounded(self._asked(), self._app.settings.web_deadline_seconds)
            self._looking = asyncio.create_task(asked)
        return await asyncio.shield(self._looking)

    async def _asked(self) -> Overview:
        await dismiss(self._app, self._followers)
        return await self._money.overview()


def told_by(seen: Overview) -> dict[str, object]:
    """What of an overview is news when it is another way than before; clocks are not."""
    return {
        "batches": seen.batches,
        "running": seen.running,
        "queued": seen.queued,
        "failed_lately": seen.failed_lately,
        "review": seen.review,
        "spent_today": str(seen.spent_today),
        "workers_alive": seen.workers_alive,
        "workers_silent": seen.workers_silent,
        "queues_paused": seen.queues_paused,
        "unwell": seen.unwell,
    }
