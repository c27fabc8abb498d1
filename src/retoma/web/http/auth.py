"""Who is here, and what they may: hosts, origins, keys and scopes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends
from starlette.requests import Request

from retoma.access import ADMIN, same_secret
from retoma.app import Retoma
from retoma.errors import NotFound
from retoma.web.headers import correlation_of
from retoma.web.problems import Refusal

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
COOKIE = "retoma_key"
"""Where a browser keeps the key of somebody who signed in."""
_PASSED_ON = ("forwarded", "via", "x-real-ip", *(f"x-forwarded-{each}" for each in ("for", "host", "prefix", "proto")))


@dataclass(frozen=True, slots=True)
class Place:
    """Where the routes stand: on which app, and under which names it may be called."""

    app: Retoma
    hosts: frozenset[str]
    _rooms: dict[Callable[[Retoma], Any], Any] = field(default_factory=dict)

    def room(self, make: Callable[[Retoma], T]) -> T:
        """What *make* gives for the app, the same for all requests: some of them do their work together."""
        if make not in self._rooms:
            self._rooms[make] = make(self.app)
        return self._rooms[make]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Need:
    """What an endpoint asks of its callers."""

    scope: str | None
    limited: bool
    once: bool
    streamed: bool
    plain: bool


def needs(
    scope: str | None, *, limited: bool = False, once: bool = True, streamed: bool = False, plain: bool = False
) -> Callable[[F], F]:
    """Say which scope an endpoint asks for; None lets everybody in.

    A key that is limited to some pipelines is turned away, unless the endpoint is *limited*: then it sees to the
    limit itself, with ``visit.only`` or ``visit.see``. A change without *once* has no transaction around it and knows
    no Idempotency-Key: it must be harmless when it is repeated. A *streamed* one also reads its body by itself. A
    *plain* one is given the request and nothing else, and gives a Response: to find out what the others are to be given
    costs more than most of what an upload does.
    """

    def mark(endpoint: F) -> F:
        vars(endpoint)["need"] = Need(scope, limited, once and not streamed, streamed, plain)
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

    def may(self, scope: str) -> bool:
        """Whether the caller has *scope*."""
        return scope in self.scopes or ADMIN in self.scopes

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
    place: Place = request.state.retoma
    refuse_strange_hosts(request)
    refuse_other_sites(request)
    visit = await _recognised(request, place)
    if need.scope and not visit.may(need.scope):
        raise Refusal("scope_required", scope=need.scope)
    if visit.pipelines is not None and not need.limited:
        raise Refusal("pipelines_limited", pipelines=", ".join(visit.pipelines))
    request.state.visit = visit
    return visit


async def _recognised(request: Request, place: Place) -> Visit:
    app = place.app
    given = request.headers.get("authorization")
    if given is not None:
        scheme, _, text = given.partition(" ")
        visit = await opened_by(request, text) if scheme.lower() == "bearer" else None
        if visit is None:
            raise Refusal("auth_invalid")
        return visit
    # The browser keeps it from other sites already; this is for browsers that do not.
    text = "" if request.headers.get("sec-fetch-site") == "cross-site" else request.cookies.get(COOKIE, "")
    if text and (visit := await opened_by(request, text)):
        return visit
    if app.settings.api_key is None and is_local(request) and not (await app.access.tally()).existing:
        return Visit(app, correlation_of(request), "local")
    raise Refusal("auth_invalid" if text else "auth_missing")


async def opened_by(request: Request, text: str) -> Visit | None:
    """The visit of whoever holds the key *text*; None when it opens nothing."""
    place: Place = request.state.retoma
    secret, correlation = place.app.settings.api_key, correlation_of(request)
    if secret is not None and same_secret(text, secret.get_secret_value()):
        return Visit(place.app, correlation, "environment")
    if key := await place.app.access.recognise(text):
        limit = None if key.pipelines is None else tuple(key.pipelines)
        return Visit(place.app, correlation, key.id, frozenset(key.scopes), limit)
    return None


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
    place: Place = request.state.retoma
    host = _host(request)
    if not is_loopback(host) and host not in place.hosts:
        raise Refusal("host_not_allowed", host=repr(host[:100]))


def refuse_other_sites(request: Request) -> None:
    """A browser sends along what it holds for us, such as a cookie, or being on this machine; a key in the header it
    does not send by itself.
    """
    if request.method in SAFE or "authorization" in request.headers:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "").lower()
    strange = origin is not None and origin.lower().partition("://")[2] != host
    if strange if site is None else site not in ("same-origin", "none"):
        raise Refusal("cross_site_blocked")
