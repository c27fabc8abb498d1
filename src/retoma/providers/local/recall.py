"""Measures how much of a chapter its summary covers: by sentences, and by critical points."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retoma.providers.local.chapters import CHUNK_WORDS, OVERLAP_WORDS
from retoma.providers.local.encoder import Matrix
from retoma.providers.local.summaries import Chapter, Point, Recall

THRESHOLD = 0.5
"""From this cosine on two sentences say the same; chosen by reading pairs."""

SAME = 0.8
"""From this cosine on one repeats the other."""

CRITICAL = 12
SUPPORTING = 20

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


def points(chapter: Chapter, sentences: Sequence[str], rows: Matrix, weights: NDArray[np.float64]) -> tuple[Point, ...]:
    """What a summary of *chapter* should cover; at most 12 points are critical, chosen deterministically."""
    chunks = _chunks(sentences)
    found = []
    for place in sorted(range(len(sentences)), key=lambda each: -weights[each])[: CRITICAL + SUPPORTING]:
        again = np.flatnonzero(rows @ rows[place] >= SAME)
        spread = tuple(sorted({chunk for other in again for chunk in chunks[int(other)]}))
        reason = _reason(sentences[place], chapter.title, spread, chunks[place])
        found.append((reason, len(again), spread, place))
    found.sort(key=lambda each: (_ORDER.index(each[0]), -each[1], -len(each[2]), _id(chapter, sentences[each[3]])))
    critical = [each for each in found if each[0] != "central"][:CRITICAL]
    return tuple(
        Point(
            id=_id(chapter, sentences[place]),
            text=sentences[place],
            critical=(reason, times, spread, place) in critical,
            reason=reason,
            chunks=spread,
            times=times,
        )
        for reason, times, spread, place in found
    )


def critical_places(found: Sequence[Point], sentences: Sequence[str]) -> list[int]:
    """The indexes of the critical points."""
    return [sentences.index(point.text) for point in found if point.critical]


def is_covered(rows: Matrix, place: int, chosen: Sequence[int]) -> bool:
    """Whether one of the *chosen* sentences covers the one at *place*."""
    return bool(len(chosen)) and float((rows[list(chosen)] @ rows[place]).max()) >= THRESHOLD


def measure(rows: Matrix, chosen: Sequence[int], found: Sequence[Point], sentences: Sequence[str]) -> Recall:
    """How much of all sentences and of the points *found* the *chosen* sentences cover."""
    nearest = (rows @ rows[list(chosen)].T).max(axis=1)
    missing = [point.id for point in found if point.critical and nearest[sentences.index(point.text)] < THRESHOLD]
    return Recall(
        threshold=THRESHOLD,
        sentences=len(sentences),
        covered=int((nearest >= THRESHOLD).sum()),
        points=tuple(found),
        missing=tuple(missing),
    )


def _reason(sentence: str, title: str, spread: Sequence[int], own: Sequence[int]) -> str:
    if _DEFINITION.search(sentence):
        return "definition"
    if _RULE.search(sentence):
        return "rule"
    if set(spread) - set(own):
        return "repeated"
    words = set(re.findall(r"\w{5,}", _bare(title)))
    return "title" if words and words & set(re.findall(r"\w{5,}", _bare(sentence))) else "central"


def _chunks(sentences: Sequence[str]) -> list[tuple[int, ...]]:
    """The chunks of each sentence: one, or two where they overlap."""
    step, word = CHUNK_WORDS - OVERLAP_WORDS, 0
    found: list[tuple[int, ...]] = []
    for sentence in sentences:
        last = word // step
        found.append((last, last + 1) if last and word % step < OVERLAP_WORDS else (last + 1,))
        word += len(sentence.split())
    return found


def _id(chapter: Chapter, sentence: str) -> str:
    return f"{chapter.number}-{hashlib.sha256(_bare(sentence).encode()).hexdigest()[:6]}"


def _bare(text: str) -> str:
    """Lower case, without accents and punctuation."""
    plain = unicodedata.normalize("NFKD", text.lower())
    return " ".join(re.sub(r"[^\w\s]", "", "".join(each for each in plain if not unicodedata.combining(each))).split())
