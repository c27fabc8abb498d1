"""What the tables can hold. Who asks for more is told so in words, before the database says it in its own."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Any

from retoma.errors import ConfigurationError

MOST_ATTEMPTS = 1_000_000
LARGEST_ID = 2**63 - 1
CENTURY = 36_525 * 86_400
"""In seconds; nobody means to wait for longer."""

_LONGEST = 500
_FORTUNE = 10**12  # US dollars
_MOST_ROWS = 10_000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_LONE = re.compile("[\ud800-\udfff]")


def name(what: str, given: Any) -> None:
    """What a pipeline or a queue can be called."""
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise ConfigurationError(
            f"A {what} cannot be called {given!r}.",
            next="Use small letters, digits, dots and hyphens, such as 'classify-document'.",
        )


def text(what: str, given: Any) -> None:
    """A text, if any, that PostgreSQL can keep and find."""
    fits = given is None or (isinstance(given, str) and 1 <= len(given) <= _LONGEST and "\0" not in given)
    if not fits or (given and not given.isascii() and _LONE.search(given)):
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
    """When a job may begin: at an hour, or after a while."""
    if run_at is not None and run_at.tzinfo is None:
        raise ConfigurationError(
            f"run_at={run_at.isoformat()} has no time zone.", next="Give it one: datetime.now(UTC) + …"
        )
    if not isinstance(delay, int | float) or not 0 <= delay <= CENTURY:
        raise ConfigurationError(f"delay must not be negative, nor more than 100 years in seconds, and is {delay!r}.")
    if run_at is not None and delay:
        raise ConfigurationError("run_at and delay both say when the job may begin.", next="Say one of them.")


def page(what: str, limit: Any) -> None:
    """How many rows one answer carries."""
    if not isinstance(limit, int) or not 1 <= limit <= _MOST_ROWS:
        raise ConfigurationError(
            f"A page has at least 1 and at most {_MOST_ROWS:,} {what}, not {limit!r}.", next="Leave limit out for 50."
        )


def is_id(number: Any) -> bool:
    """Whether a row could have this id."""
    return isinstance(number, int) and 0 < number <= LARGEST_ID
