"""The words of the API and of its pages, in the languages they speak: one file each, the same keys in all."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

LANGUAGES = ("en", "pt")
"""The first is spoken to programs that ask for neither; pages have an order of their own."""
_PAGE = "page"


class Words(NamedTuple):
    """How a problem is called and told; what stands in braces is filled in."""

    title: str
    detail: str


@cache
def catalogue(language: str) -> dict[str, Words]:
    """The words of every code."""
    return {code: Words(**words) for code, words in _read(language).items() if code != _PAGE}


@cache
def phrases(language: str) -> dict[str, str]:
    """What the pages say, by dotted key: ``[page.live]`` ``silence`` is ``live.silence``."""
    return dict(_flat(_read(language).get(_PAGE, {})))


def phrase(language: str, key: str, **values: object) -> str:
    """One phrase of a page, filled in. When *n* is 1, ``key_one`` is said where there is one."""
    words = phrases(language)
    one = f"{key}_one"
    return words[one if values.get("n") == 1 and one in words else key].format(**values)


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


@cache
def _read(language: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8"))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, str):
            yield f"{prefix}{name}", value
        else:
            yield from _flat(value, f"{prefix}{name}.")
