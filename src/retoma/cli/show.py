"""What a reading command prints: a table for people, tab-separated lines for a pipe, JSON when asked."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

import click

T = TypeVar("T")

Reader = Callable[[T], object]
Columns = Mapping[str, Reader[T]]
"""What stands in each column of a table, by its heading."""

_JSON_TEXT = ("input", "output", "value")
_COLOURS = {
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "review": "magenta",
    "cancelled": "dim",
    "crashed": "red",
    "lost": "red",
    "timeout": "red",
}

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def in_terminal() -> bool:
    """Whether a person looks at what is printed."""
    return sys.stdout.isatty()


def talk(text: str) -> None:
    """Say something to the person; never part of the data."""
    click.echo(text, err=True)


def plain(value: Any) -> Any:
    """*value* as JSON has it: our nouns become objects, their stored JSON is opened, times are ISO."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _opened(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    return value


def _opened(name: str, value: Any) -> Any:
    return json.loads(value) if name in _JSON_TEXT and isinstance(value, str) else plain(value)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(plain(value), ensure_ascii=False, indent=2 if in_terminal() else None))


def table(rows: Sequence[T], columns: Columns[T], *, nothing: str) -> None:
    """The *rows*; to a person who would see none, *nothing* is said instead."""
    if not in_terminal():
        for row in rows:
            click.echo("\t".join(_cell(read(row)) for read in columns.values()))
    elif rows:
        _draw(rows, columns)
    else:
        talk(nothing)


def fields(values: Mapping[str, object]) -> None:
    """Names and values, one pair per line."""
    if not in_terminal():
        for name, value in values.items():
            click.echo(f"{name}\t{_cell(value)}")
        return
    width = max(map(len, values), default=0)
    for name, value in values.items():
        click.echo(click.style(f"{name:<{width}}  ", dim=True) + _cell(value, local=True))


def _draw(rows: Iterable[T], columns: Columns[T]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in columns:
        drawn.add_column(heading, overflow="ellipsis", no_wrap=True)
    for row in rows:
        cells = [_cell(read(row), local=True) for read in columns.values()]
        drawn.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in cells))
    Console().print(drawn)


def _cell(value: object, *, local: bool = False) -> str:
    match value:
        case None:
            return ""
        case True | False:
            return "yes" if value else "no"
        case datetime():
            # For people: the clock on their wall. For programs: the whole truth.
            return f"{value.astimezone():%Y-%m-%d %H:%M:%S}" if local else value.isoformat()
        case float():
            return f"{value:.10g}"
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return " ".join(str(value).split())
