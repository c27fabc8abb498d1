"""What may be written on a command line, and what it means."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Duration(click.ParamType[timedelta]):
    """A number and a unit: 90s, 15m, 2h, 30d, 4w."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        written = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", str(value).strip())
        if not written:
            self.fail(f"{value!r} is not a length of time; write 90s, 15m, 2h, 30d or 4w.", param, ctx)
        return timedelta(**{_UNITS[written[2]]: float(written[1])})


class Json(click.ParamType[Any]):
    """A JSON value; what is none is refused before anything is asked of the database."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"{value!r} is not JSON ({error}); text needs quotes of its own: '\"yes\"'.", param, ctx)


class Limit(click.ParamType[int]):
    """A number of jobs, or *none* for no limit (which is 0 here, for Click takes None for *not given*)."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "none":
            return 0
        if not re.fullmatch(r"[1-9]\d{0,5}", str(value)):
            self.fail(f"{value!r} is not a limit; write a number from 1 on, or 'none'.", param, ctx)
        return int(value)


DURATION = Duration()
JSON = Json()
LIMIT = Limit()
