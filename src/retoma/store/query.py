"""A query is a value: its SQL, its parameters, and the type of its rows."""

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
PARAMETER = re.compile(r"%\(([a-z_0-9]+)\)s")


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """The SQL, the parameters, and the constructor of a row (called with the columns by position)."""

    sql: str
    row: Callable[..., T]
    params: Mapping[str, Any] = field(default_factory=dict)


Command = Generator[Query[Any], list[Any], T]
"""A command of several queries: it yields each one, receives its rows, and returns the result."""


def load(package: str, file: str) -> dict[str, str]:
    """The named blocks of an .sql file in *package*, by name; ``-- include: name`` is replaced by that block of
    shared.sql in the same package.
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
    """PostgreSQL's text form of an array, and the *values* themselves for a driver that writes its own form."""

    __slots__ = ("values",)
    values: Sequence[object]


def array(values: Sequence[object]) -> Array:
    """PostgreSQL's text form of an array of numbers, booleans, times or texts.

    The driver would inspect each element of a list; that would be the largest single cost of every job.
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
    """The same SQL with ``$1, $2, …``, and the parameters' names in that order."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    text = PARAMETER.sub(number, sql).replace("%%", "%")
    return text, tuple(names)
