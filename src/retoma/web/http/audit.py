"""Who did what over HTTP: every route that changes something leaves a row, and so does every look at content. It is the
door that writes them; a route only has to stand under a noun that is known here.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import ChainMap, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response

from retoma.app.access.audit import Entry, as_noted, tell
from retoma.app.retoma import Retoma
from retoma.web.http.auth import SiteContext, Visit
from retoma.web.http.body import Sent

T = TypeVar("T")
Handle = Callable[[Sent], Awaitable[Response]]


class Recording(Protocol):
    """Writes the row of a change on the connection of its transaction; *made* is the id of what came into being."""

    async def __call__(self, conn: object, made: object = None) -> None: ...


NOUNS = {
    "batches": "batch",
    "jobs": "job",
    "queues": "queue",
    "schedules": "schedule",
    "calls": "call",
    "prices": "price",
    "limits": "limit",
    "breakers": "limit",
    "events": "batch",
    "audit": "audit",
    "operations": "operation",
    "errors": "error",
    "dead-letters": "job",
    "views": "view",
    "workers": "worker",
    "reviews": "review",
    "review": "review",
    "keys": "key",
    "users": "user",
    "sessions": "session",
    "webhooks": "webhook",
    "deliveries": "delivery",
    "new": "batch",
    "made": "batch",
    "alerts": "alert",
}
"""What a path speaks of, by its nouns; extensions add theirs."""

AGAIN = 60.0
"""Seconds in which the same look by the same caller is written once."""
_MOST_LOOKS = 10_000
_MOST_IDS = 20
_LARGEST_BODY = 100_000
_BAD = 400
_IDS = ("id", "execucao_id", "document_id", "job_id")


def nouns_of(app: Retoma) -> Mapping[str, str]:
    """What the paths of *app* speak of, by their nouns."""
    return dict(ChainMap(NOUNS, *(dict(each.audited) for each in app.extensions)))


def spoken_of(path: str, nouns: Mapping[str, str]) -> str | None:
    """The kind of what the path of a route speaks of: the noun before its first parameter, or the last there is."""
    before, _, _ = path.partition("{")
    found = [part for part in before.split("/") if part in nouns]
    return nouns[found[-1]] if found else None


def _entry(visit: Visit, request: Request, outcome: str) -> Entry:
    route, given = request.scope["route"], request.scope.get("path_params") or {}
    # What a router stands under is not in the route itself.
    path = request.scope["path"].removesuffix(route.path_format.format(**given)) + route.path_format
    # The first parameter: what comes after it is a part of it.
    first = re.search(r"\{(\w+)", path)
    kind = spoken_of(path, nouns_of(visit.app))
    return Entry(
        who=visit.caller,
        name=visit.name,
        via="http",
        address=visit.address,
        route=f"{request.method} {path}",
        # The kind of thing, and the verb with which the name of the route begins.
        action=f"{kind or 'site'}.{route.name.partition('_')[0]}",
        object_kind=kind,
        object_id=str(given[first[1]]) if first and first[1] in given else None,
        correlation_id=visit.correlation_id,
        outcome=outcome,
    )


def within(visit: Visit, handle: Handle, written: list[Entry]) -> Handle:
    """A change in the transaction of *visit*, with its row in the same one, which is *written* then; a change that is
    refused leaves none.
    """

    async def kept(sent: Sent) -> Response:
        entry = _entry(visit, sent, "done")
        before = await visit.app.audit.standing(entry.object_kind, entry.object_id, conn=visit.conn)
        response = await handle(sent)
        if response.status_code < _BAD and not visit.unchanged:
            entry = _finished(replace(entry, before=before), visit, response)
            await visit.app.audit.write(entry, conn=visit.conn)
            written.append(entry)
        return response

    return kept


async def beside(visit: Visit, sent: Sent, handle: Handle, *, records: bool = False) -> Response:
    """A change that is not one transaction, or has one of its own: what is there is noted before it, and how it ended
    right after, unless the change has written that itself (*recorded*). Of one that always *records*, nothing is noted
    before it.
    """
    entry, audit = _entry(visit, sent, "done"), visit.app.audit
    before = await audit.standing(entry.object_kind, entry.object_id)
    visit.entry = entry = replace(entry, before=before)
    if before is not None and not records:
        await audit.write(replace(entry, outcome="begun"))
    try:
        response = await handle(sent)
    except Exception:
        if before is not None or entry.object_id is None:
            failed = replace(entry, outcome="failed", after=as_noted(visit.noted))
            await audit.write(failed)
            tell(failed)
        raise
    if response.status_code < _BAD and not visit.unchanged and not visit.audited:
        done = _finished(entry, visit, response)
        await audit.write(done)
        tell(done)
    return response


async def recorded(visit: Visit, act: Callable[[Recording], Awaitable[T]]) -> T:
    """What *act* gives. It is handed what writes the row, and does that in the transaction of its change."""
    written: list[Entry] = []

    async def record(conn: object, made: object = None) -> None:
        assert visit.entry is not None
        entry = replace(visit.entry, after=as_noted(visit.noted))
        entry = entry if made is None else replace(entry, object_id=str(made))
        await visit.app.audit.write(entry, conn=conn)
        written.append(entry)

    result = await act(record)
    for entry in written:  # now that it is committed
        _tell_of(visit, entry)
    return result


def told_of(visit: Visit, made: object) -> None:
    """Say in the log that *made* came into being, with a row that was written with it."""
    assert visit.entry is not None
    _tell_of(visit, replace(visit.entry, object_id=str(made)))


def _tell_of(visit: Visit, entry: Entry) -> None:
    visit.audited = True
    tell(entry)


def _finished(entry: Entry, visit: Visit, response: Response) -> Entry:
    """*entry* with what came into being by it."""
    made = _made(response)
    if entry.object_id is None and len(made) == 1:
        return replace(entry, object_id=made[0], after=as_noted(visit.noted))
    return replace(entry, after=as_noted({**visit.noted, **({"made": made} if made else {})}))


def _made(response: Response) -> list[str]:
    """The ids of what a response tells of."""
    body = getattr(response, "body", b"")
    if led := re.search(r"/([0-9]+)(?:\?|$)", response.headers.get("location", "")):
        return [led[1]]
    if not isinstance(body, bytes) or not body.startswith((b"{", b"[")) or len(body) > _LARGEST_BODY:
        return []
    told: Any = orjson.loads(body)
    lists = [value for value in told.values() if isinstance(value, list)] if isinstance(told, dict) else [told]
    if isinstance(told, dict) and (own := _id_of(told)):
        return [own]
    return [id for each in lists for one in each[:_MOST_IDS] if isinstance(one, dict) and (id := _id_of(one))]


def _id_of(told: dict[str, Any]) -> str | None:
    return next((str(told[name]) for name in _IDS if isinstance(told.get(name), int | str)), None)


class Looks:
    """Who looked at what lately: a page that asks again every second is one look a minute."""

    def __init__(self, app: Retoma) -> None:
        self._audit = app.audit
        self._lately: OrderedDict[bytes, float] = OrderedDict()

    async def note(self, entry: Entry, address: str) -> None:
        """Write down that content is shown; it is not shown when that fails. *address* is that of the content."""
        said = "\0".join((entry.who, entry.address or "", entry.action, address))
        key, now = hashlib.sha256(said.encode()).digest(), time.monotonic()
        if now - self._lately.get(key, -AGAIN) < AGAIN:
            return
        await self._audit.write(entry)
        tell(entry)
        self._lately[key] = now
        self._lately.move_to_end(key)
        while len(self._lately) > _MOST_LOOKS:
            self._lately.popitem(last=False)


async def looked(visit: Visit, request: Request) -> None:
    """Write down that the caller is shown content."""
    place: SiteContext = request.state.retoma
    await place.room(Looks).note(_entry(visit, request, "looked"), f"{request.url.path}?{request.url.query}")
