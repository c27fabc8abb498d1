"""What a check remarks: a code with its values, which is kept, and its words in a language, which are said to readers.

The words are those of the pages, in ``words/en.toml`` and ``words/pt.toml`` under ``[page.books.remark]``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

Value = str | int

_LONG_NUMBER = 10_000
_AS_SAID = "as_said"
"""What was kept as a sentence: the code whose only value is that sentence."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that a reader should know."""

    code: str
    values: Mapping[str, Value] = field(default_factory=dict)


def remark(code: str, **values: Value) -> Remark:
    """The remark *code* with its values."""
    return Remark(code, values)


def to_values(remarks: Iterable[Remark]) -> list[dict[str, Any]]:
    """*remarks* as JSON values."""
    return [{"code": each.code, "values": dict(each.values)} for each in remarks]


def of_values(values: Iterable[Any]) -> tuple[Remark, ...]:
    """The remarks that *values* are; a plain sentence is one that says itself."""
    return tuple(
        remark(_AS_SAID, text=each) if isinstance(each, str) else Remark(each["code"], each.get("values", {}))
        for each in values
    )


def said(told: Remark, language: str) -> str:
    """*told* in *language*; by its code and values where the language has no words for it."""
    words = _words(language)
    one = f"{told.code}_one"
    text = words.get(one if told.values.get("n") == 1 and one in words else told.code)
    values = {name: _shown(name, value, language) for name, value in told.values.items()}
    try:
        return (text or "").format(**values) or _bare(told)
    except (IndexError, KeyError, ValueError):  # a file that somebody else wrote has other values
        return _bare(told)


def all_said(remarks: Iterable[Remark], language: str) -> list[str]:
    """Each of *remarks* in *language*."""
    return [said(each, language) for each in remarks]


def _bare(told: Remark) -> str:
    return " ".join([told.code, *(f"{name}={value}" for name, value in told.values.items())])


def _shown(name: str, value: Value, language: str) -> str:
    if name == "page" or not isinstance(value, int) or value < _LONG_NUMBER:
        return str(value)
    return f"{value:,}".replace(",", "." if language == "pt" else ",")


@cache
def _words(language: str) -> Mapping[str, str]:
    spoken = language if language in {"pt", "en"} else "en"
    file = resources.files("retoma.pipelines.books").joinpath("words", f"{spoken}.toml")
    words: Mapping[str, str] = tomllib.loads(file.read_text(encoding="utf-8"))["page"]["books"]["remark"]
    return words
