"""Who is connected: how many at once, from where, and who is let go when there is no room for others."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol

from retoma.app.retoma import Retoma
from retoma.system.settings import SPARE_CONNECTIONS, Settings
from retoma.telemetry import emit
from retoma.telemetry.events import CallersRefused
from retoma.web.http.errors import Refusal

TURNED_AWAY = frozenset({"too_many_connections", "overloaded"})
"""What a caller is told for whom there is no room."""
_FEWEST = 16
_PATIENCE_SECONDS = 1.0  # that a request under way may wait for its client, before it gives way to another
_TOLD_EVERY = 1.0  # seconds between two lines in the log about the same
_OF_STREAMS = 0.75  # of the connections, so that whoever asks for something else still has a place


class Waiting(NamedTuple):
    """What the server waits for: how little is lost when it is given up, since when, and for how long at most."""

    rank: int
    since: float
    most: float | None


class Connection(Protocol):
    """What is counted here."""

    address: str | None
    answered: int

    def waiting(self) -> Waiting | None: ...
    def give_up(self) -> None: ...
    def let_go(self) -> None: ...


def room(settings: Settings) -> int:
    """How many connections a process may have: as many as are set, or as descriptors allow. Where more descriptors may
    be had than the process has now, it takes them.
    """
    wanted = settings.web_files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted and soft != resource.RLIM_INFINITY:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return settings.web_connections
    return max(_FEWEST, soft - (wanted - settings.web_connections))


class Trusted(Protocol):
    """Whether an address is that of a proxy which is believed."""

    def __contains__(self, address: Any, /) -> bool: ...


class Connections:
    """The connections of one process. A proxy that is *trusted* speaks for many, and has no limit of its own."""

    def __init__(self, settings: Settings, trusted: Trusted) -> None:
        self.limits = settings
        self.most = room(settings)
        self._trusted = trusted
        self._all: set[Connection] = set()
        self._from: Counter[str] = Counter()
        self._told = Told()

    def admit(self, new: Connection) -> str | None:
        """Count *new* in. When there is no room, whoever has kept the server waiting goes; when there is nobody, the
        code of what *new* is to be told.
        """
        self._all.add(new)
        if new.address is not None and new.address not in self._trusted:
            self._from[new.address] += 1
            crowded = self._from[new.address] > self.limits.web_connections_per_address
            if crowded and not self._make_room(new, new.address):
                return "too_many_connections"
        if len(self._all) > self.most and not self._make_room(new):
            if len(self._all) > self.most + SPARE_CONNECTIONS:
                new.let_go()
            return "overloaded"
        return None

    def leave(self, gone: Connection) -> None:
        """Count *gone* out; once, however often it is said."""
        if gone not in self._all:
            return
        self._all.discard(gone)
        if gone.address is not None and gone.address in self._from:
            self._from[gone.address] -= 1
            if not self._from[gone.address]:
                del self._from[gone.address]

    def refused(self, code: str) -> None:
        """Somebody was refused for *code*; now and then the log is told."""
        self._told.add(code)

    def _make_room(self, new: Connection, address: str | None = None) -> bool:
        now = asyncio.get_running_loop().time()

        def candidates() -> Iterator[tuple[int, bool, float, Connection]]:
            for each in self._all:
                if each is new or (address is not None and each.address != address):
                    continue
                waiting = each.waiting()
                if waiting and (waiting.rank > 1 or now - waiting.since > _PATIENCE_SECONDS):
                    yield waiting.rank, not each.answered, now - waiting.since, each

        found = max(candidates(), key=lambda each: each[:3], default=None)
        if found is None:
            return False
        self.leave(found[3])
        found[3].let_go()
        self._told.add("connection_let_go")
        return True

    async def keep_looking(self) -> None:
        """End what keeps the server waiting for too long, until cancelled."""
        limits = self.limits
        every = min(1.0, limits.web_header_seconds / 4, limits.web_body_seconds / 4)
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(every)
            now = loop.time()
            if now - before > 2 * every + 0.5:
                continue  # the process was held up: what has come meanwhile is read first
            for each in list(self._all):
                waiting = each.waiting()
                if waiting and waiting.most is not None and now - waiting.since > waiting.most:
                    each.give_up()


class Streams:
    """The streams of one process: they last long, so nobody may have all of them."""

    def __init__(self, app: Retoma) -> None:
        settings = app.settings
        self._most_per_key = settings.web_streams_per_key
        self._most_per_address = settings.web_streams_per_address
        self._most = max(1, int(room(settings) * _OF_STREAMS))
        self._of: Counter[tuple[str, str]] = Counter()
        self._all = 0
        self._told = Told()

    def check(self, caller: str, address: str) -> None:
        """Refuse one more stream of *caller* at *address*, when they have their share."""
        of_key, of_address = self._of["key", caller], self._of["address", address]
        if of_key < self._most_per_key and of_address < self._most_per_address and self._all < self._most:
            return
        self._told.add("too_many_streams")
        limit = self._most_per_key if of_key >= self._most_per_key else min(self._most_per_address, self._most)
        raise Refusal("too_many_streams", limit=limit)

    @contextmanager
    def one(self, caller: str, address: str) -> Iterator[None]:
        """A stream meanwhile."""
        marks = (("key", caller), ("address", address))
        self._all += 1
        self._of.update(marks)
        try:
            yield
        finally:
            self._all -= 1
            for mark in marks:
                self._of[mark] -= 1
                if not self._of[mark]:
                    del self._of[mark]


class Told:
    """Tells the log of those who were refused: once a second for each reason, however many they are."""

    def __init__(self) -> None:
        self._refused: Counter[str] = Counter()
        self._told_at: dict[str, float] = {}

    def add(self, code: str) -> None:
        self._refused[code] += 1
        if time.monotonic() - self._told_at.get(code, 0.0) >= _TOLD_EVERY:
            emit(CallersRefused(code=code, callers=self._refused.pop(code)))
            self._told_at[code] = time.monotonic()
