"""The story of batches as it happens. One reader per process looks for news when it is told that there are some, and
now and then by itself; each piece is made once for all who follow in the same voice, and handed to them as the same
bytes. Who is too slow is told to look again.

Only what is in the story has a number (``id:``), so a client that comes back with the last one it saw misses nothing
and sees nothing twice. Figures are absolute: one that is lost does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from retoma.app.retoma import Retoma
from retoma.errors import NotFound
from retoma.model.batch import Event, Progress
from retoma.model.ids import BatchId
from retoma.postgres import batch_notify
from retoma.postgres.batch_notify import BatchHints
from retoma.postgres.faults import UNAVAILABLE
from retoma.telemetry import emit
from retoma.telemetry.events import StreamBroken, StreamReset
from retoma.web.http.auth import SiteContext, pass_of
from retoma.web.http.errors import Refusal
from retoma.web.http.request_deadline import bounded
from retoma.web.http.stream_encoders import Encoding, News, Voice, encoded, figures, pulse, told
from retoma.web.http.stream_followers import BatchFeed, Follower, OpenedBy, dismiss
from retoma.web.server.connections import Streams

T = TypeVar("T")

_TEXT = {"type": "string", "description": "Events, one after the other, as long as the batch goes on."}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": _TEXT}, "application/x-ndjson": {"schema": _TEXT}}},
    204: {"description": "The batch has ended, and Last-Event-ID is its last event: do not come again."},
}
"""How a stream is described: what it is made of, and that it has an end."""

EVERY = 0.5
"""Seconds between two looks when no hint comes, and between two figures of the same batch."""
SOONEST = 0.02
"""Seconds between two looks when hints come one after the other."""
HEARTBEAT = 15.0
LOOKED_AFTER = 2.0
"""Seconds between two looks whether those who follow may still."""
_RESTED = 1.0  # times as long as a look took, so that looks use half of a connection at most
_LINGER = 30.0
_MOST_BEHIND = 1000
_PAGE = 200
_MOST_WAITING = 1000
_ENDED = frozenset({"completed", "failed", "cancelled"})


class Watched:
    """A batch that somebody follows: how it stood when it was last looked at, and its story in each voice."""

    def __init__(self, progress: Progress) -> None:
        self.stories: dict[Voice, BatchFeed] = {}
        self.see(progress)
        self.beaten_at = self.seen_at

    def see(self, progress: Progress) -> None:
        self.progress = progress
        self.seen_at = time.monotonic()
        self.figures_at: float | None = None
        """When its figures are to be told again; None while nothing has happened since."""

    def moved(self, *, ended: bool) -> None:
        """Something happened: new figures follow, at once when they are the last."""
        if ended or self.figures_at is None:
            self.figures_at = 0.0 if ended else self.seen_at + EVERY

    @property
    def cursor(self) -> int:
        """Up to where everybody was told."""
        return min(story.cursor for story in self.stories.values())

    def figures_due(self) -> bool:
        return self.figures_at is not None and time.monotonic() >= self.figures_at


class EventHub:
    """Who follows what. Reads while somebody follows, and rests otherwise."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self._hints = BatchHints(lambda: app.database)
        self._watched: dict[BatchId, Watched] = {}
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._looked_at = time.monotonic()

    def stop(self) -> None:
        """The server stops: every stream ends now, and its client will come again elsewhere."""
        self._closing.set()
        for follower in self._followers():
            follower.wake()

    async def pause(self, seconds: float) -> bool:
        """Wait that long, or until the server stops; whether it does."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        return self._closing.is_set()

    async def close(self) -> None:
        """Let go of everything."""
        self.stop()
        self._hints.close()
        for task in self._runs.values():
            task.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)

    def changed(self) -> None:
        """A request has changed something: whoever follows it hears of it now, here and in other processes."""
        self._wake.set()
        self._hints.put(batch_notify.ANY)

    @property
    def clients(self) -> int:
        """How many clients follow a stream."""
        return len(self._followers())

    @property
    def lag(self) -> float:
        """The longest time in seconds for which a followed batch has not been looked at beyond its turn, because
        the database does not answer.
        """
        return max(0.0, time.monotonic() - self._looked_at - EVERY) if self._watched else 0.0

    # — one client —

    async def follow(
        self, id: BatchId, after: int | None, voice: Voice, opened_by: OpenedBy | None = None
    ) -> AsyncIterator[bytes]:
        """What happened after *after* and what happens from now on, until the batch has ended, or what the client was
        let in with: *opened_by*.
        """
        if first := voice.encoding.hello():
            yield first
        try:
            async for text in self._story(id, after, voice, opened_by):
                if text is None:
                    yield voice.encoding.goodbye("signed_out")
                elif text:
                    yield text
        except NotFound:  # it was pruned while somebody looked at it
            return
        except (Refusal, *UNAVAILABLE):
            yield voice.encoding.goodbye("database")  # who comes again is served, or told more
        if self._closing.is_set():
            yield voice.encoding.goodbye("stopping")

    async def _story(
        self, id: BatchId, after: int | None, voice: Voice, opened_by: OpenedBy | None
    ) -> AsyncIterator[bytes | None]:
        while not self._closing.is_set():
            follower, story, progress = await self._join(id, voice, opened_by)
            try:
                behind = progress.event_seq - (after or 0)
                if after is None or not 0 <= behind <= _MOST_BEHIND:
                    why: list[News] = []
                    if after is not None:
                        said = "behind" if behind > 0 else "unknown"
                        emit(StreamReset(why=said))
                        why = [News("reset", None, {"why": said, "after": after})]
                    after = progress.event_seq
                    yield b"".join(await encoded(story.voice, [*why, News("snapshot", after, figures(progress))]))
                async for text in self._pieces(id, after, follower, story, progress):
                    yield text
                if follower.dismissed:
                    yield None
                if follower.dismissed or not follower.lost:
                    return
                emit(StreamReset(why="slow"))
                yield b"".join(await encoded(voice, [News("reset", None, {"why": "slow"})]))
                after = None
            finally:
                self._leave(id, follower)

    async def _pieces(
        self, id: BatchId, after: int, follower: Follower, story: BatchFeed, progress: Progress
    ) -> AsyncIterator[bytes]:
        """Everything after *after*: from the table what was told before we came, then as it comes."""
        while follower.stays() and not self._closing.is_set():
            while after < max(story.cursor, progress.event_seq):
                page = await self._whole(self._app.batches.events(id, after=after, limit=_PAGE))
                if not page:
                    break
                after = page[-1].seq
                yield b"".join(await encoded(story.voice, [told(event) for event in page]))
            if progress.state.ended:
                progress = await self._whole(
                    self._app.batches.progress(id)
                )  # somebody may have tried it again meanwhile
                if progress.state.ended and progress.event_seq <= after:
                    yield b"".join(await encoded(story.voice, _end(progress)))
                    return
                continue
            async for text, reached in _live(follower, after, self._closing):
                if text is None:
                    return
                after = reached
                if text:
                    yield text
            if story.cursor <= after and follower.stays() and not self._closing.is_set():
                # Nothing lies between: the story was closed.
                progress = await self._whole(self._app.batches.progress(id))

    async def _whole(self, asked: Coroutine[Any, Any, T]) -> T:
        """What was *asked* of the database. A client that goes away meanwhile does not break it off half-way."""
        limit = self._app.settings.web_deadline_seconds
        return await asyncio.shield(asyncio.create_task(bounded(asked, limit)))

    async def _join(
        self, id: BatchId, voice: Voice, opened_by: OpenedBy | None
    ) -> tuple[Follower, BatchFeed, Progress]:
        progress = await self._whole(self._app.batches.progress(id))
        watched = self._watched.setdefault(id, Watched(progress))
        story = watched.stories.setdefault(voice, BatchFeed(voice, progress.event_seq))
        follower = Follower(voice, _MOST_WAITING, opened_by)
        story.followers.add(follower)
        runs = {"read": self._read, "beat": self._beat, "listen": self._listen, "dismiss": self._keep_dismissing}
        for name, run in runs.items():
            if name not in self._runs or self._runs[name].done():
                # In a context of its own: it works for everybody, not for the request that happened to start it.
                self._runs[name] = asyncio.create_task(run(), context=contextvars.Context())
        return follower, story, progress

    def _leave(self, id: BatchId, follower: Follower) -> None:
        watched = self._watched.get(id)
        story = watched.stories.get(follower.voice) if watched else None
        if watched is None or story is None:
            return
        story.followers.discard(follower)
        if not story.followers:
            del watched.stories[follower.voice]
        if not watched.stories:
            del self._watched[id]

    # — for all of them —

    async def _listen(self) -> None:
        """Hear that something happened, for as long as somebody follows and a little longer."""
        hearing = asyncio.create_task(batch_notify.hear(self._app.database.url, self._app.settings, self._heard))
        try:
            resting = 0.0
            while resting < _LINGER:
                await asyncio.sleep(1.0)
                resting = 0.0 if self._watched else resting + 1.0
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    def _heard(self, ids: frozenset[int]) -> None:
        if not ids or not ids.isdisjoint(self._watched):
            self._wake.set()

    async def _read(self) -> None:
        self._looked_at = time.monotonic()
        while self._watched:
            self._wake.clear()
            began = time.monotonic()
            with contextlib.suppress(Refusal, *UNAVAILABLE):
                await bounded(self._look(), self._app.settings.web_deadline_seconds)
            took = time.monotonic() - began
            soonest = min(EVERY, max(SOONEST, _RESTED * took))
            await asyncio.sleep(soonest)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, EVERY - soonest)):
                    await self._wake.wait()

    async def _look(self) -> None:
        """What happened goes out first, for all; then the figures of those whose turn it is."""
        cursors = {id: watched.cursor for id, watched in self._watched.items()}
        news: dict[BatchId, list[Event]] = {}
        for event in await self._app.batches.news(cursors, limit=_MOST_BEHIND) if cursors else ():
            news.setdefault(event.batch_id, []).append(event)
        for id, events in news.items():
            if watched := self._watched.get(id):
                watched.moved(ended=any(event.kind in _ENDED for event in events))
                for story in list(watched.stories.values()):
                    await _tell(story, events)
        self._looked_at = time.monotonic()
        for id, watched in list(self._watched.items()):
            if watched.figures_due():
                await self._figures(id, watched)

    async def _figures(self, id: BatchId, watched: Watched) -> None:
        try:
            watched.see(await self._app.batches.progress(id))
        except NotFound:  # pruned
            for story in watched.stories.values():
                story.close()
            return
        now = watched.progress
        for story in list(watched.stories.values()):
            if now.state.ended and story.cursor >= now.event_seq:
                await _tell(story, (), _end(now), final=True)
            else:
                await _tell(story, (), [News("progress", None, figures(now))])

    async def _keep_dismissing(self) -> None:
        """Let those go whose key or session opens nothing any more; one look for all who follow here."""
        while self._watched:
            await asyncio.sleep(LOOKED_AFTER)
            with contextlib.suppress(Refusal, *UNAVAILABLE):
                await bounded(dismiss(self._app, self._followers()), self._app.settings.web_deadline_seconds)

    @property
    def streams(self) -> int:
        """How many clients of this process follow a batch now."""
        return len(self._followers())

    def _followers(self) -> list[Follower]:
        stories = [story for watched in self._watched.values() for story in watched.stories.values()]
        return [follower for story in stories for follower in story.followers]

    async def _beat(self) -> None:
        """Signs of life, whether or not the database answers."""
        while self._watched:
            await asyncio.sleep(min(1.0, HEARTBEAT / 4))
            now = time.monotonic()
            for watched in list(self._watched.values()):
                if now - watched.beaten_at >= HEARTBEAT:
                    watched.beaten_at = now
                    beat = News("heartbeat", None, pulse(watched.progress, watched.seen_at))
                    for story in list(watched.stories.values()):
                        await _tell(story, (), [beat])


def _end(progress: Progress) -> list[News]:
    return [News("progress", None, figures(progress)), News("end", None, {"state": progress.state})]


async def _tell(story: BatchFeed, events: Sequence[Event], more: Sequence[News] = (), *, final: bool = False) -> None:
    """Tell one story. A voice that cannot tell something is a fault of its own, and holds up nobody else."""
    try:
        await story.tell(events, more, final=final)
    except UNAVAILABLE:
        raise  # it is told at the next look
    except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
        emit(StreamBroken(voice=type(story.voice).__name__, error=type(error).__name__))
        story.close()


async def _live(follower: Follower, after: int, closing: asyncio.Event) -> AsyncIterator[tuple[bytes | None, int]]:
    """What comes, with how far it goes, until something lies between or the story is closed; None when it is over."""
    while follower.stays() and not closing.is_set():
        bundle = await follower.waiting.get()
        if bundle is None or bundle.first > after + 1:
            return
        if not bundle.first or bundle.last > after:
            text, after = bundle.after(after), max(after, bundle.last)
            yield text, after
        if bundle.final:
            yield None, after


def streamed(request: Request, id: BatchId, after: int | None, voice: Voice, kind: str) -> Response:
    """The answer that goes on as long as the batch does."""
    newsroom: EventHub = request.state.newsroom
    return counted(request, newsroom.follow(id, after, voice, pass_of(request.state.visit)), kind)


async def greeted(pieces: AsyncIterator[bytes], encoding: Encoding) -> AsyncIterator[bytes]:
    """*pieces* after a greeting. What was removed meanwhile has no more; where the database does not answer, the client
    is told to come again.
    """
    if first := encoding.hello():
        yield first
    try:
        async for piece in pieces:
            yield piece
    except NotFound:
        return
    except (Refusal, *UNAVAILABLE):
        yield encoding.goodbye("database")


def counted(request: Request, pieces: AsyncIterator[bytes], kind: str) -> Response:
    """An answer that goes on as long as *pieces* come, with its place among all streams."""
    place: SiteContext = request.state.retoma
    streams, address = place.room(Streams), request.client.host if request.client else ""
    caller: str = request.state.visit.caller
    streams.check(caller, address)
    request.state.streams = True  # a server that stops does not wait for those who do not read
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return _Counted(pieces, streams.one(caller, address), media_type=kind, headers=headers)


class _Counted(StreamingResponse):
    """A stream that has its place among all while it is told."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        place: AbstractContextManager[None],
        *,
        media_type: str,
        headers: dict[str, str],
    ) -> None:
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)
