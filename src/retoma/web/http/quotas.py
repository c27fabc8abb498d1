"""Quotas: what one API key may ask for in a minute, send in a day, and let wait. None is set unless somebody says so,
and none costs anything then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Literal

from starlette.requests import Request

from retoma.app.retoma import Retoma
from retoma.web.http.auth import SiteContext, Visit
from retoma.web.http.errors import Refusal
from retoma.web.server.connections import Told

_MINUTE = 60
_DAY = 86_400
_SLICE = 8_000_000  # bytes that are taken from the day at once, so that a large file is not a statement for each piece
_LATER_SECONDS = 10  # until some of the jobs that wait may have been taken


def limits(name: str, *, quota: int, window: int | None, left: int, seconds: int) -> dict[str, str]:
    """What a caller may still do, as the IETF's draft of the RateLimit headers has it."""
    per = "" if window is None else f";w={window}"
    return {"RateLimit-Policy": f'"{name}";q={quota}{per}', "RateLimit": f'"{name}";r={left};t={seconds}'}


class Quotas:
    """The quotas of an app, as one server process keeps them."""

    def __init__(self, app: Retoma) -> None:
        self._access = app.access
        settings = app.settings
        self._per_minute = settings.key_requests_per_minute
        self._bytes, self._files = settings.key_bytes_per_day, settings.key_files_per_day
        self.jobs = settings.key_jobs_waiting
        self._minutes: dict[str, tuple[float, int]] = {}
        self._told = Told()

    @property
    def counts_what_is_sent(self) -> bool:
        return self._bytes is not None or self._files is not None

    def count(self, caller: str) -> dict[str, str]:
        """Count one request of *caller*; the headers that tell how many are left."""
        most = self._per_minute
        if most is None:
            return {}
        now = time.monotonic()
        began, used = self._minutes.get(caller, (now, 0))
        if now - began >= _MINUTE:
            began, used = now, 0
        seconds = max(1, math.ceil(_MINUTE - (now - began)))
        if used >= most:
            raise self._refusal("requests", "RETOMA_KEY_REQUESTS_PER_MINUTE", most, _MINUTE, seconds)
        self._minutes[caller] = began, used + 1
        return limits("requests", quota=most, window=_MINUTE, left=most - used - 1, seconds=seconds)

    async def spend(self, caller: str, bytes: int, files: int) -> bool:
        """Take *bytes* and *files* from the day of *caller*; whether there was so much left."""
        return await self._access.spend(caller, bytes, files, most_bytes=self._bytes, most_files=self._files)

    async def refusal(self, caller: str, bytes: int, files: int) -> Refusal:
        """What a caller is told whose day has no room for that."""
        spent = await self._access.spent(caller)
        if self._files is not None and spent.files + files > self._files:
            return self._refusal("files", "RETOMA_KEY_FILES_PER_DAY", self._files, _DAY, spent.seconds)
        return self._refusal("bytes", "RETOMA_KEY_BYTES_PER_DAY", self._bytes or bytes, _DAY, spent.seconds)

    async def make_room(self, visit: Visit, jobs: int) -> None:
        """Refuse *jobs* more when too many of the caller's wait, and with that the change. Until it ends, nobody else
        adds to them.
        """
        if self.jobs is None:
            return
        waiting = await self._access.waiting(visit.caller, most=self.jobs + 1, conn=visit.conn)
        if waiting + jobs > self.jobs:
            raise self._refusal("jobs", "RETOMA_KEY_JOBS_WAITING", self.jobs, None, _LATER_SECONDS)

    def _refusal(self, name: str, setting: str, quota: int, window: int | None, seconds: int) -> Refusal:
        self._told.add("quota_exceeded")
        told = limits(name, quota=quota, window=window, left=0, seconds=seconds)
        headers = {"Retry-After": str(seconds), **told}
        return Refusal("quota_exceeded", headers=headers, setting=setting, limit=quota)


class Purse:
    """What one request takes of its caller's day: bytes in slices, of which the rest is given back."""

    def __init__(self, request: Request, *, slice: int = _SLICE) -> None:
        place: SiteContext = request.state.retoma
        visit: Visit | None = getattr(request.state, "visit", None)
        self._quotas = place.room(Quotas)
        self._caller = visit.caller if visit and self._quotas.counts_what_is_sent else None
        self._slice = slice
        self._left = 0

    async def pay(self, bytes: int = 0, files: int = 0) -> None:
        """Count what has come in; refused when the day has no room for it."""
        if self._caller is None:
            return
        if files or bytes > self._left:
            wanted = max(0, bytes - self._left)
            slice = max(wanted, self._slice) if wanted else 0
            if not await self._quotas.spend(self._caller, slice, files):
                slice = wanted  # there may be enough for this, if not for more
                if not await self._quotas.spend(self._caller, slice, files):
                    raise await self._quotas.refusal(self._caller, wanted, files)
            self._left += slice
        self._left -= bytes

    async def close(self) -> None:
        """Give back what was taken and not used."""
        if self._caller is not None and self._left:
            left, self._left = self._left, 0
            await self._quotas.spend(self._caller, -left, 0)


async def paid(request: Request, bytes: int) -> None:
    """Count a body that was read whole."""
    await Purse(request, slice=0).pay(bytes)


def quotas_of(request: Request) -> Quotas:
    place: SiteContext = request.state.retoma
    return place.room(Quotas)


async def submitted(request: Request, kind: Literal["job", "batch"], ids: Sequence[int]) -> None:
    """Write down what the caller has queued, where somebody counts it."""
    visit: Visit = request.state.visit
    if quotas_of(request).jobs is not None and ids:
        await visit.app.access.submitted(visit.caller, kind, ids, conn=visit.conn)
