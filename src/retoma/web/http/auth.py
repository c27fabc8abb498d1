"""Who is here, and what they may: hosts, origins, keys and scopes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends
from starlette.requests import Request

from retoma.app.access.audit import Entry, as_noted
from retoma.app.access.keys import ADMIN, SCOPES, Key, same_secret
from retoma.app.access.people import FREE_BY_NAME, ROLES, SignInRefused, User
from retoma.app.access.sessions import Recognised
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError, NotFound
from retoma.model.batch import Batch
from retoma.values.text import storable
from retoma.web.http.admission import Admission
from retoma.web.http.auth_attempts import Tries, network_of
from retoma.web.http.errors import Refusal
from retoma.web.http.headers import correlation_of
from retoma.web.http.session_cookie import Token, session_in
from retoma.web.http.stream_followers import OpenedBy

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
CONTENT = "content:read"
LOCAL, ENVIRONMENT, NOBODY, HOST = "local", "environment", "nobody", "host"
"""Who comes without a key of their own: with the token of this machine, with the key of the environment, or not; and
whom the application around ours knows.
"""
_LONGEST_NAME = 100
_PASSED_ON = ("forwarded", "via", "x-real-ip", *(f"x-forwarded-{each}" for each in ("for", "host", "prefix", "proto")))


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody whom the application around ours has let in: a name for the audit, and scopes."""

    name: str
    scopes: frozenset[str]

    def __init__(self, name: str, scopes: Iterable[str]) -> None:
        unknown = set(scopes) - SCOPES.keys()
        if not name or unknown:
            raise ConfigurationError(
                f"There is no scope {', '.join(sorted(unknown))}." if unknown else "A principal needs a name.",
                next=f"Scopes are {', '.join(SCOPES)}.",
            )
        object.__setattr__(self, "name", storable(name[:_LONGEST_NAME]))
        object.__setattr__(self, "scopes", frozenset(scopes))


HostAuth = Callable[[Request], Awaitable[Principal | None] | Principal | None]
"""How the application around ours says who asks; None when it does not know them."""


@dataclass(frozen=True, slots=True)
class SiteContext:
    """Where the routes stand: on which app, under which names it may be called, and how the application around it says
    who asks and where people sign in.
    """

    app: Retoma
    hosts: frozenset[str]
    admission: Admission
    auth: HostAuth | None = None
    sign_in: str | None = None
    _rooms: dict[Callable[[Retoma], Any], Any] = field(default_factory=dict)

    def room(self, make: Callable[[Retoma], T]) -> T:
        """What *make* gives for the app, the same for all requests: some of them do their work together."""
        if make not in self._rooms:
            self._rooms[make] = make(self.app)
        return self._rooms[make]  # type: ignore[no-any-return]

    async def close(self) -> None:
        """End what those that were made still do, while the database is there."""
        for made in self._rooms.values():
            if (end := getattr(made, "close", None)) is not None:
                await end()


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
    """What the caller or their key is called."""
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
    if need.scope and request.method not in SAFE and place.app.settings.web_read_only == "on":
        raise Refusal("read_only")
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
    if place.auth is not None and (visit := await _host_knows(request, place)) is not None:
        return visit
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
    open_here = app.settings.token == "off" and place.auth is None  # noqa: S105 - not a secret
    if open_here and is_local(request) and await is_keyless(place):
        return _visit_of(request, place, LOCAL)
    raise Refusal("auth_invalid" if text else "auth_missing")


async def _host_knows(request: Request, place: SiteContext) -> Visit | None:
    """The visit of whoever the application around ours knows."""
    assert place.auth is not None
    said = place.auth(request)
    principal = await said if isinstance(said, Awaitable) else said
    if principal is None:
        return None
    visit = _visit_of(request, place, f"{HOST}:{principal.name}")
    visit.name, visit.scopes = principal.name, principal.scopes
    return visit


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
    tries.wrong(address, _refused(request, action, "key" if named else None, named[1] if named else None))
    return None


async def named_by(request: Request, name: str, password: str) -> User | None:
    """The account of whoever knows its *name* and *password*; None when these let nobody in, which is counted and
    written down.
    """
    place: SiteContext = request.state.retoma
    try:
        user = await place.app.access.people.sign_in(name, password, address=network_of(address_of(request)))
    except SignInRefused as error:
        place.room(Tries).refused(_refused(request, "session.refuse", "user", None))
        wait = {"Retry-After": str(error.seconds)}
        raise Refusal("sign_in_refused", headers=wait, seconds=error.seconds, limit=FREE_BY_NAME) from None
    if user is None:
        place.room(Tries).refused(_refused(request, "session.refuse", "user", None))
    return user


def write_refused_sign_in(request: Request, *, why: str) -> None:
    """Write down that somebody came back from an OpenID provider and was not let in."""
    place: SiteContext = request.state.retoma
    entry = _refused(request, "session.refuse", "user", None)
    place.room(Tries).refused(replace(entry, after=as_noted({"why": why[:200]})))


def _refused(request: Request, action: str, kind: str | None, id: str | None) -> Entry:
    return Entry(
        who=NOBODY,
        via="http",
        address=address_of(request),
        route=f"{request.method} {request.url.path}",
        action=action,
        object_kind=kind,
        object_id=id,
        correlation_id=correlation_of(request),
        outcome="refused",
    )


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
    visit = _visit_of(request, place, _caller_of(found), key=found.key, session_id=found.id)
    if found.user is not None:
        visit.name, visit.scopes = found.user.name, ROLES[found.user.role]
    return visit


def _caller_of(found: Recognised) -> str:
    if found.user is not None:
        return found.user.id
    return found.key.id if found.key else {"environment": ENVIRONMENT, "token": LOCAL}[found.opened_by]


def visit_of_user(request: Request, user: User) -> Visit:
    """The visit of somebody who has just shown that the account *user* is theirs."""
    visit = _visit_of(request, request.state.retoma, user.id)
    visit.name, visit.scopes = user.name, ROLES[user.role]
    return visit


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
    own = visit.caller not in (LOCAL, ENVIRONMENT) and not visit.caller.startswith(f"{HOST}:")
    return OpenedBy(visit.caller if visit.session_id is None and own else None, visit.session_id)


async def signed_in(request: Request) -> Visit | None:
    """The visit of whoever has signed in with this browser, if it is so still."""
    text = session_in(request)
    return await _signed_in(request, request.state.retoma, text) if text else None


async def is_keyless(place: SiteContext) -> bool:
    """Whether there is no key or account, never was one, and nobody else says who may come in: then the token of this
    machine opens.
    """
    if place.app.settings.api_key is not None or place.auth is not None:
        return False
    return not (await place.app.access.tally()).existing


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
