"""Writes events as lines: text for people in a terminal, JSON elsewhere."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

from retoma.model.compat import LOG_FIELDS
from retoma.telemetry import Event, listen
from retoma.values.escaping import visible, visible_json

_WEIGHTS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def fields_of(event: Event) -> dict[str, Any]:
    """The fields of a line for *event*, under the names of the log."""
    found = {}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if value is not None:
            found[LOG_FIELDS.get(field.name, field.name)] = round(value, 3) if isinstance(value, float) else value
    return found


def write_to(stream: TextIO, *, level: str, format: str, label: str | None = None) -> Callable[[], None]:
    """Write every event of weight *level* or more to *stream*; the returned function ends it."""
    least = _WEIGHTS[level]
    as_text = format == "text" or (format == "auto" and stream.isatty())
    known = {"workerLabel": label} if label else {}

    def line(event: Event) -> None:
        if _WEIGHTS[event.weight] < least:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if as_text:
            said = " ".join(f"{name}={_text(value)}" for name, value in fields_of(event).items())
            stream.write(f"{now} {event.title()} {said}\n")
        else:
            whole = {"at": now, "level": event.weight, "event": event.title(), **known, **fields_of(event)}
            stream.write(visible_json(orjson.dumps(whole, default=str).decode()) + "\n")

    return listen(line)


def _text(value: object) -> str:
    text = str(value)
    return visible(repr(text) if not text or any(map(str.isspace, text)) else text)


def log_to_stderr(*, level: str, format: str, label: str | None = None) -> Callable[[], None]:
    """The usual place: logs go to standard error, output to standard output."""
    return write_to(sys.stderr, level=level, format=format, label=label)
