"""The news of a batch as values, the voices that tell them, and how they are written on the wire."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import orjson

from retoma.model.batch import Event, Progress
from retoma.web.api.schemas import batches as shapes
from retoma.web.words.causes import data_shown


class News(NamedTuple):
    """A piece of news: its name, if it has one, its number in the story, and what it says."""

    name: str | None
    seq: int | None
    data: Any


_MOST_JOBS = 200


class Encoding(Protocol):
    """How news are written on the wire."""

    def hello(self) -> bytes:
        """What stands before everything else."""
        ...

    def goodbye(self, why: str) -> bytes:
        """What is said when the stream ends before the batch: the server stops, or cannot read on. The client is to
        come again.
        """
        ...

    def text(self, news: News) -> bytes:
        """One piece of news."""
        ...


class Voice(Protocol):
    """A way of telling. Whoever follows a batch in an equal voice is given the same bytes, made once."""

    @property
    def encoding(self) -> Encoding: ...

    async def tell(self, pieces: Sequence[News]) -> list[list[News]]:
        """What this voice says for each piece; nothing where it does not mention it."""
        ...

    def __hash__(self) -> int: ...


async def encoded(voice: Voice, pieces: Sequence[News]) -> list[bytes]:
    """What *voice* says for each piece, as bytes."""
    text = voice.encoding.text
    return [b"".join([text(news) for news in said]) for said in await voice.tell(pieces)]


def _come_again(least: int, most: int) -> bytes:
    """After how many milliseconds a browser that lost the stream comes back; not all of them at once."""
    return b"retry: %d\n\n" % random.randint(least, most)  # noqa: S311 - not a secret


class ServerSentEvents:
    """As text/event-stream has them."""

    def hello(self) -> bytes:
        return _come_again(2000, 5000)

    def goodbye(self, why: str) -> bytes:
        # A server that starts again needs a moment.
        return _come_again(1000, 3000) + self.text(News("closing", None, {"why": why}))

    def text(self, news: News) -> bytes:
        name = b"" if news.name is None else b"event: " + news.name.encode() + b"\n"
        number = b"" if news.seq is None else b"id: %d\n" % news.seq
        return name + number + b"data: " + orjson.dumps(news.data, default=str) + b"\n\n"


class JsonLines:
    """As one JSON object on each line."""

    def hello(self) -> bytes:
        return b""

    def goodbye(self, why: str) -> bytes:
        return self.text(News("closing", None, {"why": why}))

    def text(self, news: News) -> bytes:
        return orjson.dumps({"event": news.name, "id": news.seq, "data": news.data}, default=str) + b"\n"


SERVER_SENT_EVENTS, JSON_LINES = ServerSentEvents(), JsonLines()


@dataclass(frozen=True, slots=True)
class _Plain:
    """The engine's own voice: every piece under its own name."""

    content: bool
    encoding: Encoding

    async def tell(self, pieces: Sequence[News]) -> list[list[News]]:
        return [[News(name, seq, data_shown(data, content=self.content))] for name, seq, data in pieces]


EVENT_STREAM: dict[bool, Voice] = {content: _Plain(content, SERVER_SENT_EVENTS) for content in (False, True)}
"""The story as text/event-stream, without and with the words of errors."""
LINES: dict[bool, Voice] = {content: _Plain(content, JSON_LINES) for content in (False, True)}
"""The same as lines of JSON."""


def told(event: Event) -> News:
    """An event of the story, as a piece of news."""
    at = event.at.isoformat()
    if event.kind != "jobs":
        return News("state", event.seq, {"kind": event.kind, "at": at, **event.data})
    items = event.data["jobs"]
    if len(items) > _MOST_JOBS:
        return News("items", event.seq, {"at": at, "many": True, "count": len(items)})
    return News("items", event.seq, {"at": at, "items": items})


def figures(progress: Progress) -> dict[str, Any]:
    """How far the batch is."""
    return shapes.Progress.seen(progress).model_dump(mode="json")


def pulse(progress: Progress, seen_at: float) -> dict[str, Any]:
    """A sign of life. Its time is that of the beat by the database's clock, which is not asked: it is as much later
    than when the batch was looked at as our own clock has moved since *seen_at*.
    """
    since = time.monotonic() - seen_at
    last, left = progress.last_progress_at, progress.stalls_in
    return {
        "server_time": (progress.now + timedelta(seconds=since)).isoformat(),
        "last_progress_at": last.isoformat() if last else None,
        "stalls_in_s": None if left is None else max(0.0, left - since),
        "state": progress.state,
    }
