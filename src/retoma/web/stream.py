"""The story of batches as it happens. One reader per process looks for news, encodes each piece once, and hands the
same bytes to everybody who follows; who is too slow is told to look again.

Only what is in the story has a number (``id:``), so a client that comes back with the last one it saw misses nothing
and sees nothing twice. Figures are absolute: one that is lost does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import orjson

from retoma.app import Retoma
from retoma.batch import Event, Progress
from retoma.database import TRANSIENT
from retoma.errors import DatabaseUnreachable, NotFound
from retoma.web import batch_shapes as shapes

T = TypeVar("T")

EVERY = 0.5
"""Seconds between two looks for news: progress is told at most this often."""
HEARTBEAT = 15.0
_MOST_BEHIND = 1000
_PAGE = 200
_MOST_JOBS = 200
_MOST_WAITING = 64

Shown = Callable[[str, int | None, Any], bytes]
"""How a piece of news looks on the wire: its name, its number, what it says."""


def as_event_stream(name: str, seq: int | None, data: Any) -> bytes:
    """As text/event-stream has it."""
    number = b"" if seq is None else b"id: %d\n" % seq
    return b"event: " + name.encode() + b"\n" + number + b"data: " + orjson.dumps(data, default=str) + b"\n\n"


def as_lines(name: str, seq: int | None, data: Any) -> bytes:
    """One JSON object per line."""
    return orjson.dumps({"event": name, "id": seq, "data": data}, default=str) + b"\n"


def _told(event: Event) -> tuple[str, int, dict[str, Any]]:
    """An event of the story, in the words of the stream."""
    if event.kind != "jobs":
        return "state", event.seq, {"kind": event.kind, "at": event.at.isoformat(), **event.data}
    items = event.data["jobs"]
    if len(items) > _MOST_JOBS:
        return "items", event.seq, {"at": event.at.isoformat(), "many": True, "count": len(items)}
    return "items", event.seq, {"at": event.at.isoformat(), "items": items}


def _figures(progress: Progress) -> dict[str, Any]:
    return shapes.Progress.seen(progress).model_dump(mode="json")


def _pulse(progress: Progress, since: float) -> dict[str, Any]:
    last = progress.last_progress_at
    left = progress.stalls_in
    return {
        "server_time": progress.now.isoformat(),
        "last_progress_at": last.isoformat() if last else None,
        "stalls_in_s": None if left is None else max(0.0, left - since),
        "state": progress.state,
    }


async def _whole(asked: Coroutine[Any, Any, T]) -> T:
    """What was *asked* of the database. A client that goes away meanwhile does not break it off half-way: that would
    cost the connection.
    """
    return await asyncio.shield(asyncio.create_task(asked))


class Follower:
    """One client: what waits to be sent to it. None ends it, and *lost* says that something was dropped."""

    def __init__(self, shown: Shown) -> None:
        self.shown = shown
        self.waiting: asyncio.Queue[tuple[int, int, bytes] | None] = asyncio.Queue(_MOST_WAITING)
        self.lost = False

    def give(self, piece: tuple[int, int, bytes] | None) -> None:
        try:
            self.waiting.put_nowait(piece)
        except asyncio.QueueFull:
            self.lost = True


class Story:
    """A batch that somebody follows: how far it was told, and to whom it is told."""

    def __init__(self, progress: Progress) -> None:
        self.cursor = progress.event_seq
        self.progress = progress
        self.seen_at = self.beaten_at = time.monotonic()
        self.followers: set[Follower] = set()

    def tell(self, pieces: Iterable[tuple[str, int | None, Any]], *, first: int, last: int) -> None:
        """Encode once per kind of wire, and give everybody the same bytes."""
        told = list(pieces)
        made: dict[Shown, bytes] = {}
        for follower in self.followers:
            if follower.shown not in made:
                made[follower.shown] = b"".join(follower.shown(*piece) for piece in told)
            follower.give((first, last, made[follower.shown]))

    def close(self) -> None:
        for follower in self.followers:
            follower.give(None)


class Newsroom:
    """Who follows what. Reads while somebody follows, and rests otherwise."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self._stories: dict[int, Story] = {}
        self._reading: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def close(self) -> None:
        """The server stops: every stream ends, and its client will come again elsewhere."""
        self._closing.set()
        for story in self._stories.values():
            story.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    # — one client —

    async def follow(self, id: int, after: int | None, shown: Shown) -> AsyncIterator[bytes]:
        """What happened after *after* and what happens from now on, until the batch has ended."""
        if shown is as_event_stream:
            yield b"retry: %d\n\n" % random.randint(2000, 5000)  # noqa: S311 - so that not all come back at once
        while not self._closing.is_set():
            follower, progress = await self._join(id, shown)
            try:
                behind = progress.event_seq - (after or 0)
                if after is None or not 0 <= behind <= _MOST_BEHIND:
                    if after is not None:
                        yield shown("reset", None, {"why": "behind" if behind > 0 else "unknown", "after": after})
                    after = progress.event_seq
                    yield shown("snapshot", after, _figures(progress))
                async for piece in self._pieces(id, after, follower):
                    yield piece
                if not follower.lost:
                    return
                yield shown("reset", None, {"why": "slow"})
                after = None
            finally:
                self._leave(id, follower)

    async def _pieces(self, id: int, after: int, follower: Follower) -> AsyncIterator[bytes]:
        """Everything after *after*: first from the table, then as it comes."""
        shown = follower.shown
        while True:
            while page := await _whole(self._app.events(id, after=after, limit=_PAGE)):
                after = page[-1].seq
                yield b"".join(shown(*_told(event)) for event in page)
            now = await _whole(self._app.progress(id))
            if now.state.ended and now.event_seq <= after:
                yield shown("progress", None, _figures(now)) + shown("end", None, {"state": now.state})
                return
            while not follower.lost:
                piece = await follower.waiting.get()
                if piece is None:
                    break
                first, last, text = piece
                if first > after + 1:
                    break  # something lies between: the table has it
                if last > after or first == 0:
                    after = max(after, last)
                    yield text
            if follower.lost or self._closing.is_set():
                return

    async def _join(self, id: int, shown: Shown) -> tuple[Follower, Progress]:
        progress = await _whole(self._app.progress(id))
        story = self._stories.setdefault(id, Story(progress))
        follower = Follower(shown)
        story.followers.add(follower)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return follower, progress

    def _leave(self, id: int, follower: Follower) -> None:
        if story := self._stories.get(id):
            story.followers.discard(follower)
            if not story.followers:
                del self._stories[id]

    # — the one reader —

    async def _read(self) -> None:
        while self._stories:
            with contextlib.suppress(*TRANSIENT, DatabaseUnreachable):
                await self._look()
            self._beat()
            await asyncio.sleep(EVERY)

    async def _look(self) -> None:
        cursors = {id: story.cursor for id, story in self._stories.items()}
        news: dict[int, list[Event]] = {}
        for event in await self._app.news(cursors, limit=_MOST_BEHIND):
            news.setdefault(event.batch_id, []).append(event)
        for id, events in news.items():
            story = self._stories.get(id)
            if story is None:
                continue
            story.cursor = events[-1].seq
            try:
                story.progress = await self._app.progress(id)
            except NotFound:  # pruned
                story.close()
                continue
            story.seen_at = time.monotonic()
            pieces = [*map(_told, events), ("progress", None, _figures(story.progress))]
            story.tell(pieces, first=events[0].seq, last=events[-1].seq)
            if story.progress.state.ended and story.cursor >= story.progress.event_seq:
                story.close()

    def _beat(self) -> None:
        now = time.monotonic()
        for story in self._stories.values():
            if now - story.beaten_at >= HEARTBEAT:
                story.beaten_at = now
                story.tell([("heartbeat", None, _pulse(story.progress, now - story.seen_at))], first=0, last=0)
