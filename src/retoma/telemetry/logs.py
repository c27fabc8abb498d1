"""Writes events as lines: text for people in a terminal, JSON elsewhere. Lines of other loggers go the same way, by
structlog, and name the job that they belong to. No line holds a secret: they are taken out here, at the last moment.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from operator import attrgetter
from typing import Any, TextIO

import orjson

from retoma.model.compat import LOG_FIELDS
from retoma.model.job import Ended
from retoma.telemetry import Event, Readers, listen
from retoma.telemetry.context import JOB, who
from retoma.telemetry.events import AttemptEnded
from retoma.telemetry.forms import Clock, Forms, in_pieces, piece_of
from retoma.telemetry.redaction import hide_environment, redacted_fields, suspicious
from retoma.telemetry.spans import trace_of, tracing_anything
from retoma.values.escaping import visible, visible_json

# structlog loads rich and colorama, if they are there, for tracebacks that nobody prints here: a tenth of all
# modules of an executor.
_UNUSED = [name for name in ("rich", "colorama") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]  # None: it counts as not installed
try:
    import structlog
finally:
    for _name in _UNUSED:
        del sys.modules[_name]

Line = MutableMapping[str, Any]

_WEIGHTS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FOREIGN = "log"
_TALKATIVE = (
    "httpx",
    "httpx2",
    "httpcore",
    "urllib3",
    "openai",
    "anthropic",
    "opentelemetry",
    "asyncio",
    "botocore",
    "uvicorn",
    "alembic",
)
"""Libraries whose lines below a warning hold addresses, headers or bodies of requests, or say what our events say.
Alembic writes three lines for each revision of a new database.
"""


_SHOWN: dict[str, Callable[[Any], float]] = {"float": lambda value: round(value, 3), "Decimal": float}


@dataclasses.dataclass(frozen=True, slots=True)
class _Reader:
    """Reads all fields of a kind of event at once, and says how they are called and shown in the log."""

    take: Callable[[Event], tuple[Any, ...]]
    names: tuple[str, ...]
    shown: tuple[tuple[str, Callable[[Any], float]], ...]


_READERS: dict[type[Event], _Reader] = {}


def _reader(kind: type[Event]) -> _Reader:
    fields = dataclasses.fields(kind)
    called = {each.name: LOG_FIELDS.get(each.name, each.name) for each in fields}
    found = _READERS[kind] = _Reader(
        attrgetter(*called, "weight"),  # never a single name, so that it always gives a tuple
        tuple(called.values()),
        tuple((called[each.name], _SHOWN[told]) for each in fields if (told := str(each.type).split(" ")[0]) in _SHOWN),
    )
    return found


def fields_of(event: Event) -> dict[str, Any]:
    """The fields of a line for *event*, under the names of the log."""
    reader = _READERS.get(type(event)) or _reader(type(event))
    # The last value, the weight, has no name.
    found = {name: value for name, value in zip(reader.names, reader.take(event), strict=False) if value is not None}
    for name, shown in reader.shown:
        if name in found:
            found[name] = shown(found[name])
    if tracing_anything():
        trace = trace_of(found.get("jobId"), found.get("fence"))
        if trace is not None:
            found["traceId"] = trace
    return found


def write_to(stream: TextIO, *, level: str, format: str, label: str | None = None) -> Callable[[], None]:
    """Write every event of weight *level* or more to *stream*; the returned function ends it."""
    least, render = _WEIGHTS[level], _renderer(stream, format, label)

    def told(event: Event) -> str:
        return render(event.weight, event.title(), fields_of(event))

    def line(event: Event) -> None:
        stream.write(told(event) + "\n")

    def lines(facts: Sequence[tuple[int, Ended, str]]) -> None:
        stream.writelines(in_pieces(forms.lines(facts), most))

    forms, most = Forms(told, _now), piece_of(stream)
    readers: Readers = {AttemptEnded: lines} if isinstance(render, _AsJson) else {}
    return listen(line, wants=lambda kind: _WEIGHTS[kind.weight] >= least, readers=readers)


def log_to_stderr(*, level: str, format: str, label: str | None = None) -> Callable[[], None]:
    """The usual place: logs go to standard error, output to standard output. Lines of the standard library's loggers
    are written there too.
    """
    hide_environment()
    forget = write_to(sys.stderr, level=level, format=format, label=label)
    unbridge = bridge(sys.stderr, level=level, format=format, label=label)

    def end() -> None:
        unbridge()
        forget()

    return end


def bridge(stream: TextIO, *, level: str, format: str, label: str | None = None) -> Callable[[], None]:
    """Write the lines of the standard library's loggers in the same way; the returned function ends it. Never their
    details (debug): those of HTTP clients hold prompts and keys.
    """
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _processor(_renderer(stream, format, label)),
        ],
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, _as_foreign],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root, before = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(max(logging.INFO, _WEIGHTS[level]))
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, _WEIGHTS[level]))

    def end() -> None:
        root.removeHandler(handler)
        root.setLevel(before)

    return end


# — how a line is made —


Renderer = Callable[[str, str, Mapping[str, Any]], str]
"""Makes a line of a weight, a title and fields."""


def _renderer(stream: TextIO, format: str, label: str | None) -> Renderer:
    as_text = format == "text" or (format == "auto" and stream.isatty())
    return _AsText() if as_text else _AsJson({"workerLabel": label} if label else {})


def _processor(render: Renderer) -> Callable[[Any, str, Line], str]:
    """The last processor of structlog's chain, for lines of other loggers."""

    def rendered(_logger: Any, _weight: str, line: Line) -> str:
        return render(line.pop("level"), line.pop("event"), line)

    return rendered


def _as_foreign(_logger: Any, _weight: str, line: Line) -> Line:
    """A line of another logger: its text is the message, and the job is that of the task which wrote it."""
    told: Line = {
        "level": "error" if line["level"] == "critical" else line["level"],
        "event": _FOREIGN,
        "logger": line["logger"],
        "message": str(line["event"]),
        **_job(),
    }
    record = line.get("_record")
    if record is not None and record.exc_info and record.exc_info[0] is not None:
        told["error"] = record.exc_info[0].__name__
        told["exception"] = logging.Formatter().formatException(record.exc_info)
        record.exc_info = record.exc_text = None
    kept = {name: value for name, value in line.items() if name.startswith("_")}
    return {**told, **kept}


def _job() -> dict[str, Any]:
    current = JOB.get()
    if current is None:
        return {}
    worker_id, claim, began = current
    found = {LOG_FIELDS.get(name, name): value for name, value in who(worker_id, claim).items() if value is not None}
    found |= {"status": "running", "durationMs": round((time.monotonic() - began) * 1000, 3)}
    trace = trace_of(claim.id, claim.fence)
    return found if trace is None else {**found, "traceId": trace}


_now = Clock()


class _AsJson:
    def __init__(self, known: dict[str, str]) -> None:
        self._known = known

    def __call__(self, weight: str, title: str, fields: Mapping[str, Any]) -> str:
        told = redacted_fields(fields) if suspicious(fields) else fields
        return visible_json(_json({"at": _now(), "level": weight, "event": title, **self._known, **told}))


class _AsText:
    def __call__(self, _weight: str, title: str, fields: Mapping[str, Any]) -> str:
        told = redacted_fields(fields) if suspicious(fields) else fields
        return f"{_now()} {title} " + " ".join(f"{name}={_text(value)}" for name, value in told.items())


def _json(line: Mapping[str, Any]) -> str:
    return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _text(value: object) -> str:
    text = str(value)
    return visible(repr(text) if not text or any(map(str.isspace, text)) else text)
