"""The door: every route of the API is one, so that each request is let in, answered and refused in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from inspect import getdoc
from typing import Any

from fastapi import Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from retoma.app.access.audit import Entry, tell
from retoma.postgres.borrowing import BORROWER
from retoma.web.api.schemas.responses import Fault, Problem
from retoma.web.http import audit, errors
from retoma.web.http.admission import Ticket, current_ticket
from retoma.web.http.auth import SAFE, Need, SiteContext, Visit, welcome
from retoma.web.http.body import Sent
from retoma.web.http.error_codes import MATCH, answers_of, codes_of, problems_of, queries_of
from retoma.web.http.errors import ProblemResponse, Refusal
from retoma.web.http.etags import tag_of
from retoma.web.http.headers import dressed
from retoma.web.http.idempotency import Handle, changed
from retoma.web.http.quotas import paid, quotas_of
from retoma.web.http.request_deadline import Attended

_KEY = HTTPBearer(scheme_name="key", bearerFormat="rtm_<id>_<secret>", auto_error=False)
_ONCE = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Repeated within a day with the same key and body, the change is answered again and not done again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x21-\\x7e]+$"},
    "example": "order-4711",
}
_OK, _NO_CONTENT, _NOT_MODIFIED = 200, 204, 304
_UNKNOWN, _TWICE = "Extra inputs are not permitted", "This name comes more than once"
_SPARE = 5.0  # seconds
_OF_THE_PAGE = ("content-security-policy", "vary", "cache-control")


class ApiRoute(APIRoute):
    """A route that knows which scope it asks for (``needs``), reads strictly, and tells problems as problems."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        need = _need(endpoint)
        told = (getdoc(endpoint) or "").partition("\n\n")[0].replace("\n", " ")
        options["summary"] = re.split(r"(?<=[.;:])\s", told)[0].rstrip(".;:")
        changes = not SAFE.issuperset(options.get("methods") or ())
        self.queries = queries_of(endpoint)
        self.codes = codes_of(need, path, self.queries, changes=changes)
        given: dict[int | str, dict[str, Any]] = options.get("responses") or {}
        streams = any("text/event-stream" in each.get("content", ()) for each in given.values())
        usual = options.get("status_code") or _OK
        others = [status for status in given if isinstance(status, int) and status < _NOT_MODIFIED]
        answers = answers_of(need, [usual, *others], self.queries, changes=changes, streams=streams)
        options["responses"] = _joined(problems_of(self.codes), answers, given)
        extra: dict[str, Any] = options.get("openapi_extra") or {}
        headers = [_ONCE] if changes and need.once else []
        headers += [MATCH] if "precondition_failed" in need.refuses else []
        options["openapi_extra"] = {**extra, "parameters": headers} if headers else extra
        options["response_model_exclude_unset"] = True
        if need.scope:
            options["dependencies"] = [*(options.get("dependencies") or ()), Security(_KEY, scopes=[need.scope])]
        if options.get("status_code") == _NO_CONTENT:
            # Such a route has no answer but problems. That makes it the one kind of route on which FastAPI can be
            # told of the shape itself under its right media type; all others refer to it.
            options["response_class"] = ProblemResponse
            options["responses"][500]["model"] = Problem
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        need = _need(self.endpoint)
        handle = self.endpoint if need.plain else super().get_route_handler()

        async def known(sent: Sent) -> Response:
            if need.scope is not None and not self.is_page(sent):
                _refuse_names(sent, self.queries)
            return await handle(sent)

        async def enter(request: Request) -> Response:
            try:
                response = await _attended(Sent(request.scope, request.receive), need, known)
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told a problem
                response = self.told(request, error)
            for name, value in getattr(request.state, "quota", {}).items():
                response.headers.setdefault(name, value)
            return dressed(request, response)

        return enter

    def told(self, request: Request, error: Exception) -> Response:
        """What the caller is told of *error*."""
        return errors.answer(request, error)

    def is_page(self, _request: Request) -> bool:
        """Whether a person is answered, who may come with an address that somebody else has added to."""
        return False


def _refuse_names(request: Request, known: dict[str, bool]) -> None:
    """A name that is not known is a filter that would not be used, and of one that comes twice only one would be."""
    seen: set[str] = set()
    faults = []
    for name, _ in request.query_params.multi_items():
        if name not in known:
            faults.append(Fault(pointer=f"?{name}"[:100], code="extra_forbidden", detail=_UNKNOWN))
        elif name in seen and not known[name]:
            faults.append(Fault(pointer=f"?{name}"[:100], code="given_twice", detail=_TWICE))
        seen.add(name)
    if faults:
        raise Refusal("validation_failed", faults=faults)


async def _attended(sent: Sent, need: Need, handle: Handle) -> Response:
    place: SiteContext | None = getattr(sent.state, "retoma", None)
    if place is None:
        return await _served(sent, need, handle)
    settings, looks = place.app.settings, sent.method in SAFE
    # A browser that is refused a stream does not come again, and a server that starts meets all of them at once.
    follows = "text/event-stream" in sent.headers.get("accept", "")
    patience = settings.web_deadline_seconds if looks and follows else None
    ticket = Ticket(place.admission, read=looks, patience=patience)
    if looks:
        # Whoever only looks is answered soon or not at all, and has one place for all that it asks.
        async with Attended(ticket, settings.web_deadline_seconds, sent.receive):
            if need.scope is None:
                return await _served(sent, need, handle)
            async with ticket:
                return await _served(sent, need, handle)
    BORROWER.set(ticket)
    try:
        return await _served(sent, need, handle)
    finally:
        ticket.retire()


async def _served(sent: Sent, need: Need, handle: Handle) -> Response:
    if "\0" in sent.scope["path"] or b"%00" in sent.scope["query_string"]:
        raise Refusal("invalid_text", what="U+0000", place="the URL")
    if need.scope is None:
        return await handle(sent)
    visit = await welcome(sent, need)
    sent.state.quota = quotas_of(sent).count(visit.caller)
    if sent.method not in SAFE:
        response = await _changed(visit, need, sent, handle)
        sent.state.newsroom.changed()
        if visit.looked and visit.unchanged:  # a question or a refusal that shows what it is about
            await audit.looked(visit, sent)
        return _warned(visit, response)
    response = _warned(visit, await _shown(visit, need, sent, handle))
    if visit.looked and response.status_code == _OK:
        await audit.looked(visit, sent)
    return response


def _warned(visit: Visit, response: Response) -> Response:
    """*response*, which says so when the caller's key expires soon."""
    if visit.expires_at is not None:
        response.headers["Retoma-Key-Expires"] = visit.expires_at.isoformat()
    return response


async def _shown(visit: Visit, need: Need, sent: Sent, handle: Handle) -> Response:
    tag = await need.tag(visit, sent) if need.tag else None
    if tag and _has_seen(sent, tag):
        return Response(status_code=_NOT_MODIFIED, headers={"ETag": tag})
    response = await handle(sent)
    if tag and response.status_code == _OK:
        response.headers["ETag"] = tag
        return response
    return _unless_seen(sent, response)


async def _changed(visit: Visit, need: Need, sent: Sent, handle: Handle) -> Response:
    if need.streamed:
        return await audit.beside(visit, sent, handle, records=need.records)
    body = await sent.read(limit=visit.app.settings.web_body_bytes)
    await paid(sent, len(body))
    # A statement has a deadline of its own; this is for all that a change consists of, and for a pooler, behind which
    # the server sets none.
    settings = visit.app.settings
    async with Attended(current_ticket(), max(settings.web_deadline_seconds, settings.statement_seconds + _SPARE)):
        if need.once:
            written: list[Entry] = []
            response = await changed(visit, sent, body, audit.within(visit, handle, written))
            for entry in written:  # once it is committed
                tell(entry)
            return response
        return await audit.beside(visit, sent, handle, records=need.records)


def _unless_seen(sent: Sent, response: Response) -> Response:
    """304 when the caller has seen this very answer; a stream has no tag."""
    if response.status_code != _OK or not isinstance(getattr(response, "body", None), bytes):
        return response
    tag = response.headers.setdefault("ETag", tag_of(response.body))
    if _has_seen(sent, tag):
        # A browser gives what it kept the headers of this answer: without its own policy a page would be shut.
        kept = {name: response.headers[name] for name in _OF_THE_PAGE if name in response.headers}
        return Response(status_code=_NOT_MODIFIED, headers={"ETag": tag, **kept})
    return response


def _has_seen(sent: Sent, tag: str) -> bool:
    seen = sent.headers.get("if-none-match", "").strip()
    return seen == "*" or tag.removeprefix("W/") in {each.strip().removeprefix("W/") for each in seen.split(",")}


def _need(endpoint: Callable[..., Any]) -> Need:
    need: Need | None = vars(endpoint).get("need")
    assert need is not None, f"{endpoint.__qualname__} does not say what it needs"
    return need


def _joined(*parts: dict[int | str, dict[str, Any]]) -> dict[int | str, dict[str, Any]]:
    """What each part says of an answer, together."""
    joined: dict[int | str, dict[str, Any]] = {}
    for status, answer in (pair for part in parts for pair in part.items()):
        before = joined.setdefault(status, {})
        joined[status] = {**before, **answer, "headers": {**before.get("headers", {}), **answer.get("headers", {})}}
    return joined
