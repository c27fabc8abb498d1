"""Many inputs in one text: a JSON list, one JSON value per line, or CSV with a line of names. Each row is read by
itself, so that every one that does not fit is told, and none is lost.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from retoma.values.codec import Codec, Misfit

MOST = 20_000
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is no input: where it stands, what it says, and why."""

    number: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The inputs of a text, and its rows that are none."""

    inputs: list[Any]
    bad: list[BadRow]


def read_rows(text: str, codec: Codec[Any]) -> Rows:
    """The rows of *text*, decoded by the pipeline's own codec."""
    inputs: list[Any] = []
    bad: list[BadRow] = []
    for number, raw, candidates in _rows(text.lstrip("\ufeff"), codec):
        reason = "it is no JSON"
        for each in candidates:
            try:
                inputs.append(codec.decode(json.dumps(each)))
                break
            except Misfit as misfit:
                reason = str(misfit)
        else:
            bad.append(BadRow(number, raw[:_SHOWN], reason))
    return Rows(inputs, bad)


def _rows(text: str, codec: Codec[Any]) -> Iterator[tuple[int, str, list[Any]]]:
    """Number, text and possible values of each row."""
    stripped = text.strip()
    if stripped.startswith("["):
        try:
            values = json.loads(stripped)
        except ValueError:
            pass
        else:
            yield from ((place, json.dumps(each, ensure_ascii=False), [each]) for place, each in enumerate(values, 1))
            return
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if lines and _is_table(lines[0][1], codec):
        yield from _table(text)
        return
    for number, line in lines:
        try:
            yield number, line, [json.loads(line)]
        except ValueError:
            # A plain line is a text where the input is one.
            yield number, line, [line.strip()] if codec.schema.get("type") == "string" else []


def _is_table(first: str, codec: Codec[Any]) -> bool:
    """Whether the first line names fields of the input."""
    known = codec.schema.get("properties", {})
    return (
        bool(known) and not first.lstrip().startswith("{") and bool(set(next(csv.reader([first]), [])) & known.keys())
    )


def _table(text: str) -> Iterator[tuple[int, str, list[Any]]]:
    table = csv.DictReader(io.StringIO(text))
    for row in table:
        plain = {str(name): value for name, value in row.items() if name and value not in (None, "")}
        opened = {name: _opened(value) for name, value in plain.items()}
        # A cell may be a number or a text; the type of the input says which.
        yield table.line_num, ",".join(value for value in row.values() if isinstance(value, str)), [plain, opened]


def _opened(value: Any) -> Any:
    try:
        return json.loads(value)
    except (ValueError, TypeError):
        return value
