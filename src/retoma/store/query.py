"""A query is a value: its text, its parameters, and what a row becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_NAME = re.compile(r"^-- name: ([a-z_]+)\s*$", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: ([a-z_]+)\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"%\(([a-z_0-9]+)\)s")


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """What to ask, with which parameters, and what a row becomes (called with the columns by position)."""

    sql: str
    row: Callable[..., T]
    params: Mapping[str, Any] = field(default_factory=dict)


Command = Generator[Query[Any], list[Any], T]
"""What takes several queries: it yields each one, is sent its rows, and returns what came of it."""


def load(package: str, file: str) -> dict[str, str]:
    """The named blocks of an .sql file that lives in *package*, by name; ``-- include: name`` stands for a block of
    the file shared.sql beside it.
    """
    return {name: _whole(package, body) for name, body in _blocks(package, file)}


def _whole(package: str, body: str) -> str:
    return _INCLUDE.sub(lambda line: _whole(package, _shared(package)[line[1]]), body)


@cache
def _shared(package: str) -> dict[str, str]:
    return dict(_blocks(package, "shared.sql"))


def _blocks(package: str, file: str) -> list[tuple[str, str]]:
    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return [(name, body.strip()) for name, body in zip(parts[1::2], parts[2::2], strict=True)]


class Array(str):
    """PostgreSQL's own text for an array, and the *values* themselves for a driver that wants to write it."""

    __slots__ = ("values",)
    values: Sequence[object]


def array(values: Sequence[object]) -> Array:
    """PostgreSQL's own text for an array of numbers, truths, times or texts.

    The driver looks at each element of a list; on the way of every job that is the largest single cost.
    """
    text = Array("{" + ",".join(["NULL" if each is None else _quoted(each) for each in values]) + "}")
    text.values = values
    return text


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value) if isinstance(value, int | float) else f'"{value}"'


@cache
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """The same text with ``$1, $2, …`` and the parameters' names in that order."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    text = _PARAMETER.sub(number, sql).replace("%%", "%")
    return text, tuple(names)
