"""Who is here, and what they may: hosts, origins, keys and scopes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends
from starlette.requests import Request

from retoma.access.audit import Entry, as_noted
from retoma.access.keys import ADMIN, Key, same_secret
from retoma.app.retoma import Retoma
from retoma.errors import NotFound
from retoma.model.batch import Batch
from retoma.web.http.admission import Admission
from retoma.web.http.auth_attempts import Tries
from retoma.web.http.errors import Refusal
from retoma.web.http.headers import correlation_of
from retoma.web.http.session_cookie import Token, session_in
from retoma.web.http.stream_followers import OpenedBy

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
CONTENT = "content:read"
LOCAL, ENVIRONMENT, NOBODY = "local", "environment", "nobody"
"""Who comes without a key of their own: with the token of this machine, with the key of the environment, or not."""
_PASSED_ON = ("forwarded", "via", "x-real-ip", *(f"x-forwarded-{each}" for each in ("for", "host", "prefix", "proto")))


@dataclass(frozen=True, slots=True)
class SiteContext:
    """Where the routes stand: on which app, and under which names it may be called."""

    app: Retoma
    hosts: frozenset[str]
    admission: Admission
    _rooms: dict[Callable[[Retoma], Any], Any] = field(default_factory=dict)

    def room(self, make: Callable[[Retoma], T]) -> T:
        """What *make* gives for the app, the same for all requests: some of them do their work together."""
        if make not in self._rooms:
            self._rooms[make] = make(self.app)
        return self._rooms[make]  # type: ignore[no-any-return]


Tagged = Callable[["Visit", Request], Awaitable[str | None]]
"""Finds the tag of an answer; None where it is made from the answer itself."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an endpoint asks of its callers."""

    scope: str | None
    limited: bool
    once: bool
    streamed: bool
    records: bool
    plain: bool
    tag: Tagged | None
    costs: bool
    refuses: tuple[str, ...]


def needs(
    scope: str | None,
    *,
    limited: bool = False,
    once: bool = True,
    streamed: bool = False,
    records: bool = False,
    plain: bool = False,
    tag: Tagged | None = None,
    costs: bool = False,
    refuses: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Say which scope an endpoint asks for; None lets everybody in.

    A key that is limited to some pipelines is turned away, unless the endpoint is *limited*: then it sees to the
    limit itself, with ``visit.only`` or ``visit.see``. A change without *once* has no transaction around it and knows
    no Idempotency-Key: it must be harmless when it is repeated. A *streamed* one also reads its body by itself. One
    that *records* writes its rows of the audit in the transactions of its changes, and needs none before them. A
    *plain* one is given the request and nothing else, and gives a Response: to find out what the others are to be given
    costs more than most of what an upload does. *tag* finds out what the answer depends on, without making it. A look
    that *costs* may ask a provider, so pages of other sites may not make it. *refuses* are the codes of problems that
    this endpoint has beside those that follow from all of this.
    """

    def mark(endpoint: F) -> F:
        vars(endpoint)["need"] = Need(
            scope, limited, once and not streamed, streamed, records, plain, tag, costs, refuses
        )
        return endpoint

    return mark


@dataclass(slots=True)
class Visit:
    """One request: on which app, by whom, what they may, and the transaction of all that it changes."""

    app: Retoma
    correlation_id: str
    caller: str
    scopes: frozenset[str] = frozenset({ADMIN})
    pipelines: tuple[str, ...] | None = None
    conn: object = None
    known: Batch | None = None
    """The batch that the path names, when it was looked at before."""
    name: str | None = None
    """What the caller's key is called."""
    address: str | None = None
    session_id: str | None = None
    """That of somebody who signed in with a browser."""
    expires_at: datetime | None = None
    """When the caller's key expires, if that is soon."""
    noted: dict[str, Any] = field(default_factory=dict)
    """What the audit is to say beside how things stand; never content."""
    looked: bool = False
    """Whether the caller was shown content."""
    unchanged: bool = False
    """Whether a route that changes something has only asked whether it should."""
    entry: Entry | None = None
    """What the audit is to say of a change, when the change itself has it written."""
    audited: bool = False
    """Whether the audit has a row of the change."""

    def may(self, scope: str) -> bool:
        """Whether the caller has *scope*. Whoever asks that about content shows it then, and the audit has it."""
        has = scope in self.scopes or ADMIN in self.scopes
        self.looked |= has and scope == CONTENT
        return has

    def only(self, pipeline: str | None) -> str | None:
        """The one pipeline to look at, when the caller asked for *pipeline* or is limited to one; else None."""
        if self.pipelines is None or pipeline in self.pipelines:
            return pipeline
        if pipeline is None and len(self.pipelines) == 1:
            return self.pipelines[0]
        raise Refusal("pipelines_limited", pipelines=", ".join(self.pipelines))

    def see(self, pipeline: str, what: str) -> None:
        """Refuse *what* as if it were not there, when it belongs to a pipeline that the caller may not see."""
        if self.pipelines is not None and pipeline not in self.pipelines:
            raise NotFound(f"There is no {what}.")


async def _visit(request: Request) -> Visit:  # a plain function would be sent to a thread and back
    visit: Visit = request.state.visit
    return visit


Here = Annotated[Visit, Depends(_visit)]
"""What an endpoint asks for when it wants to know who is here."""


async def welcome(request: Request, need: Need) -> Visit:
    """Let the caller in, or say why not; what they sent has not been read yet."""
    place: SiteContext = request.state.retoma
    refuse_strange_hosts(request)
    refuse_other_sites(request, costs=need.costs)
    visit = await recognised(request, place)
    request.state.visit = visit
    if need.scope and not visit.may(need.scope):
        _write_refusal(request, visit, lacks=need.scope)
        raise Refusal("scope_required", scope=need.scope)
    if visit.pipelines is not None and not need.limited:
        _write_refusal(request, visit, limited_to=visit.pipelines)
        raise Refusal("pipelines_limited", pipelines=", ".join(visit.pipelines))
    return visit


def _write_refusal(request: Request, visit: Visit, **noted: object) -> None:
    place: SiteContext = request.state.retoma
    entry = Entry(
        who=visit.caller,
        name=visit.name,
        via="http",
        address=visit.address,
        route=f"{request.method} {request.url.path}",
        action="scope.refuse",
        after=as_noted(noted),
        correlation_id=visit.correlation_id,
        outcome="refused",
    )
    place.room(Tries).refused(entry)


async def recognised(request: Request, place: SiteContext) -> Visit:
    """Whoever asks, by their key; on this machine also without one, as long as nobody has made any."""
    app = place.app
    given = request.headers.get("authorization")
    if given is not None:
        scheme, _, text = given.partition(" ")
        visit = await opened_by(request, text if scheme.lower() == "bearer" else "")
        if visit is None:
            raise Refusal("auth_invalid")
        return visit
    text = session_in(request)
    if text and (visit := await _signed_in(request, place, text)):
        return visit
    if app.settings.token == "off" and is_local(request) and await is_keyless(place):  # noqa: S105 - not a secret
        return _visit_of(request, place, LOCAL)
    raise Refusal("auth_invalid" if text else "auth_missing")


async def opened_by(request: Request, text: str, *, action: str = "key.refuse") -> Visit | None:
    """The visit of whoever holds the key *text*; None when it opens nothing, which is counted and written down."""
    place: SiteContext = request.state.retoma
    tries, address = place.room(Tries), address_of(request)
    tries.check(address, text)
    visit = await _holder(request, place, text)
    if visit is not None:
        tries.opened(address, text)
        return visit
    named = re.match(r"rtm_([0-9a-f]{12})_", text)
    entry = Entry(
        who=NOBODY,
        via="http",
        address=address,
        route=f"{request.method} {request.url.path}",
        action=action,
        object_kind="key" if named else None,
        object_id=named[1] if named else None,
        correlation_id=correlation_of(request),
        outcome="refused",
    )
    tries.wrong(address, entry)
    return None


async def _holder(request: Request, place: SiteContext, text: str) -> Visit | None:
    secret = place.app.settings.api_key
    if secret is not None and same_secret(text, secret.get_secret_value()):
        return _visit_of(request, place, ENVIRONMENT)
    if key := await place.app.access.recognise(text):
        return _visit_of(request, place, key.id, key=key)
    token = place.room(Token).now() if text.startswith("rtl_") else None
    if token is not None and same_secret(text, token) and await is_keyless(place):
        return _visit_of(request, place, LOCAL)
    return None


async def _signed_in(request: Request, place: SiteContext, text: str) -> Visit | None:
    """The visit of whoever has the session *text*; None when it has ended, or when what it was opened with has."""
    secret = place.app.settings.api_key
    opened_with = {
        "environment": secret.get_secret_value() if secret is not None else None,
        "token": place.room(Token).now(),
    }
    found = await place.app.sessions.recognise(text, secrets=opened_with)
    if found is None or (found.opened_by == "token" and not await is_keyless(place)):
        return None
    caller = found.key.id if found.key else {"environment": ENVIRONMENT, "token": LOCAL}[found.opened_by]
    return _visit_of(request, place, caller, key=found.key, session_id=found.id)


def _visit_of(
    request: Request, place: SiteContext, caller: str, *, key: Key | None = None, session_id: str | None = None
) -> Visit:
    visit = Visit(place.app, correlation_of(request), caller, address=address_of(request), session_id=session_id)
    if key is not None:
        visit.name, visit.scopes = key.name, frozenset(key.scopes)
        visit.pipelines = None if key.pipelines is None else tuple(key.pipelines)
        visit.expires_at = key.expires_at if key.ends_soon else None
    return visit


def pass_of(visit: Visit) -> OpenedBy:
    """What lets the caller in, for a stream that must end with it."""
    key = visit.caller if visit.session_id is None and visit.caller not in (LOCAL, ENVIRONMENT) else None
    return OpenedBy(key, visit.session_id)


async def signed_in(request: Request) -> Visit | None:
    """The visit of whoever has signed in with this browser, if it is so still."""
    text = session_in(request)
    return await _signed_in(request, request.state.retoma, text) if text else None


async def is_keyless(place: SiteContext) -> bool:
    """Whether there is no key, and never was one: then the token of this machine opens."""
    return place.app.settings.api_key is None and not (await place.app.access.tally()).existing


def address_of(request: Request) -> str:
    """Where the caller is, as far as is known."""
    return request.client.host[:100] if request.client is not None else LOCAL


@lru_cache(maxsize=256)
def is_loopback(name: str) -> bool:
    """Whether *name* is this machine's own, for itself alone."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def is_local(request: Request) -> bool:
    """Whether the caller is on this machine, and not a proxy that says it speaks for others."""
    here = request.client is not None and is_loopback(request.client.host) and is_loopback(_host(request))
    return here and not any(name in request.headers for name in _PASSED_ON)


def _host(request: Request) -> str:
    try:
        return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def refuse_strange_hosts(request: Request) -> None:
    """Without this, any page could point a name of its own at 127.0.0.1 and read what we answer."""
    place: SiteContext = request.state.retoma
    host = _host(request)
    if not is_loopback(host) and host not in place.hosts:
        raise Refusal("host_not_allowed", host=repr(host[:100]))


def refuse_other_sites(request: Request, *, costs: bool = False) -> None:
    """A browser sends along what it holds for us, such as a cookie, or being on this machine; a key in the header it
    does not send by itself. To look is harmless, for other sites cannot read the answer, unless it *costs* something.
    """
    if (request.method in SAFE and not costs) or "authorization" in request.headers:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "").lower()
    strange = origin is not None and origin.lower().partition("://")[2] != host
    if strange if site is None else site not in ("same-origin", "none"):
        raise Refusal("cross_site_blocked")
