"""Validates values before the database rejects them with a less helpful message."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from retoma.errors import ConfigurationError, QueueReserved
from retoma.values.text import unstorable_mark

MOST_ATTEMPTS = 1_000_000
LARGEST_ID = 2**63 - 1
LARGEST_FILE = 50_000_000
"""Bytes of one uploaded file."""
CENTURY = 36_525 * 86_400
"""In seconds; no meaningful wait is longer."""

HOUSE_QUEUE = "retoma"
"""The queue of the engine's own jobs."""

_LONGEST = 500
_FORTUNE = 10**12  # US dollars
_MOST_ROWS = 10_000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def name(what: str, given: Any) -> None:
    """The name of a pipeline or a queue."""
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise ConfigurationError(
            f"A {what} cannot be called {given!r}.",
            next="Use small letters, digits, dots and hyphens, such as 'classify-document'.",
        )


def queue(given: Any, *, otherwise: str) -> None:
    """The queue that the caller chose, if any, in place of the pipeline's own, *otherwise*."""
    if given is None:
        return
    name("queue", given)
    if given == HOUSE_QUEUE != otherwise:
        raise QueueReserved(
            f"The queue {HOUSE_QUEUE!r} is for the house's own jobs: others would hold up recovery and cleaning.",
            next=f"Leave the queue out, and the job waits in {otherwise!r}; or name another one.",
        )


def text(what: str, given: Any) -> None:
    """A text, if any, that PostgreSQL can store and index."""
    fits = isinstance(given, str) and 1 <= len(given) <= _LONGEST and unstorable_mark(given) is None
    if given is not None and not fits:
        shown = repr(given[:80] if isinstance(given, str) else given)
        raise ConfigurationError(
            f"A {what} has 1 to {_LONGEST} characters and no NUL, nor half of a character, not {shown}."
        )


def whole(what: str, given: Any, least: int, most: int) -> None:
    """A whole number, if any, between *least* and *most*."""
    if given is not None and not (isinstance(given, int) and least <= given <= most):
        raise ConfigurationError(f"{what} must be a whole number from {least} to {most:,}, and is {given!r}.")


def seconds(what: str, given: Any) -> None:
    """A length of time, if any; NaN is in no range."""
    if given is not None and not (isinstance(given, int | float) and 0 < given <= CENTURY):
        raise ConfigurationError(f"{what} must be more than 0 seconds and at most 100 years, and is {given!r}.")


def money(what: str, given: Any) -> None:
    """An amount, if any, that can be compared and added up."""
    amount = Decimal(given) if isinstance(given, int | float | Decimal) else Decimal("NaN")
    if given is not None and not (amount.is_finite() and 0 <= amount <= _FORTUNE):
        raise ConfigurationError(f"{what} must be an amount of US dollars, 0 or more, and is {given!r}.")


def when(run_at: datetime | None, delay: Any) -> None:
    """When a job may start: at a time, or after a delay."""
    if run_at is not None and run_at.tzinfo is None:
        raise ConfigurationError(
            f"run_at={run_at.isoformat()} has no time zone.", next="Give it one: datetime.now(UTC) + …"
        )
    if not isinstance(delay, int | float) or not 0 <= delay <= CENTURY:
        raise ConfigurationError(f"delay must not be negative, nor more than 100 years in seconds, and is {delay!r}.")
    if run_at is not None and delay:
        raise ConfigurationError("run_at and delay both say when the job may begin.", next="Say one of them.")


def page(what: str, limit: Any) -> None:
    """How many rows one page has."""
    if not isinstance(limit, int) or not 1 <= limit <= _MOST_ROWS:
        raise ConfigurationError(
            f"A page has at least 1 and at most {_MOST_ROWS:,} {what}, not {limit!r}.", next="Leave limit out for 50."
        )


_SHORTEST_SECRET, _FEWEST_SIGNS = 20, 10


def weakness(secret: str) -> str | None:
    """Why *secret*, which a person chose, could be guessed; None when it could not."""
    if len(secret) < _SHORTEST_SECRET:
        return f"has fewer than {_SHORTEST_SECRET} characters"
    if len(set(secret.lower())) < _FEWEST_SIGNS:
        return f"has fewer than {_FEWEST_SIGNS} different characters"
    if secret in (secret + secret)[1:-1]:
        return "repeats a shorter word"
    near = sum(abs(ord(one) - ord(other)) <= 1 for one, other in pairwise(secret))
    return "follows the alphabet or counts" if near > len(secret) // 2 else None


def is_id(number: Any) -> bool:
    """Whether a row could have this id."""
    return isinstance(number, int) and 0 < number <= LARGEST_ID
