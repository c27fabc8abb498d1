"""Wrong keys: an address that tries too many is sent away, and what was refused is written down, a bounded part of it.

Counted in each server process by itself. The audit has at most two rows a minute for the same refusal from the same
address: one soon after the first, and one with the number of all the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

from retoma.app.access.audit import Entry, tell
from retoma.app.retoma import Retoma
from retoma.postgres.faults import UNAVAILABLE
from retoma.system.concurrency import cancel_and_wait
from retoma.telemetry import emit
from retoma.telemetry.events import TriesRefused
from retoma.web.http.errors import Refusal

K = TypeVar("K")

MOST_ADDRESSES = 10_000
"""How many addresses are told apart within a minute; the others are counted together, and not sent away."""
OTHERS = "others"
WINDOW = 60.0
"""Seconds in which tries are counted."""
_SOON = 1.0
_MOST_KNOWN = 1000


@dataclass(slots=True)
class _Window:
    """What came within a minute."""

    since: float = field(default_factory=time.monotonic)
    times: int = 0
    unwritten: int = 0
    written: bool = False
    entry: Entry | None = None

    @property
    def over(self) -> bool:
        return time.monotonic() - self.since >= WINDOW

    @property
    def done(self) -> bool:
        return self.over and not self.unwritten


class Tries:
    """The wrong keys that came to this process."""

    def __init__(self, app: Retoma) -> None:
        self._audit = app.audit
        self._most = app.settings.web_tries
        self._addresses: OrderedDict[str, _Window] = OrderedDict()
        self._refusals: OrderedDict[tuple[str, str, str], _Window] = OrderedDict()
        self._known: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        self._writing: asyncio.Task[None] | None = None

    def check(self, address: str, text: str) -> None:
        """Refuse an address that tried too often; not somebody there whose key has opened before."""
        window = self._addresses.get(network_of(address))
        if window is None or window.over or window.times < self._most or _known(address, text) in self._known:
            return
        left = max(1, round(WINDOW - (time.monotonic() - window.since)))
        raise Refusal("too_many_tries", headers={"Retry-After": str(left)}, seconds=left, limit=self._most)

    def opened(self, address: str, text: str) -> None:
        """A key was right: whoever has it is not sent away for what others try."""
        self._known[_known(address, text)] = None
        self._known.move_to_end(_known(address, text))
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def wrong(self, address: str, entry: Entry) -> None:
        """A key was wrong."""
        network = network_of(address)
        window = _window(self._addresses, network)
        if window is not None:
            window.times += 1
            if window.times == self._most:
                emit(TriesRefused(address=network, tries=window.times))
        self.refused(entry)

    def refused(self, entry: Entry) -> None:
        """Write down that something was refused; soon, and together with what is refused like it."""
        key = (entry.address or "", entry.who, entry.action)
        window = _window(self._refusals, key)
        if window is None:
            window = self._refusals.setdefault((OTHERS, OTHERS, entry.action), _Window())
        window.unwritten += 1
        window.entry = window.entry or entry
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._keep_writing(), context=contextvars.Context())

    async def _keep_writing(self) -> None:
        while self._refusals:
            await asyncio.sleep(_SOON)
            with contextlib.suppress(*UNAVAILABLE):  # it is written at the next look
                await self._write()
            for key in [key for key, window in self._refusals.items() if window.done]:
                del self._refusals[key]

    async def _write(self, *, all: bool = False) -> None:
        for window in list(self._refusals.values()):
            times, entry = window.unwritten, window.entry
            if not times or entry is None or not (all or window.over or not window.written):
                continue
            said = replace(entry, times=times)
            await self._audit.write(said)
            tell(said)
            window.unwritten -= times
            window.written = True

    async def close(self) -> None:
        """Write down what is left."""
        if self._writing is not None:
            await cancel_and_wait(self._writing)
            with contextlib.suppress(*UNAVAILABLE):
                await self._write(all=True)


def _window(windows: OrderedDict[K, _Window], key: K) -> _Window | None:
    """That of *key*, a new one when its minute is over; None when there are too many."""
    found = windows.get(key)
    if found is not None and not found.done:
        return found
    windows.pop(key, None)
    while windows and next(iter(windows.values())).done:
        windows.popitem(last=False)
    if len(windows) >= MOST_ADDRESSES:
        return None
    return windows.setdefault(key, _Window())


def _known(address: str, text: str) -> tuple[str, bytes]:
    return address, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def network_of(address: str) -> str:
    """One who has a whole network of IPv6 counts once."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(found, IPv6Address) and not found.is_loopback and found.ipv4_mapped is None:
        return f"{IPv6Address(int(found) >> 64 << 64)}/64"
    return str(found)
