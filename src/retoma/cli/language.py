"""The language of whoever reads a terminal. The code says everything in English; ``words/cli.toml`` of each package has
the same in Portuguese, and is read when somebody needs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache

from retoma.values.phrase import Phrase as Phrase  # noqa: PLC0414 - said to be for others, too
from retoma.values.phrase import in_catalogue
from retoma.values.phrase import joined as joined  # noqa: PLC0414

ENGLISH, PORTUGUESE = "en", "pt"

_OWN = ("retoma.cli", "retoma.demo", "retoma.bench")
_BETWEEN = re.compile(r"(?<=[.?!]) (?=[A-Z])")
_PLACE = re.compile(r"\{\w+\}")


def language() -> str:
    """The language to speak, by the rules of gettext: LC_ALL, LC_MESSAGES or LANG says it, and LANGUAGE may prefer
    others; where no locale is set, or the one of C, it is English.
    """
    locale = next((found for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (found := os.environ.get(name))), "C")
    if locale.partition(".")[0] in {"C", "POSIX"}:
        return ENGLISH
    liked = [each.lower()[:2] for each in (*os.environ.get("LANGUAGE", "").split(":"), locale)]
    return next((each for each in liked if each in (ENGLISH, PORTUGUESE)), ENGLISH)


def words(english: str, /, **values: object) -> str:
    """The sentence *english* with *values* in its places, in the language of the person."""
    return spoken(english if isinstance(english, Phrase) and not values else Phrase(english, **values))


def spoken(text: str) -> str:
    """*text* in the language of the person; what is no phrase, or in no catalogue, stays as it is."""
    if not isinstance(text, Phrase) or language() == ENGLISH:
        return str(text)
    return in_catalogue(text, _catalogue(packages()))


def relayed(text: str) -> str:
    """What the engine said in English, in the language of the person, as far as the error sentences have it."""
    if isinstance(text, Phrase) or language() == ENGLISH or text in _catalogue(packages()):
        return spoken(Phrase(text) if type(text) is str else text)
    lines = [(line, _line(line) if line.strip() else line) for line in text.split("\n")]
    return "\n".join(line if found is None else found for line, found in lines)


def _line(line: str) -> str | None:
    """One line in Portuguese: sentence by sentence if each is known, for a place in one would take the next one in, or
    else as a whole.
    """
    from retoma.web.words.sentences import in_portuguese

    told = [in_portuguese(each, packages=packages()) for each in _BETWEEN.split(line)]
    known = [each for each in told if each is not None]
    return " ".join(known) if len(known) == len(told) else in_portuguese(line, packages=packages())


@cache
def packages() -> tuple[str, ...]:
    """The packages that may have a catalogue: our own, and those of the installed extensions."""
    from retoma.app.extension import installed

    try:
        found = [each.package for each in installed() if each.package]
    except Exception:  # noqa: BLE001 - an extension that cannot be loaded is told of elsewhere, in these words
        found = []
    return tuple(dict.fromkeys(("retoma.web", *_OWN, *found)))


@cache
def _catalogue(packages: tuple[str, ...]) -> dict[str, str]:
    from retoma.web.words.sentences import STATES

    catalogues = ("sentences", "doctor", "cli")
    return STATES | {english: said for name in catalogues for english, said in _entries(packages, name)}


def _entries(packages: tuple[str, ...], name: str) -> Iterator[tuple[str, str]]:
    import tomllib

    from retoma.web.packages import files

    for each in files(packages, f"words/{name}.toml"):
        for english, said in tomllib.loads(each.read_text(encoding="utf-8")).items():
            # What the engine says is a pattern: a brace of its text stands twice, which nobody undoes without values.
            yield english, said.format() if name == "sentences" and not _PLACE.search(english) else said
