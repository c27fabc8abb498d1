"""Ranks the sentences of a text by importance and novelty."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retoma.providers.local.encoder import Matrix

CENTRAL, NEAR_TITLE, EARLY = 0.65, 0.20, 0.15

_ALIKE = 0.3
"""Below this cosine two sentences are unrelated."""

_DAMPING, _ROUNDS = 0.85, 40
_BLOCK = 1_000
"""Sentences that are compared with each other; the square of more would not fit in memory."""

_NEW = 0.6
"""The weight of importance against similarity to sentences already chosen."""

_ENDS = re.compile(r"[.!?…][\"”»')\]]*$")
_SHORT, _LONG = 6, 60


def weights(sentences: Sequence[str], rows: Matrix, title: Matrix) -> NDArray[np.float64]:
    """The importance of each sentence, from 0 to 1."""
    count = len(sentences)
    central = np.concatenate([_lexrank(rows[start : start + _BLOCK]) for start in range(0, count, _BLOCK)])
    near = np.clip(rows @ title, 0, 1)
    early = 1 - np.arange(count) / max(1, count)
    total = CENTRAL * central + NEAR_TITLE * near + EARLY * early
    return np.asarray([weight * _wholeness(sentence) for sentence, weight in zip(sentences, total, strict=True)])


def _lexrank(rows: Matrix) -> NDArray[np.float64]:
    """The centrality of each sentence: a sentence similar to many central ones is central."""
    alike = np.asarray(rows @ rows.T, dtype=np.float64)
    alike[alike < _ALIKE] = 0
    np.fill_diagonal(alike, 0)
    sums = alike.sum(axis=1, keepdims=True)
    steps = np.divide(alike, sums, out=np.full_like(alike, 1 / len(rows)), where=sums > 0)
    rank = np.full(len(rows), 1 / len(rows))
    for _ in range(_ROUNDS):
        rank = (1 - _DAMPING) / len(rows) + _DAMPING * (rank @ steps)
    return np.asarray(rank / rank.max())


def _wholeness(sentence: str) -> float:
    """A heading, a row of a table or a fragment counts less than a sentence."""
    words = len(sentence.split())
    letters = sum(map(str.isalpha, sentence)) / max(1, len("".join(sentence.split())))
    whole = 1.0 if is_sentence(sentence) else 0.4
    return whole * (1.0 if _SHORT <= words <= _LONG else 0.5) * (1.0 if letters > 0.7 else 0.5)  # noqa: PLR2004  # half numbers


def is_sentence(text: str) -> bool:
    """Whether *text* ends as sentences do."""
    return _ENDS.search(text) is not None


def diverse(
    rows: Matrix,
    weights: NDArray[np.float64],
    lengths: NDArray[np.int64],
    *,
    words: int | None = None,
    count: int | None = None,
) -> list[int]:
    """The indexes of important sentences, each unlike those before, up to that many *words* or sentences."""
    taken: list[int] = []
    likest = np.zeros(len(rows))
    free = np.ones(len(rows), dtype=bool)
    total = 0
    while free.any() and (count is None or len(taken) < count) and (words is None or total < words):
        scores = np.where(free, _NEW * weights - (1 - _NEW) * likest, -np.inf)
        place = int(scores.argmax())
        taken.append(place)
        free[place] = False
        total += int(lengths[place])
        likest = np.maximum(likest, rows @ rows[place])
    return taken
