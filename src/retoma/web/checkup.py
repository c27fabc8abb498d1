"""What the doctor finds, for the API and the console: looked for twice a minute, told in the reader's language."""

from __future__ import annotations

import asyncio
import time
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from retoma.app.doctor.facts import Facts
from retoma.app.doctor.findings import Finding
from retoma.app.doctor.look import known_of, look
from retoma.app.retoma import Retoma
from retoma.values.phrase import Phrase, in_catalogue
from retoma.web.packages import files
from retoma.web.words.sentences import STATES, in_portuguese

LEVELS = ("green", "amber", "red")
_FRESH = 30.0
_PRIVATE = frozenset({"account", "database", "keys", "transactions"})
_KEPT_BACK = Phrase("seen with the scope operate")


class Checkup:
    """The newest findings about an app; whoever asks meanwhile waits for the same look."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self._found: list[Finding] = []
        self._known: Facts | None = None
        self._at: float | None = None
        self._lock = asyncio.Lock()

    async def findings(self, *, anew: bool = False) -> list[Finding]:
        """What was found lately, or now."""
        return (await self._look(anew=anew))[0]

    async def whole(self, *, anew: bool = False) -> tuple[list[Finding], Facts]:
        """The findings, and what is known of the database."""
        found, known = await self._look(anew=anew)
        return found, known or await known_of(self._app)

    async def _look(self, *, anew: bool) -> tuple[list[Finding], Facts | None]:
        """The measuring takes a job through the queue, so that it is not done for each who looks."""
        async with self._lock:
            if anew or self._at is None or time.monotonic() - self._at > _FRESH:
                self._found, self._known = await look(self._app)
                self._at = time.monotonic()
            return self._found, self._known


def told(findings: Sequence[Finding], language: str, *, whole: bool) -> list[Finding]:
    """The *findings* in *language*. Names of accounts, keys and sessions are told only when *whole*; how these things
    stand is told always.
    """
    shown = [
        each if whole or each.what not in _PRIVATE else replace(each, seen=_KEPT_BACK, next="") for each in findings
    ]
    return [
        Finding(each.level, _said(each.what, language), _said(each.seen, language), _said(each.next, language))
        for each in shown
    ]


def worst(findings: Sequence[Finding]) -> str:
    """The level of the worst finding."""
    return max((each.level for each in findings), key=LEVELS.index, default=LEVELS[0])


def _said(text: str, language: str) -> str:
    if language == "en" or not text:
        return str(text)
    if isinstance(text, Phrase) or text in _catalogue():
        return in_catalogue(text if isinstance(text, Phrase) else Phrase(text), _catalogue(), _relayed)
    return _relayed(text)


def _relayed(text: str) -> str:
    return in_portuguese(text) or text


@cache
def _catalogue() -> dict[str, str]:
    (own,) = files(("retoma.web",), "words/doctor.toml")
    return STATES | tomllib.loads(own.read_text(encoding="utf-8"))
