"""Those who follow a batch, and what they are given: the same bytes to all who follow it in the same voice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from retoma.app.retoma import Retoma
from retoma.model.batch import Event
from retoma.web.http.stream_encoders import News, Voice, encoded, told


@dataclass(frozen=True, slots=True)
class Bundle:
    """Pieces that are given together: each with its number, or 0; *final* when nothing follows."""

    parts: list[tuple[int, bytes]]
    whole: bytes
    first: int = 0
    last: int = 0
    final: bool = False

    def after(self, seq: int) -> bytes:
        """What of it somebody has not had who was told everything up to *seq*."""
        if not self.first or seq < self.first:
            return self.whole
        return b"".join(text for number, text in self.parts if number > seq or (not number and seq < self.last))


@dataclass(frozen=True, slots=True)
class OpenedBy:
    """What let a client in: a key, or a session; neither is that of the environment, or the token."""

    key_id: str | None = None
    session_id: str | None = None


class Follower:
    """One client: the voice it wants, and what it has not been given yet."""

    def __init__(self, voice: Voice, most: int, opened_by: OpenedBy | None = None) -> None:
        self.voice = voice
        self.opened_by = opened_by
        self.dismissed = False
        self.waiting: asyncio.Queue[Bundle | None] = asyncio.Queue(most)
        self.lost = False

    def give(self, bundle: Bundle | None) -> None:
        try:
            self.waiting.put_nowait(bundle)
        except asyncio.QueueFull:
            self.lost = True

    def stays(self) -> bool:
        """Whether it is given what comes: it keeps up, and may be here."""
        return not (self.lost or self.dismissed)

    def dismiss(self) -> None:
        """Let it go: what it was let in with opens nothing any more."""
        self.dismissed = True
        self.wake()

    def wake(self) -> None:
        """Let it look up, also when it is given nothing more."""
        with contextlib.suppress(asyncio.QueueFull):
            self.waiting.put_nowait(None)


async def dismiss(app: Retoma, followers: Iterable[Follower]) -> None:
    """Let those go whose key or session opens nothing any more; one look for all of them."""
    here = [(each, each.opened_by) for each in followers if each.opened_by is not None]
    keys = {by.key_id for _, by in here if by.key_id is not None}
    sessions = {by.session_id for _, by in here if by.session_id is not None}
    gone = await app.sessions.gone(keys=sorted(keys), sessions_=sorted(sessions)) if keys or sessions else set()
    for each, by in here:
        if gone & {by.key_id, by.session_id}:
            each.dismiss()


class BatchFeed:
    """A batch in one voice: how far it was told, and to whom."""

    def __init__(self, voice: Voice, cursor: int) -> None:
        self.voice = voice
        self.cursor = cursor
        self.followers: set[Follower] = set()

    async def tell(self, events: Sequence[Event], more: Sequence[News] = (), *, final: bool = False) -> None:
        """Make the bytes once, and give everybody the same. Only then is it told: what fails is told again."""
        new = [told(event) for event in events if event.seq > self.cursor]
        pieces = [*new, *more]
        if not pieces:
            return
        made = await encoded(self.voice, pieces)
        parts = [(seq or 0, text) for (_, seq, _), text in zip(pieces, made, strict=True)]
        first, last = (new[0].seq or 0, new[-1].seq or 0) if new else (0, 0)
        self.cursor = last or self.cursor
        bundle = Bundle(parts, b"".join(made), first, last, final)
        for follower in self.followers:
            follower.give(bundle)

    def close(self) -> None:
        for follower in self.followers:
            follower.give(None)
