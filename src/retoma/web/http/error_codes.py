"""Which problems a route may answer with, and which headers its answers carry, for its page in the reference."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import params
from pydantic import BaseModel

from retoma.web.http.auth import Need
from retoma.web.http.errors import RETRY_AFTER, STATUSES

_EVER = ("method_not_allowed", "internal", "database_unavailable", "overloaded", "schema_mismatch", "deadline_exceeded")
_WITH_SCOPE = ("auth_invalid", "auth_missing", "scope_required", "host_not_allowed")
_READ = ("invalid_text", "validation_failed")
_CHANGE = ("cross_site_blocked", "request_incomplete")
_BODY = ("payload_too_large", "unsupported_media_type", "json_too_deep")
_ONCE = ("idempotency_in_progress", "idempotency_key_reused")
_AT_THE_FORM = {"sign_in_refused"}
_TOO_LARGE, _TOO_MANY = 413, 429
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_CREATED, _ACCEPTED, _NOT_MODIFIED = 201, 202, 304


def queries_of(endpoint: Callable[..., Any]) -> dict[str, bool]:
    """The names that *endpoint* takes in the query, and whether each may come several times."""
    found: dict[str, bool] = {}
    hints = get_type_hints(endpoint, include_extras=True)
    for name in inspect.signature(endpoint).parameters:
        kind, *marks = get_args(hints.get(name)) or (None,)
        if get_origin(hints.get(name)) is not Annotated or not any(isinstance(each, params.Query) for each in marks):
            continue
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            fields = kind.model_fields.items()
            found |= {field.alias or each: get_origin(field.annotation) is list for each, field in fields}
        else:
            found[name] = get_origin(kind) is list
    return found


def codes_of(need: Need, path: str, queries: dict[str, bool], *, changes: bool) -> list[str]:
    """Every code that a route may answer with: what all of them may, what follows from its kind, and what it says."""
    codes = {*_EVER, *need.refuses}
    if need.scope:
        limits = {code for code, status in STATUSES.items() if status == _TOO_MANY} - _AT_THE_FORM
        codes |= {*_WITH_SCOPE, *_READ, *limits}
    if need.scope and not need.limited:
        codes.add("pipelines_limited")
    if "{" in path:
        codes.add("not_found")
    if "cursor" in queries:
        codes.add("invalid_cursor")
    if changes or need.costs:
        codes.add("cross_site_blocked")
    if changes and need.scope:
        codes.add("read_only")
    if changes:
        codes |= {*_CHANGE, *(() if need.streamed else _BODY), *(_ONCE if need.once else ())}
    return [code for code in STATUSES if code in codes]


def problems_of(codes: list[str]) -> dict[int | str, dict[str, Any]]:
    """The answers that are problems: for each status its codes, and what its headers say."""
    statuses = sorted({STATUSES[code] for code in codes})
    return {status: _problem(status, [code for code in codes if STATUSES[code] == status]) for status in statuses}


def _problem(status: int, codes: list[str]) -> dict[str, Any]:
    named = [_BY_STATUS[status]] if status in _BY_STATUS else []
    if any(code in RETRY_AFTER for code in codes) or status == _TOO_MANY:
        named.append("Retry-After")
    if status in (_TOO_LARGE, _TOO_MANY):
        named.append("RateLimit-Policy")
    return {"description": ", ".join(codes), "headers": headers_of("X-Correlation-Id", *named), "content": _PROBLEM}


def answers_of(
    need: Need, statuses: list[int], queries: dict[str, bool], *, changes: bool, streams: bool
) -> dict[int | str, dict[str, Any]]:
    """The headers of the answers that are no problems, and 304 where it may be asked for again."""
    named = ["X-Correlation-Id"]
    if changes and need.once:
        named.append("Idempotency-Replayed")
    if "cursor" in queries:
        named.append("Link")
    tagged = bool(need.scope) and not changes and not streams
    if tagged:
        named.append("ETag")
    answers: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        made = ["Location"] if status in (_CREATED, _ACCEPTED) else []
        answers[status] = {"headers": headers_of(*named, *made)}
    if tagged:
        told = "It is as it was when If-None-Match was told."
        answers[_NOT_MODIFIED] = {"description": told, "headers": headers_of("X-Correlation-Id", "ETag")}
    return answers


def headers_of(*names: str) -> dict[str, Any]:
    """Headers of an answer, as OpenAPI describes them."""
    return {name: {"description": told, "schema": schema} for name in names for told, schema in (_HEADERS[name],)}


_TEXT = {"type": "string"}
_BY_STATUS = {401: "WWW-Authenticate", 405: "Allow", 416: "Content-Range"}
_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Accept-Ranges": ("That a part of the file may be asked for: bytes.", _TEXT),
    "Allow": ("The methods that the path knows.", _TEXT),
    "Content-Disposition": ("The name of the file, and whether it is to be saved.", _TEXT),
    "Content-Range": ("Which bytes these are, and of how many.", _TEXT),
    "ETag": ("What the answer depends on; If-None-Match and If-Match take it.", _TEXT),
    "Idempotency-Replayed": ("true when the answer is that of the first request with the same key.", _TEXT),
    "Link": ("The address of the next page, as rel=next; absent on the last one.", _TEXT),
    "Location": ("Where to look at what was made or begun.", {"type": "string", "format": "uri-reference"}),
    "RateLimit-Policy": ("The limit that was met, as its name and q=, how much is allowed.", _TEXT),
    "Retry-After": ("After how many seconds to ask again.", {"type": "integer", "minimum": 0}),
    "WWW-Authenticate": ("How a key is sent: Bearer.", _TEXT),
    "X-Correlation-Id": ("The id that follows the work through jobs and logs.", _TEXT),
}

TAGGED: dict[int | str, dict[str, Any]] = {200: {"headers": headers_of("ETag")}}
"""The answer to a change that shows what was changed, as it is now."""
MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The ETag of what was looked at; if that has changed, nothing is done (412). * is whatever it is.",
    "schema": _TEXT,
    "example": "*",
}
"""What a change may be made to depend on."""
