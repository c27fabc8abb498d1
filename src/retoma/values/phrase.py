"""A sentence that knows its places and what stands in them, so that it can be said in another language later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Self

_DECIMALS = str.maketrans(",.", ".,")


class Phrase(str):  # noqa: SLOT000 - there are few of them, and not for long
    """A sentence in English that knows its places and what stands in them. Programs take it as the text that it is;
    ``in_catalogue`` says it in the language of a catalogue.
    """

    english: str
    values: Mapping[str, object]
    parts: tuple[str, ...] | None = None
    """What it is joined of, with *english* between them."""
    said: str | None = None
    """What it is in the language of the person, when that was found elsewhere."""

    def __new__(cls, english: str, /, **values: object) -> Self:
        made = super().__new__(cls, english.format(**values) if values else english)
        made.english, made.values = english, values
        return made


def joined(parts: Iterable[str], between: str = ", ") -> Phrase:
    """The *parts* in a row, each of which is said in the language of the whole."""
    kept = tuple(parts)
    made = Phrase(between.join(kept))
    made.english, made.parts = between, kept
    return made


def in_catalogue(text: str, catalogue: Mapping[str, str], otherwise: Callable[[str], str] = str) -> str:
    """*text* as *catalogue* has it. What is no phrase stays as it is; *otherwise* says what the catalogue lacks."""
    if not isinstance(text, Phrase):
        return str(text)
    if text.said is not None:
        return text.said
    if text.parts is not None:
        between = catalogue.get(text.english, text.english)
        return between.join(in_catalogue(each, catalogue, otherwise) for each in text.parts)
    if text.english not in catalogue and not text.values:
        return otherwise(text.english)
    found = catalogue.get(text.english, text.english)
    values = {name: _local(value, catalogue, otherwise) for name, value in text.values.items()}
    return found.format(**values) if values else found


def _local(value: object, catalogue: Mapping[str, str], otherwise: Callable[[str], str]) -> object:
    match value:
        case Phrase():
            return in_catalogue(value, catalogue, otherwise)
        case Enum():
            return catalogue.get(str(value.value), str(value.value))
        case int() | float() | Decimal() if not isinstance(value, bool):
            return _Number(value)
    return value


class _Number:
    """A number as it is written in Portuguese."""

    def __init__(self, value: float | Decimal) -> None:
        self._value = value

    def __format__(self, how: str) -> str:
        return format(self._value, how).translate(_DECIMALS)

    def __str__(self) -> str:
        return format(self, "")
