"""The words of the API and of its pages, in the languages they speak: one file each, the same keys in all."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from retoma.web.packages import files, packages

LANGUAGES = ("en", "pt")
"""The first is spoken to programs that ask for neither; pages have an order of their own."""
_PAGE = "page"


class Words(NamedTuple):
    """How a problem is called and told; what stands in braces is filled in."""

    title: str
    detail: str


def catalogue(language: str) -> dict[str, Words]:
    """The words of every code."""
    return _catalogue(language, packages())


@cache
def _catalogue(language: str, packages: tuple[str, ...]) -> dict[str, Words]:
    read = _read(language, packages)
    return {code: Words(**words) for each in read for code, words in each.items() if code != _PAGE}


def phrases(language: str) -> dict[str, str]:
    """What the pages say, by dotted key: ``[page.live]`` ``silence`` is ``live.silence``."""
    return phrases_of(language, packages())


@cache
def phrases_of(language: str, packages: tuple[str, ...]) -> dict[str, str]:
    """The same of *packages* alone."""
    return {key: text for each in _read(language, packages) for key, text in _flat(each.get(_PAGE, {}))}


def phrase(language: str, key: str, **values: object) -> str:
    """One phrase of a page, filled in. When *n* is 1, ``key_one`` is said where there is one."""
    words = phrases(language)
    one = f"{key}_one"
    return words[one if values.get("n") == 1 and one in words else key].format(**values)


def number_of(n: int, one: str, many: str) -> str:
    """How many, with the noun that fits the number: *one* is said of exactly one."""
    return f"{n} {one if n == 1 else many}"


def language_of(accepted: str, *, otherwise: str = LANGUAGES[0]) -> str:
    """The language that an Accept-Language header likes best, of those we speak."""
    liked: list[tuple[float, str]] = []
    for part in accepted.split(","):
        tag, _, quality = part.partition(";")
        try:
            weight = float(quality.replace(" ", "").removeprefix("q=") or 1)
        except ValueError:
            weight = 0.0
        liked.append((-weight, tag.strip().lower().partition("-")[0]))
    spoken = [tag for weight, tag in sorted(liked, key=lambda each: each[0]) if tag in LANGUAGES and weight < 0]
    return spoken[0] if spoken else otherwise


def _read(language: str, packages: tuple[str, ...]) -> list[dict[str, Any]]:
    return [tomllib.loads(each.read_text(encoding="utf-8")) for each in files(packages, f"words/{language}.toml")]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, str):
            yield f"{prefix}{name}", value
        else:
            yield from _flat(value, f"{prefix}{name}.")
