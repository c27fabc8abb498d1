"""Which documents to ask a person about next: those of which least is known, and no ten alike.

The document with the lowest margin is often one of many that are doubtful for the same reason, and the same answer ten
times teaches little more than once. Each document that is chosen, or that a person has decided, therefore takes the
weight off those that are like it; and one that is like nothing else waits, because its answer helps no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]

POOL = 2_000
"""The most doubtful documents that are compared with each other; the rest follows by margin."""
_SHARPNESS = 2.0
"""How quickly the weight falls with likeness: the power of the distance to the nearest one that is known."""


def order(vectors: Rows, margins: NDArray[np.float64], known: Rows, *, most: int | None = None) -> list[int]:
    """The places of the documents in the order to ask; *known* are the vectors of those that people decided. Rows have
    length 1. The same documents in the same order give the same answer.
    """
    count = len(margins)
    most = count if most is None else min(most, count)
    by_margin = np.argsort(margins, kind="stable")
    pool, rest = by_margin[:POOL], by_margin[POOL:]
    spread = _spread(vectors[pool], margins[pool], known, min(most, len(pool)))
    chosen = [int(pool[place]) for place, _ in spread]
    return [*chosen, *(int(place) for place in rest[: most - len(chosen)])]


def turns(vectors: NDArray[Any], margins: NDArray[np.float64], known: NDArray[Any]) -> list[float]:
    """For each document a number between 0 and 1 by which to ask about them, the lowest first: the lowest margin of all
    for the one that teaches most, and 1 for one that teaches nothing after those before it.
    """
    margins = np.clip(margins, 0.0, 1.0)
    found = np.ones(len(margins))
    pool = np.argsort(margins, kind="stable")[:POOL]
    given = np.asarray(vectors[pool], dtype=np.float32)
    spread = _spread(given, margins[pool], np.asarray(known, dtype=np.float32), len(pool))
    if not spread or spread[0][1] <= 0.0:
        return [float(each) for each in margins]  # they are like nothing, and say nothing of each other
    most, least = spread[0][1], float(margins.min())
    # What a document would teach never grows while others are chosen, so the numbers never fall.
    for place, worth in spread:
        found[pool[place]] = round(1.0 - (1.0 - least) * worth / most, 6)
    return [float(each) for each in found]


def _spread(vectors: Rows, margins: NDArray[np.float64], known: Rows, most: int) -> list[tuple[int, float]]:
    """Places in the pool and their worth, the best first: doubtful, typical of others, and unlike what is known."""
    if not len(vectors):
        return []
    centred, seen = _centred(vectors, known)
    doubt = 1.0 - np.clip(margins, 0.0, 1.0)
    likeness = np.clip(centred @ centred.T, 0.0, 1.0)
    weight = doubt * likeness.mean(axis=1)
    nearest = np.clip(centred @ seen.T, 0.0, 1.0).max(axis=1) if len(seen) else np.zeros(len(vectors))
    left = np.ones(len(vectors), dtype=bool)
    chosen: list[tuple[int, float]] = []
    for _ in range(most):
        worth = np.where(left, weight * (1.0 - nearest + 1e-6) ** _SHARPNESS, -1.0)
        best = int(worth.argmax())
        chosen.append((best, float(worth[best])))
        left[best] = False
        nearest = np.maximum(nearest, likeness[best])
    return chosen


def _centred(vectors: Rows, known: Rows) -> tuple[Rows, Rows]:
    """Both relative to the mean of the documents: what all of them share tells none apart."""
    mean = vectors.mean(axis=0)
    return _unit(vectors - mean), _unit(known - mean) if len(known) else known


def _unit(rows: Rows) -> Rows:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths), dtype=np.float32)
