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
    AnswerUnfit,
    BatchConflict,
    ConfigurationError,
    Conflict,
    DatabaseError,
    KeyTaken,
    NotFound,
    QueueReserved,
    RetomaError,
    SchemaMismatch,
    UnknownPipeline,
    Unstorable,
)
from retoma.providers import ProviderError
from retoma.telemetry import Event, emit
from retoma.telemetry.events import DatabaseLost
from retoma.web.api.schemas.responses import Fault, Problem
from retoma.web.http.headers import correlation_of
from retoma.web.words import catalogue, language_of
from retoma.web.words.sentences import in_portuguese

STATUSES = {
    "file_empty": 400,
    "file_missing": 400,
    "multipart_invalid": 400,
    "request_incomplete": 400,
    "request_malformed": 400,
    "auth_invalid": 401,
    "auth_missing": 401,
    "cross_site_blocked": 403,
    "pipeline_internal": 403,
    "pipelines_limited": 403,
    "read_only": 403,
    "scope_required": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "already_finished": 409,
    "batch_empty": 409,
    "batch_incomplete": 409,
    "batch_not_resumable": 409,
    "batch_sealed": 409,
    "conflict": 409,
    "idempotency_in_progress": 409,
    "key_taken": 409,
    "operation_running": 409,
    "resume_limit_reached": 409,
    "stale_epoch": 409,
    "precondition_failed": 412,
    "file_too_large": 413,
    "payload_too_large": 413,
    "too_many_fields": 413,
    "too_many_files": 413,
    "url_too_long": 414,
    "file_type_mismatch": 415,
    "file_type_unsupported": 415,
    "multipart_expected": 415,
    "unsupported_media_type": 415,
    "range_not_satisfiable": 416,
    "host_not_allowed": 421,
    "archive_limits": 422,
    "file_encrypted": 422,
    "file_truncated": 422,
    "idempotency_key_reused": 422,
    "invalid_cursor": 422,
    "invalid_text": 422,
    "json_too_deep": 422,
    "page_unshown": 422,
    "pipeline_unknown": 422,
    "program_missing": 422,
    "queue_reserved": 422,
    "validation_failed": 422,
    "value_unstorable": 422,
    "quota_exceeded": 429,
    "sign_in_refused": 429,
    "too_many_connections": 429,
    "too_many_streams": 429,
    "headers_too_large": 431,
    "too_many_headers": 431,
    "too_many_tries": 429,
    "internal": 500,
    "answer_unfit": 502,
    "database_unavailable": 503,
    "overloaded": 503,
    "provider_unavailable": 503,
    "schema_mismatch": 503,
    "store_unavailable": 503,
    "deadline_exceeded": 504,
    "store_full": 507,
}
"""Every code there is, and the status it comes with."""

RETRY_AFTER = {
    "idempotency_in_progress": 1,
    "database_unavailable": 5,
    "deadline_exceeded": 5,
    "overloaded": 2,
    "provider_unavailable": 10,
    "quota_exceeded": 60,
    "request_timeout": 1,
    "schema_mismatch": 30,
    "sign_in_refused": 30,
    "store_unavailable": 10,
    "too_many_connections": 5,
    "too_many_streams": 30,
    "too_many_tries": 60,
}
"""What may go well when it is asked again, and after how many seconds."""

_HEADERS = {"auth_missing": {"WWW-Authenticate": "Bearer"}, "auth_invalid": {"WWW-Authenticate": "Bearer"}}


_LIMITS = (413, 429)
"""Statuses that say that something is too much; which limit that is, is in a header."""


class Refusal(Exception):
    """Why a request is not done: a code, and what fills the braces of its words, or *said* in place of them, which is
    English and may be told in other languages too, with what to do *next*.
    """

    def __init__(
        self,
        code: str,
        *,
        said: str | None = None,
        next: str = "",
        faults: Iterable[Fault] = (),
        headers: Mapping[str, str] | None = None,
        **values: object,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.said = said
        self.next = next
        self.faults = list(faults)
        self.headers = dict(headers or {})
        self.values = values
        self.translated = False
        """Whether the faults are told in the caller's language already."""


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
    # What was said about this very request is more exact than the general words.
    exact = _in(language, refusal.said, refusal.next) if refusal.said else None
    said = exact or words.detail.format(**refusal.values)
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
        errors=refusal.faults
        if refusal.translated
        else [_told(each, language, words.title) for each in refusal.faults],
    )
    headers = {"Content-Language": language, "Vary": "Accept-Language", **_HEADERS.get(refusal.code, {})}
    if wait is not None:
        headers["Retry-After"] = str(wait)
    if problem.status in _LIMITS and (limit := refusal.values.get("limit")) is not None:
        headers["RateLimit-Policy"] = f'"{refusal.code}";q={limit}'
    return problem, {**headers, **refusal.headers}


def _refusal(request: Request, error: Exception) -> Refusal:  # noqa: PLR0911 - one for each kind of error
    match error:
        case RequestValidationError():
            return Refusal("validation_failed", faults=map(_fault, error.errors()))
        case HTTPException() if error.status_code in _NOWHERE:
            return Refusal(_NOWHERE[error.status_code], headers=error.headers)
        case ClientDisconnect():
            return Refusal("request_incomplete")
        case AnswerUnfit():
            return Refusal("answer_unfit")  # its own words quote the answer
        case RetomaError() if code := _code(error):
            # To do next is told where it is about the request, and not about the program.
            return Refusal(code, said=error.message, next=(error.next or "") if isinstance(error, Conflict) else "")
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
    QueueReserved: "queue_reserved",
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


def _in(language: str, said: str, next: str) -> str | None:
    """What was *said* and what to do *next*, in *language*; None where nobody has said the first in it."""
    if language == "en":
        return f"{said} {next}".strip()
    told = in_portuguese(said)
    return None if told is None else f"{told} {in_portuguese(next) or ''}".strip()


def _told(fault: Fault, language: str, otherwise: str) -> Fault:
    """The fault in *language*."""
    detail = fault.detail if language == "en" else in_portuguese(fault.detail)
    return fault.model_copy(update={"detail": detail or otherwise})


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
