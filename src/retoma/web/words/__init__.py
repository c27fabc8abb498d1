"""The words of the API, in the languages it speaks: one file each, the same codes in all."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import NamedTuple

LANGUAGES = ("en", "pt")
"""The first is spoken to those who ask for neither."""


class Words(NamedTuple):
    """How a problem is called and told; what stands in braces is filled in."""

    title: str
    detail: str


@cache
def catalogue(language: str) -> dict[str, Words]:
    """The words of every code."""
    text = resources.files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8")
    return {code: Words(**words) for code, words in tomllib.loads(text).items()}


def language_of(accepted: str) -> str:
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
    return spoken[0] if spoken else LANGUAGES[0]
