"""What may be written on a command line, and what it means."""

from __future__ import annotations

import json
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import click

from retoma.cli.language import words

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """A number and a unit: 90s, 15m, 2h, 30d, 4w."""
    written = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)\s*([smhdw])", text.strip())
    if not written:
        raise click.BadParameter(words("{text!r} is not a length of time; write 90s, 15m, 2h, 30d or 4w.", text=text))
    return timedelta(**{_UNITS[written[2]]: float(written[1])})


def day(text: str) -> date:
    """A day: 2026-01-31."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(words("{text!r} is not a day; write it as 2026-01-31.", text=text)) from None


def moment(text: str) -> datetime:
    """A time: 2026-01-31T18:30, in the zone of this machine unless it names another."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise click.BadParameter(words("{text!r} is not a time; write it as 2026-01-31T18:30.", text=text)) from None
    return found.astimezone() if found.tzinfo is None else found


def money(text: str) -> Decimal:
    """An amount: 0.15."""
    if not re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text.strip()):
        raise click.BadParameter(words("{text!r} is not an amount; write a number such as 5 or 2.50.", text=text))
    return Decimal(text.strip())


def json_value(text: str) -> Any:
    """A JSON value; what is none is refused before anything is asked of the database."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.BadParameter(
            words("{text!r} is not JSON ({error}); text needs quotes of its own: '\"yes\"'.", text=text, error=error)
        ) from None


def limit(text: str) -> int:
    """A number of jobs; 0 stands for *none*, because Click takes None for *not given*."""
    if text == "none":
        return 0
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise click.BadParameter(words("{text!r} is not a limit; write a number from 1 on, or 'none'.", text=text))
    return int(text)
