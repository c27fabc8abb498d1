"""What went wrong, as RFC 9457 has it: a stable code, words in the caller's language, and nothing of our insides."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from retoma.errors import (
    BatchConflict,
    ConfigurationError,
    Conflict,
    DatabaseError,
    KeyTaken,
    NotFound,
    RetomaError,
    SchemaMismatch,
    UnknownPipeline,
    Unstorable,
)
from retoma.providers import ProviderError
from retoma.telemetry import Event, emit
from retoma.telemetry.events import DatabaseLost
from retoma.web.headers import correlation_of
from retoma.web.shapes import Fault, Problem
from retoma.web.words import catalogue, language_of

STATUSES = {
    "file_empty": 400,
    "file_missing": 400,
    "multipart_invalid": 400,
    "request_incomplete": 400,
    "auth_invalid": 401,
    "auth_missing": 401,
    "cross_site_blocked": 403,
    "pipelines_limited": 403,
    "scope_required": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "already_finished": 409,
    "batch_empty": 409,
    "batch_incomplete": 409,
    "batch_not_resumable": 409,
    "batch_sealed": 409,
    "conflict": 409,
    "idempotency_in_progress": 409,
    "key_taken": 409,
    "resume_limit_reached": 409,
    "stale_epoch": 409,
    "file_too_large": 413,
    "payload_too_large": 413,
    "too_many_files": 413,
    "file_type_mismatch": 415,
    "file_type_unsupported": 415,
    "multipart_expected": 415,
    "unsupported_media_type": 415,
    "host_not_allowed": 421,
    "archive_limits": 422,
    "file_encrypted": 422,
    "file_truncated": 422,
    "idempotency_key_reused": 422,
    "invalid_cursor": 422,
    "invalid_text": 422,
    "json_too_deep": 422,
    "pipeline_unknown": 422,
    "program_missing": 422,
    "validation_failed": 422,
    "value_unstorable": 422,
    "internal": 500,
    "database_unavailable": 503,
    "provider_unavailable": 503,
    "schema_mismatch": 503,
    "store_unavailable": 503,
    "store_full": 507,
}
"""Every code there is, and the status it comes with."""

RETRY_AFTER = {
    "idempotency_in_progress": 1,
    "database_unavailable": 5,
    "provider_unavailable": 10,
    "schema_mismatch": 30,
    "store_unavailable": 10,
}
"""What may go well when it is asked again, and after how many seconds."""

_HEADERS = {"auth_missing": {"WWW-Authenticate": "Bearer"}, "auth_invalid": {"WWW-Authenticate": "Bearer"}}


class Refusal(Exception):
    """Why a request is not done: a code, and what fills the braces of its words, or *said* in place of them."""

    def __init__(
        self,
        code: str,
        *,
        said: str | None = None,
        faults: Iterable[Fault] = (),
        headers: Mapping[str, str] | None = None,
        **values: object,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.said = said
        self.faults = list(faults)
        self.headers = dict(headers or {})
        self.values = values


class ProblemResponse(Response):
    """An answer in application/problem+json."""

    media_type = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(Event):
    """A request met an error that nobody expected; the caller was told its correlation id and nothing else."""

    weight: ClassVar[str] = "error"
    request: str
    error: str
    correlation: str


def answer(request: Request, error: Exception) -> Response:
    """What the caller is told of *error*."""
    problem, headers = explained(request, error, language_of(request.headers.get("accept-language", "")))
    return ProblemResponse(problem.model_dump_json(), problem.status, headers)


def explained(request: Request, error: Exception, language: str) -> tuple[Problem, dict[str, str]]:
    """The problem that *error* is, in *language*, and the headers that go with it."""
    refusal = error if isinstance(error, Refusal) else _refusal(request, error)
    words = catalogue(language)[refusal.code]
    # What the engine says is in English, and more exact than the general words; in Portuguese these must do.
    said = refusal.said if refusal.said and language == "en" else words.detail.format(**refusal.values)
    wait = RETRY_AFTER.get(refusal.code)
    problem = Problem(
        type=f"urn:retoma:problem:{refusal.code}",
        title=words.title,
        status=STATUSES[refusal.code],
        detail=said,
        instance=request.url.path,
        code=refusal.code,
        correlation_id=correlation_of(request),
        retryable=wait is not None,
        errors=refusal.faults,
    )
    headers = {"Content-Language": language, "Vary": "Accept-Language", **_HEADERS.get(refusal.code, {})}
    if wait is not None:
        headers["Retry-After"] = str(wait)
    return problem, {**headers, **refusal.headers}


def _refusal(request: Request, error: Exception) -> Refusal:
    match error:
        case RequestValidationError():
            return Refusal("validation_failed", faults=map(_fault, error.errors()))
        case HTTPException() if error.status_code in _NOWHERE:
            return Refusal(_NOWHERE[error.status_code], headers=error.headers)
        case ClientDisconnect():
            return Refusal("request_incomplete")
        case RetomaError() if code := _code(error):
            return Refusal(code, said=str(error) if isinstance(error, Conflict) else error.message)
        case DatabaseError() | psycopg.OperationalError():
            # The message may name the server; the log gets the kind of error, and the caller neither.
            emit(DatabaseLost(doing=_name(request), error=type(error).__name__))
            return Refusal("schema_mismatch" if isinstance(error, SchemaMismatch) else "database_unavailable")
        case _:
            emit(RequestFailed(request=_name(request), error=_place(error), correlation=correlation_of(request)))
            provider = error.provider if isinstance(error, ProviderError) else None
            return Refusal("provider_unavailable", provider=provider) if provider else Refusal("internal")


_NOWHERE = {404: "not_found", 405: "method_not_allowed"}
_CODES: dict[type[RetomaError], str] = {
    UnknownPipeline: "pipeline_unknown",
    ConfigurationError: "validation_failed",
    NotFound: "not_found",
    KeyTaken: "key_taken",
    Conflict: "conflict",
    Unstorable: "value_unstorable",
}


def _code(error: RetomaError) -> str | None:
    if isinstance(error, BatchConflict):
        return error.code
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)


def _name(request: Request) -> str:
    return f"{request.method} {request.url.path}"


def _place(error: Exception) -> str:
    """Where *error* came from. Not its message, which may hold a document or a password."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].name}, line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    return f"{type(error).__name__}{where}"


def _fault(found: Mapping[str, Any]) -> Fault:
    return Fault(pointer=_pointer(found["loc"]), code=found["type"], detail=found["msg"])


def _pointer(place: tuple[str | int, ...]) -> str:
    """Where in a request: a JSON pointer into the body, ``?name`` in the query, ``{name}`` in the path."""
    match place:
        case ("body", *steps):
            return pointer_to(steps)
        case ("query", name, *_):
            return f"?{name}"
        case ("path", name, *_):
            return f"{{{name}}}"
        case _:
            return str(place[-1])


def pointer_to(steps: Iterable[str | int]) -> str:
    """The JSON pointer that leads along *steps*."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)[:500]
