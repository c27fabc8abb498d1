"""The door: every route of the API is one, so that each request is let in, answered and refused in the same way."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Coroutine
from inspect import getdoc
from typing import Any

from fastapi import Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from retoma.web import problems
from retoma.web.bodies import Sent
from retoma.web.headers import dressed
from retoma.web.once import Handle, changed
from retoma.web.problems import ProblemResponse, Refusal
from retoma.web.shapes import Problem
from retoma.web.visits import SAFE, Need, Visit, welcome

_KEY = HTTPBearer(scheme_name="key", bearerFormat="rtm_<id>_<secret>", auto_error=False)
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_ONCE = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Repeated within a day with the same key and body, the change is answered again and not done again.",
    "schema": {"type": "string", "maxLength": 255},
}
_OK, _NO_CONTENT, _NOT_MODIFIED = 200, 204, 304
_OF_THE_PAGE = ("content-security-policy", "vary", "cache-control")


class Door(APIRoute):
    """A route that knows which scope it asks for (``needs``), reads strictly, and tells problems as problems."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        need = _need(endpoint)
        told = (getdoc(endpoint) or "").partition("\n\n")[0].replace("\n", " ")
        options["summary"] = re.split(r"(?<=[.;:])\s", told)[0].rstrip(".;:")
        changes = not SAFE.issuperset(options.get("methods") or ())
        options["responses"] = {**_problems(need, changes=changes), **(options.get("responses") or {})}
        extra: dict[str, Any] = options.get("openapi_extra") or {}
        options["openapi_extra"] = {**extra, "parameters": [_ONCE]} if changes and need.once else extra
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

        async def enter(request: Request) -> Response:
            try:
                response = await _served(Sent(request.scope, request.receive), need, handle)
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told a problem
                response = self.told(request, error)
            return dressed(request, response)

        return enter

    def told(self, request: Request, error: Exception) -> Response:
        """What the caller is told of *error*."""
        return problems.answer(request, error)


async def _served(sent: Sent, need: Need, handle: Handle) -> Response:
    if "\0" in sent.scope["path"] or b"%00" in sent.scope["query_string"]:
        raise Refusal("invalid_text", what="U+0000", place="the URL")
    if need.scope is None:
        return await handle(sent)
    visit = await welcome(sent, need)
    if sent.method not in SAFE:
        return await _changed(visit, need, sent, handle)
    return _unless_seen(sent, await handle(sent))


async def _changed(visit: Visit, need: Need, sent: Sent, handle: Handle) -> Response:
    if need.once:
        return await changed(visit, sent, handle)
    if not need.streamed:
        await sent.read(limit=visit.app.settings.web_body_bytes)
    return await handle(sent)


def _unless_seen(sent: Sent, response: Response) -> Response:
    """304 when the caller has seen this very answer; a stream has no tag."""
    if response.status_code != _OK or not isinstance(getattr(response, "body", None), bytes):
        return response
    # Weak, because the same answer may also go out compressed.
    tag = f'W/"{hashlib.sha256(response.body).hexdigest()[:32]}"'
    response.headers["ETag"] = tag
    seen = sent.headers.get("if-none-match", "")
    if seen.strip() == "*" or tag.removeprefix("W/") in {each.strip().removeprefix("W/") for each in seen.split(",")}:
        # A browser gives what it kept the headers of this answer: without its own policy a page would be shut.
        kept = {name: response.headers[name] for name in _OF_THE_PAGE if name in response.headers}
        return Response(status_code=_NOT_MODIFIED, headers={"ETag": tag, **kept})
    return response


def _need(endpoint: Callable[..., Any]) -> Need:
    need: Need | None = vars(endpoint).get("need")
    assert need is not None, f"{endpoint.__qualname__} does not say what it needs"
    return need


def _problems(need: Need, *, changes: bool) -> dict[int | str, dict[str, Any]]:
    """What a route may answer when it does not do what it was asked, for its page in the reference."""
    statuses = {500, 503}
    if need.scope:
        statuses |= {401, 403, 404, 421, 422}
    if changes:
        statuses |= {400, 409, 413, 415}
    codes = {status: [code for code, each in problems.STATUSES.items() if each == status] for status in statuses}
    return {status: {"description": ", ".join(codes[status]), "content": _PROBLEM} for status in sorted(statuses)}
