"""What a summary must not miss: at most twelve critical items of a chapter, and some that support them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from retoma.pipelines.books.ports import Chapter, RecallItem
from retoma.pipelines.books.text.chunks import Chunk
from retoma.pipelines.books.text.discourse import Standing
from retoma.pipelines.books.text.numerals import fold
from retoma.pipelines.books.text.passages import standing_places
from retoma.pipelines.books.text.sentences import Sentence, owners
from retoma.providers.local.encoder import Matrix

VERSION = 2
"""Of how items are chosen; another one makes another configuration."""

CRITICAL, SUPPORTING = 12, 20
CRITICAL_WORDS = 300
"""All critical items together, so that a summary of 500 words has room for each and for what leads to it."""

SAME = 0.8
"""From this cosine on a sentence says again what another says."""

_CENTRAL = 5
_ID_DIGITS = 12
_DEFINITION = re.compile(
    r"\b(define-se|é definid[oa]|são definid[oa]s|entende-se por|consiste em|consistem em|significa|chama-se|"
    r"denomina-se|considera-se|is defined as|are defined as|means that|refers to|is called|consists of)\b",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"\b(deve|devem|deverá|deverão|é vedad[oa]|é proibid[oa]|é obrigatóri[oa]|não pode|não podem|nunca|sempre que|"
    r"must|shall|is forbidden|is required|may not|never)\b",
    re.IGNORECASE,
)
_ORDER = ("definition", "rule", "repeated", "title", "central")
_WORDS = re.compile(r"\w{5,}")


def items(
    chapter: Chapter,
    sentences: Sequence[Sentence],
    chunks: Sequence[Chunk],
    rows: Matrix,
    weights: NDArray[np.float64],
) -> tuple[RecallItem, ...]:
    """What a summary of *chapter* should say; chosen the same way on every run, none of it covered yet."""
    places = standing_places(sentences, _CENTRAL, Standing.SPOKEN)
    places.sort(key=lambda place: (-weights[place], place))
    own = owners(sentences, chunks)
    found: dict[str, tuple[int, RecallItem]] = {}
    for place in places[: CRITICAL + SUPPORTING]:
        again = [int(other) for other in np.flatnonzero(rows @ rows[place] >= SAME)]
        spread = tuple(sorted({own[other] for other in (place, *again)} - {0}))
        text = sentences[place].text
        reason = _reason(text, chapter.title, spread)
        id = identity(chapter, text)
        if spread and id not in found:
            found[id] = (
                len(again),
                RecallItem(id=id, text=text, critical=False, reason=reason, chunks=spread, covered=False),
            )
    ranked = sorted(
        found.values(), key=lambda each: (_ORDER.index(each[1].reason), -each[0], -len(each[1].chunks), each[1].id)
    )
    told: list[RecallItem] = []
    room, left = min(CRITICAL_WORDS, sum(each.words for each in sentences) * 2 // 3), CRITICAL
    for _, item in ranked:
        # What is only central counts where the chapter defines and rules next to nothing.
        wanted = item.reason != "central" or CRITICAL - left < _CENTRAL
        critical = wanted and left > 0 and len(item.text.split()) <= room
        if critical:
            room, left = room - len(item.text.split()), left - 1
        told.append(replace(item, critical=critical))
    return tuple(told)


def identity(chapter: Chapter, text: str) -> str:
    """The id of an item: its chapter and twelve digits of a hash of its words. The same on every run."""
    words = "".join(each if each.isalnum() else " " for each in fold(text)).split()
    return f"{chapter.number}-{hashlib.sha256(' '.join(words).encode()).hexdigest()[:_ID_DIGITS]}"


def _reason(sentence: str, title: str, spread: Sequence[int]) -> str:
    if _DEFINITION.search(sentence):
        return "definition"
    if _RULE.search(sentence):
        return "rule"
    if len(spread) > 1:
        return "repeated"
    named = set(_WORDS.findall(fold(title)))
    return "title" if named & set(_WORDS.findall(fold(sentence))) else "central"
