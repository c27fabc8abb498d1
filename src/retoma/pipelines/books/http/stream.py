"""The steps of a session as they are taken. It only watches: who goes away stops nothing, and any number may listen.

All who follow a session in this process share each look at it. A step follows from its number, so everybody hears the
same, each in their own language, whenever they come and however often.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request

from retoma.app.retoma import Retoma
from retoma.pipelines.books.http.context import speaker
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import Session
from retoma.pipelines.books.progress import Step, standing, steps
from retoma.pipelines.books.voice import Say, message_of
from retoma.web.http.auth import SiteContext, pass_of
from retoma.web.http.request_deadline import bounded
from retoma.web.http.stream import EVERY, HEARTBEAT, LOOKED_AFTER, EventHub, greeted
from retoma.web.http.stream_encoders import SERVER_SENT_EVENTS as WIRE
from retoma.web.http.stream_encoders import News
from retoma.web.http.stream_followers import OpenedBy

_ALIVE = b": keep-alive\n\n"


class Board:
    """How sessions stand, looked at once for all who ask within a moment."""

    def __init__(self, app: Retoma) -> None:
        self._library = Books(app)
        self._limit = app.settings.web_deadline_seconds
        self._looks: dict[str, tuple[float, asyncio.Task[Session]]] = {}

    async def now(self, id: str) -> Session:
        """The session as it stood a moment ago at most."""
        at, look = self._looks.get(id, (0.0, None))
        if look is None or time.monotonic() - at >= EVERY:
            self._forget()
            # In a context of its own: it works for everybody, not for the request that happened to start it.
            look = asyncio.create_task(bounded(self._library.get(id), self._limit), context=contextvars.Context())
            self._looks[id] = (time.monotonic(), look)
        return await asyncio.shield(look)

    def _forget(self) -> None:
        old = [id for id, (at, look) in self._looks.items() if look.done() and time.monotonic() - at >= EVERY]
        for id in old:
            self._looks.pop(id)[1].exception()  # somebody heard of it, or nobody is left who would


def said(id: str, step: Step, say: Say) -> dict[str, Any]:
    """A step under the names that its users have always had, with its message in the language of *say*."""
    return {
        "session_id": id,
        "stage": step.stage,
        "percentage": step.percentage,
        "message": message_of(step, say),
        "complete": step.complete,
        "error": step.error,
    }


def followed(request: Request, id: str, after: int, *, content: bool) -> AsyncIterator[bytes]:
    """Every step after *after*, then each as it is taken, until the session stands still."""
    return greeted(_pieces(request, id, after, content=content), WIRE)


async def _pieces(request: Request, id: str, after: int, *, content: bool) -> AsyncIterator[bytes]:
    place: SiteContext = request.state.retoma
    newsroom: EventHub = request.state.newsroom
    board, opened_by, say = place.room(Board), pass_of(request.state.visit), speaker(request)
    told_at = looked_at = time.monotonic()
    while True:
        session = await board.now(id)
        for step in steps(session, after):
            after, told_at = step.seq or after, time.monotonic()
            yield WIRE.text(News(None, step.seq, said(id, step, say)))
        if session.state in ("paused", "failed"):
            yield WIRE.text(News(None, None, said(id, standing(session, content=content, heard=after), say)))
        if session.state != "in_progress":
            return
        if await newsroom.pause(EVERY):
            yield WIRE.goodbye("stopping")
            return
        now = time.monotonic()
        if now - told_at >= HEARTBEAT:
            told_at = now
            yield _ALIVE
        if now - looked_at >= LOOKED_AFTER:
            looked_at = now
            if await _gone(place.app, opened_by):
                yield WIRE.goodbye("signed_out")
                return


async def _gone(app: Retoma, opened_by: OpenedBy) -> bool:
    """Whether what the client was let in with opens nothing any more."""
    keys = [each for each in (opened_by.key_id,) if each is not None]
    sessions = [each for each in (opened_by.session_id,) if each is not None]
    if not keys and not sessions:
        return False
    asked = app.sessions.gone(keys=keys, sessions_=sessions)
    return bool(await bounded(asked, app.settings.web_deadline_seconds))
