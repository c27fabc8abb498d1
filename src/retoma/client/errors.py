"""What a server answers when it does not do what it was asked, as the errors that an app raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retoma.errors import BatchConflict, ConfigurationError, Conflict, NotFound, RetomaError, UnknownPipeline

_BATCH = frozenset(
    {
        "already_finished",
        "batch_empty",
        "batch_incomplete",
        "batch_not_resumable",
        "batch_sealed",
        "operation_running",
        "resume_limit_reached",
        "stale_epoch",
    }
)
_UNKNOWN, _FORBIDDEN, _MISSING, _CONFLICT, _FAILED = 401, 403, 404, 409, 500


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, as the server told it; *code* never changes."""

    status: int
    code: str
    title: str
    detail: str
    correlation_id: str
    retryable: bool
    faults: tuple[tuple[str, str], ...] = ()
    """Where in the request, and what is wrong there."""


class AccessDenied(RetomaError):
    """The key is missing, unknown or expired, or its scopes do not allow what was asked."""

    exit_code = 2


class ServerUnreachable(RetomaError):
    """No answer: nobody is there, or the connection broke again and again."""

    exit_code = 2


class ServerFailed(RetomaError):
    """The server cannot do now what it was asked, or met an error that nobody expected."""


def problem_of(status: int, body: Any) -> Problem:
    """The problem in an answer; of one that is none, such as a proxy's page, what its status says."""
    known: Mapping[str, Any] = body if isinstance(body, dict) else {}
    faults = tuple((str(each.get("pointer")), str(each.get("detail"))) for each in known.get("errors") or ())
    return Problem(
        status=status,
        code=str(known.get("code", "")),
        title=str(known.get("title", "")),
        detail=str(known.get("detail") or f"The server answered with status {status}."),
        correlation_id=str(known.get("correlation_id", "")),
        retryable=bool(known.get("retryable", False)),
        faults=faults,
    )


def error_of(problem: Problem) -> RetomaError:
    """The error that *problem* is; it has the whole problem as ``problem``."""
    error = _error(problem)
    vars(error)["problem"] = problem
    return error


def _error(problem: Problem) -> RetomaError:  # noqa: PLR0911 - one for each kind of problem
    told = _told(problem)
    if problem.status == _UNKNOWN:
        return AccessDenied(told, next="Give a key: RETOMA_API_KEY, or api_key= in Python.")
    if problem.status == _FORBIDDEN:
        return AccessDenied(told)
    if problem.status == _MISSING:
        return NotFound(told)
    if problem.code in _BATCH:
        return BatchConflict(told, code=problem.code)
    if problem.status == _CONFLICT:
        return Conflict(told)
    if problem.code == "pipeline_unknown":
        return UnknownPipeline(told)
    if problem.status < _FAILED and not problem.retryable:
        return ConfigurationError(told)
    return ServerFailed(told, next=f"Its log has the correlation id {problem.correlation_id or 'of the answer'}.")


def _told(problem: Problem) -> str:
    """The detail, and each fault that it does not name itself."""
    more = "; ".join(f"{place}: {what}" for place, what in problem.faults if what.rstrip(".") not in problem.detail)
    return f"{problem.detail} {more}".strip()
