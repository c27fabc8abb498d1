"""Classifies database errors: either the row's own data is at fault, or a retry may succeed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from retoma.errors import DatabaseUnreachable, StepsFailed
from retoma.telemetry import emit
from retoma.telemetry.events import DatabaseLost

T = TypeVar("T")

LOST = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout)
"""The errors of a broken connection; the outcome of the statement is then unknown."""
TRANSIENT = (*LOST, psycopg.InternalError, psycopg.ProgrammingError, psycopg.NotSupportedError)
"""Every kind of error that does not blame the data: read-only, out of space, permissions, failover, lost connection.
Where the error itself is at hand, *must_wait* is more exact.
"""
UNAVAILABLE = (*TRANSIENT, DatabaseUnreachable)
"""The same, and our own error for an unreachable database: callers that can do without the database continue."""

_DATA = ("22", "23", "54")  # a value, a constraint, a limit of PostgreSQL: the same statement is refused each time
_GONE = frozenset({"57P01", "57P02", "57P03", "57P05"})  # the server stops, crashed, starts, or ended an idle session
_SICK = ("08", "53", "58", "XX", "F0")  # connection, resources, files, corruption
_READ_ONLY = "25006"
_RESTED = frozenset({"25P03", "25P04"})  # a transaction that a handler kept open for too long: its own fault

_QUIET = 120.0  # seconds without an error, after which the next one is reported again
_FIRST_SILENCE, _LONGEST_SILENCE = 10.0, 600.0


class StatementHung(psycopg.OperationalError):
    """The server did not answer a statement in time; the connection was given up."""


def is_refused(error: BaseException) -> bool:
    """Whether the data is at fault: PostgreSQL refused it, or the driver could not encode a value."""
    if isinstance(error, psycopg.Error):
        if error.sqlstate is None:
            return isinstance(error, psycopg.DataError)
        return error.sqlstate.startswith(_DATA)
    return isinstance(error, ValueError | TypeError)


def must_wait(error: BaseException) -> bool:
    """Whether the same statement may succeed later, since its data is not at fault. False for a pool
    that we closed ourselves.
    """
    if isinstance(error, DatabaseUnreachable):
        return True
    return isinstance(error, psycopg.Error) and not isinstance(error, PoolClosed) and not is_refused(error)


def is_lost(error: BaseException) -> bool:
    """Whether the connection was lost, so that the outcome of the statement is unknown. A pooler whose server dies may
    also send data that the driver cannot parse: such an error has no SQLSTATE.
    """
    if not must_wait(error) or not isinstance(error, psycopg.Error):
        return False
    return error.sqlstate is None or error.sqlstate.startswith("08") or error.sqlstate in _GONE


def is_sick(error: BaseException) -> bool:
    """Whether the server could not do its work, whatever the statement was: lost, read-only, out of disk or memory."""
    if not isinstance(error, psycopg.Error) or not must_wait(error):
        return False
    return is_lost(error) or error.sqlstate == _READ_ONLY or (error.sqlstate or "").startswith(_SICK)


# — errors of our connections —


def note_ours(error: psycopg.Error) -> None:
    """Mark *error* as coming from a connection of ours, and not from one that a handler opened itself."""
    error.__dict__["retoma"] = True


def is_our_outage(error: BaseException) -> bool:
    """Whether an outage of our database stopped a handler. A handler's own connections do not count. A group of errors
    is an outage only when each of them is.
    """
    inner = _inside(error)
    if inner:
        return all(is_our_outage(each) for each in inner)
    if isinstance(error, DatabaseUnreachable):
        return True
    if not isinstance(error, psycopg.Error) or "retoma" not in error.__dict__:
        return False
    return must_wait(error) and error.sqlstate not in _RESTED


def _inside(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return list(error.exceptions)
    return [each for _, each in error.failures] if isinstance(error, StepsFailed) else []


# — retries —


def jitter(attempt: int, *, longest: float = 5.0) -> float:
    """Seconds to wait before attempt number *attempt* (from 1), with jitter, so that not all callers return at once."""
    return random.uniform(0.0, min(longest, 0.1 * 2.0 ** min(attempt, 16)))  # noqa: S311 - not a secret


async def retrying(
    do: Callable[[], Awaitable[T]],
    *,
    doing: str = "asking",
    outages: Outages | None = None,
    until: Callable[[], bool] = lambda: False,
    longest: float = 5.0,
) -> T:
    """The result of the idempotent *do*, retried until the database has executed it. An error that blames the data is
    raised at once, and any other when *until* is true. *doing* is what *outages* reports meanwhile.
    """
    attempt = 0
    while True:
        try:
            return await do()
        except Exception as error:
            if not must_wait(error):
                raise
            if outages is not None:
                outages.tell(doing, error)
            if until():
                raise
        attempt += 1
        await asyncio.sleep(jitter(attempt, longest=longest))


@dataclass(slots=True)
class _Episode:
    last: float
    speak_at: float
    silence: float
    told: set[str]


class Outages:
    """Reports that the engine waits for the database: at the start, when the error changes, and otherwise at growing
    intervals, however many callers wait.
    """

    def __init__(self) -> None:
        self._episodes: dict[str, _Episode] = {}

    def tell(self, doing: str, error: BaseException) -> None:
        now = time.monotonic()
        episode = self._episodes.get(doing)
        if episode is None or now > episode.last + _QUIET:
            episode = self._episodes[doing] = _Episode(now, now, _FIRST_SILENCE, set())
        episode.last = now
        name = type(error).__name__
        if name not in episode.told:
            episode.told.add(name)
        elif now >= episode.speak_at:
            episode.silence = min(2 * episode.silence, _LONGEST_SILENCE)
        else:
            return
        episode.speak_at = now + episode.silence
        emit(DatabaseLost(doing=doing, error=name))

    async def sit_out(self, doing: str, attempt: int, error: BaseException, *, longest: float = 5.0) -> None:
        """Report the error, and return when the next attempt is due."""
        self.tell(doing, error)
        await asyncio.sleep(jitter(attempt, longest=longest))
