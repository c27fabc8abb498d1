"""How the review desk shows things: the text with the passage that decided, and the charts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retoma.model.review import Agreed, Agreement, Review, Waiting
from retoma.web.words.sentences import in_portuguese

_LONGEST = 60_000
_AROUND = 20_000
WIDTH, HEIGHT = 320, 200
_LEFT, _BOTTOM, _TOP, _RIGHT = 34, 24, 8, 8
_FEW = 5


class Piece(NamedTuple):
    """A part of a text; *marked* when it is the one that decided."""

    text: str
    marked: bool


def sentence(said: str | None, language: str) -> str:
    """What an extension *said* in English, in *language* where somebody has written that down."""
    if not said or language == "en":
        return said or ""
    return in_portuguese(said) or said


def pieces_of(text: str | None, passage: str | None) -> list[Piece]:
    """*text* in pieces, with the first place where *passage* stands marked, however its words are spaced. Of a very
    long text only what stands around that place.
    """
    if not text:
        return []
    place = _found(text, passage)
    if place is None:
        return [Piece(text[:_LONGEST], marked=False)]
    start, end = place
    first, last = (0, len(text)) if len(text) <= _LONGEST else (max(0, start - _AROUND), end + _AROUND)
    cut = (
        Piece(text[first:start], marked=False),
        Piece(text[start:end], marked=True),
        Piece(text[end:last], marked=False),
    )
    return [each for each in cut if each.text]


def _found(text: str, passage: str | None) -> tuple[int, int] | None:
    if not passage or not passage.strip():
        return None
    at = text.find(passage)
    if at >= 0:
        return at, at + len(passage)
    pattern = r"\s+".join(map(re.escape, passage.split()))
    found = re.search(pattern, text, re.IGNORECASE)
    return found.span() if found else None


def pretty(value: str | None) -> str:
    """JSON as people read it."""
    return "" if value is None else json.dumps(json.loads(value), ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class Group:
    """What waits of one pipeline."""

    pipeline: str
    waiting: int
    taken: int
    labels: tuple[Waiting, ...]


def groups_of(counts: Sequence[Waiting]) -> list[Group]:
    """What waits, by pipeline, the most first."""
    names = dict.fromkeys(each.pipeline for each in counts)
    found = [
        Group(
            name,
            sum(each.waiting for each in counts if each.pipeline == name),
            sum(each.taken for each in counts if each.pipeline == name),
            tuple(each for each in counts if each.pipeline == name),
        )
        for name in names
    ]
    return sorted(found, key=lambda each: -each.waiting)


class Point(NamedTuple):
    """A tenth of the confidence in the picture: where it stands, how large it is, and what it says."""

    x: float
    y: float
    radius: float
    said: float
    kept: float
    decided: int


def calibration_of(agreement: Agreement) -> list[Point]:
    """The points of the calibration: what was said, and what people kept."""
    rows = agreement.by_tenth()
    most = max((each.decided for each in rows), default=1)
    return [
        Point(
            x=_LEFT + (WIDTH - _LEFT - _RIGHT) * _said(each),
            y=HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * each.agreed / each.decided,
            radius=4 + 6 * (each.decided / most) ** 0.5,
            said=_said(each),
            kept=each.agreed / each.decided,
            decided=each.decided,
        )
        for each in rows
    ]


def _said(row: Agreed) -> float:
    return row.confidence if row.confidence is not None else ((row.tenth or 0) + 0.5) / 10


def axes() -> dict[str, float]:
    """Where the axes of the calibration stand."""
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": _LEFT,
        "right": WIDTH - _RIGHT,
        "top": _TOP,
        "bottom": HEIGHT - _BOTTOM,
    }


def is_few(row: Agreed) -> bool:
    """Whether so few were decided that the share says little."""
    return row.decided < _FEW


def measures(review: Review) -> list[tuple[str, float]]:
    """What the pipeline says about its own doubt, each between 0 and 1."""
    known = (("confidence", review.confidence), ("margin", review.margin))
    return [(name, min(1.0, max(0.0, value))) for name, value in known if value is not None]
