"""Texts that are meant to hold up a pattern: of its own pieces, as long as one likes, with no match at the end."""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Words: TypeAlias = "re.Pattern[str] | re.Pattern[bytes]"
Grown: TypeAlias = Callable[[int], "str | bytes"]
"""A text of about so many characters."""

_ALWAYS = "aZé0 \t\n.:-<!"
_ENDS = ("", "\n", "\x01", "a")
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda each: not each.isdigit(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda each: not each.isspace(),
    sre.CATEGORY_WORD: lambda each: each.isalnum() or each == "_",
    sre.CATEGORY_NOT_WORD: lambda each: not (each.isalnum() or each == "_"),
}


def texts(pattern: Words) -> list[Grown]:
    """Every way in which we try to hold up *pattern*: each run of its characters after each of its beginnings, each of
    its beginnings again and again, each of its repeated parts again and again.
    """
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    letters = _letters(tree)
    read = _Reading(letters)
    beginnings = dict.fromkeys(["", *read.beginnings(tree, "")])
    runs = dict.fromkeys([*letters, *read.bodies])
    tried: dict[tuple[str, str, str], None] = {}
    for before in beginnings:
        for run in runs:
            tried.update(dict.fromkeys((before, run, end) for end in _ENDS))
        for between in ("", " ", "\n", "\x01"):
            if before:
                tried[("", before + between, "\x01")] = None
    encoded = isinstance(pattern.pattern, bytes)
    return [_grown(*each, encoded=encoded) for each in tried]


def _grown(before: str, run: str, end: str, *, encoded: bool) -> Grown:
    def grown(length: int) -> str | bytes:
        text = before + run * (length // len(run)) + end
        return text.encode("latin-1", "replace") if encoded else text

    grown.__doc__ = f"{before!r}, then {run!r} again and again, then {end!r}"
    return grown


class _Reading:
    """A tree of a pattern, read for examples of what it takes."""

    def __init__(self, letters: list[str]) -> None:
        self._letters = letters
        self._groups: dict[int, str] = {}
        self.bodies: list[str] = []
        """What its repeated parts take once."""

    def beginnings(self, tree: Any, before: str) -> Iterator[str]:
        """What its parts take, up to each place where it may be repeated or may end."""
        for kind, value in tree:
            for inner in _inside(kind, value):
                yield from self.beginnings(inner, before)
            if kind in _REPEATS:
                yield before
                self.bodies.append(self.example(value[2]) or "a")
            before += self._one(kind, value)
            if kind in _REPEATS or kind is sre.BRANCH:
                yield before
        yield before[:-1]
        yield before

    def example(self, tree: Any) -> str:
        return "".join(self._one(kind, value) for kind, value in tree)

    def _one(self, kind: Any, value: Any) -> str:
        if kind in _REPEATS:
            return self.example(value[2]) * min(max(value[0], 1), 50)
        if kind is sre.SUBPATTERN:
            self._groups[value[0]] = self.example(value[-1])
            return self._groups[value[0]]
        if kind is sre.GROUPREF:
            return self._groups.get(value, "")
        if kind in (sre.BRANCH, sre.ATOMIC_GROUP):
            return self.example(next(_inside(kind, value)))
        if not _takes_one(kind):
            return ""
        return next((each for each in (*_named(kind, value), *self._letters) if takes(kind, value, each)), "a")


def _inside(kind: Any, value: Any) -> Iterator[Any]:
    if kind in _REPEATS:
        yield value[2]
    elif kind is sre.SUBPATTERN:
        yield value[-1]
    elif kind is sre.BRANCH:
        yield from value[1]
    elif kind is sre.ATOMIC_GROUP:
        yield value
    elif kind in (sre.ASSERT, sre.ASSERT_NOT):
        yield value[1]


def _takes_one(kind: Any) -> bool:
    return kind in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY, sre.CATEGORY)


def takes(kind: Any, value: Any, letter: str) -> bool:
    """Whether a part that takes one character takes *letter*."""
    if kind is sre.ANY:
        return letter != "\n"
    if kind is sre.LITERAL:
        return ord(letter) == value
    if kind is sre.NOT_LITERAL:
        return ord(letter) != value
    if kind is sre.RANGE:
        return bool(value[0] <= ord(letter) <= value[1])
    if kind is sre.CATEGORY:
        return _CATEGORIES[value](letter)
    negated = bool(value) and value[0][0] is sre.NEGATE
    return any(takes(*each, letter) for each in value if each[0] is not sre.NEGATE) != negated


def _letters(tree: Any) -> list[str]:
    """One character for each way in which the pattern's parts tell characters apart."""
    parts = list(_parts(tree))
    known = dict.fromkeys(_ALWAYS)
    for kind, value in parts:
        known.update(dict.fromkeys(_named(kind, value)))
    apart: dict[tuple[bool, ...], str] = {}
    for letter in known:
        apart.setdefault(tuple(takes(kind, value, letter) for kind, value in parts if kind is not sre.LITERAL), letter)
    return list(apart.values())


def _parts(tree: Any) -> Iterator[tuple[Any, Any]]:
    for kind, value in tree:
        if _takes_one(kind):
            yield kind, value
        for inner in _inside(kind, value):
            yield from _parts(inner)


def _named(kind: Any, value: Any) -> Iterator[str]:
    if kind in (sre.LITERAL, sre.NOT_LITERAL):
        yield chr(value)
    elif kind is sre.IN:
        for each, what in value:
            yield from _named(each, what)
    elif kind is sre.RANGE:
        yield chr(value[0])
        yield chr(min(value[1], sys.maxunicode))
