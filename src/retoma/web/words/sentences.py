"""What the engine says in English, in Portuguese: sentence by sentence, with the real values in their places."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from retoma.web.packages import files
from retoma.web.packages import packages as served
from retoma.web.words import phrases_of

_PLACE = re.compile(r"\{(\w+)\}")
STATES = {
    "queued": "pendente",
    "running": "em andamento",
    "completed": "concluído",
    "skipped": "pulado",
    "failed": "erro",
    "review": "em revisão",
    "paused": "pausado",
    "stalled": "travado",
    "cancelled": "cancelado",
}


class Sentence(NamedTuple):
    """One sentence in both languages: what stands between its places in English, their names, and the Portuguese."""

    fixed: tuple[str, ...]
    places: tuple[str, ...]
    portuguese: str


def in_portuguese(said: str, *, packages: tuple[str, ...] = ()) -> str | None:
    """What *said* says, in Portuguese; None when nobody has written that down. The sentences are those of *packages*,
    or else of what is served.
    """
    bare = said.rstrip(".")
    for sentence in _sentences(packages or served()):
        found = _filled(sentence.fixed, said)
        if found is None and bare != said:
            found = _filled(sentence.fixed, bare)
        if found is not None:
            values = dict(zip(sentence.places, found, strict=True))
            if "why" in values:
                values["why"] = in_portuguese(values["why"], packages=packages) or values["why"]
            if "state" in values:
                values["state"] = STATES.get(values["state"], values["state"])
            if "choices" in values:
                values["choices"] = values["choices"].replace(" or ", " ou ")
            return sentence.portuguese.format(**values)
    place, colon, rest = bare.partition(": ")
    told = in_portuguese(rest, packages=packages) if colon and place.isprintable() and " " not in place else None
    return None if told is None else f"{place}: {told}"


def _filled(fixed: tuple[str, ...], said: str) -> list[str] | None:
    """What stands in the places of a sentence, if *said* is one: each fixed part is looked for once, from left to
    right.
    """
    first, last = fixed[0], fixed[-1]
    if len(fixed) == 1:
        return [] if said == first else None
    if not said.startswith(first) or not said.endswith(last) or len(said) < len(first) + len(last):
        return None
    at, end, found = len(first), len(said) - len(last), []
    for part in fixed[1:-1]:
        reached = said.find(part, at, end)
        if reached < 0:
            return None
        found.append(said[at:reached])
        at = reached + len(part)
    return [*found, said[at:end]] if at <= end else None


@cache
def _sentences(packages: tuple[str, ...]) -> list[Sentence]:
    """Those with the longest fixed words first: they say the most."""
    read = dict(_remarks(packages))
    for each in files(packages, "words/sentences.toml"):
        read |= tomllib.loads(each.read_text(encoding="utf-8"))
    made = [
        Sentence(tuple(_PLACE.split(english)[::2]), tuple(_PLACE.findall(english)), portuguese)
        for english, portuguese in read.items()
    ]
    return sorted(made, key=lambda each: -sum(map(len, each.fixed)))


def _remarks(packages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What the checks of an extension remark, in English and in Portuguese: its pages say the same by their codes."""
    portuguese = phrases_of("pt", packages)
    for name, english in phrases_of("en", packages).items():
        if ".remark." in name and _PLACE.sub("", english):
            yield english, portuguese[name]
