"""Vectors measured from an origin that moves, and the parameters by which a batch is judged in that space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

OTHER = -1
"""The label of a document that fits none."""

FEWEST = 30
"""Documents. Fewer of them say nothing of each other that is surer than what each says alone."""

PIECE = 2048
"""Vectors that are read at once."""
TINY = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The parameters, chosen on sets that no figure is told from."""

    rounds: int = 12
    surest: float = 0.5
    """The share of a label's documents that move its centre in the first round; a tenth more in each that follows."""
    text_weight: float = 3.0
    """How many documents the texts of a label count for."""
    example_weight: float = 5.0
    """How many documents an example counts for."""
    gap: float = 0.5
    """How far apart the classes lie, for each unit that the texts of their labels lie apart."""
    even: tuple[float, float] = (0.5, 0.2)
    """How much of the labels' proportions is taken as even: where labels have only a name, and where they have more.
    With a name alone the first results, from which proportions are guessed, are poor.
    """
    size: tuple[float, float] = (0.3, 0.6)
    """How much the size of a label counts, in the same two cases."""
    first_weight: float = 0.2
    """How much the first result and the texts of the labels count beside the centres."""
    temperature: float = 0.5
    voice: tuple[float, float] = (0.5, 0.4)
    """How much the batch counts beside the first result in the end: where labels have only a name, and where they have
    more.
    """
    doubted: float = 0.1
    """How much it counts where it does not foresee the surest first results."""
    likely: float = 0.6
    """The share from which a first result is likely right."""
    contradicted: float = 0.2
    """The share of likely first results that a batch may change; one that changes more groups by something else than
    the labels, and is not believed.
    """
    surer: tuple[float, int] = (0.35, 10)
    """The first results that a batch must foresee: such a share of them, the surest, and so many at least."""
    foreseen: float = 1.0
    """How many of these it must foresee from documents that are unlike them, for each that their shares promise."""
    folds: tuple[int, int] = (4, 24)
    """The parts into which it is cut for that, and the groups of like documents of which the parts are made."""
    high: float = 0.9
    """The share from which a result is "alta", where labels have more than a name; with names alone it is "media"."""
    medium: float = 0.6
    """The share from which it is "media", where labels have more than a name."""
    fewest: int = FEWEST
    spread: float = 0.02
    """The least mean square distance from the batch's mean; below it the documents are copies of each other."""
    apart: tuple[float, float] = (0.05, 0.12)
    """The cosine between the two parts of a label's documents below which they are two kinds: where labels have only a
    name, and where they have more.
    """
    distant: tuple[float, float] = (0.5, 0.4)
    """By how many standard deviations a kind must be less like every label's texts than usual, to fit none, in the same
    two cases.
    """
    unsure: float = 0.6
    """The mean share of the first results from which a group is no stranger: they knew a label for it."""
    group: tuple[int, float] = (8, 0.02)
    """The least size of a group of strangers: so many documents, and such a share of the batch."""
    groups: int = 8
    strangers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The result of each document alone: its label, and the share of every label, in their order."""

    labels: Places
    shares: NDArray[Any]
    confidences: Sequence[str]


class Space:
    """The vectors of a batch and of its labels, measured from an origin that can be moved without touching them."""

    def __init__(self, vectors: NDArray[Any], texts: Sequence[NDArray[Any]]) -> None:
        self.vectors = vectors
        named = np.vstack([unit(np.asarray(each, dtype=np.float64).mean(axis=0)) for each in texts])
        self.offsets = named - named.mean(axis=0)
        self.directions = unit(self.offsets)
        self.described = bool(np.mean([len(each) > 1 for each in texts]) >= 0.5)  # noqa: PLR2004 - most of them
        self.mean = np.zeros(vectors.shape[1])
        self.squares = np.empty(len(vectors))
        self.nearest_text = np.empty(len(vectors))
        every = np.vstack([np.asarray(each, dtype=np.float32) for each in texts]).T
        for place, rows in self.pieces():
            self.mean += rows.sum(axis=0, dtype=np.float64)
            self.squares[place] = np.einsum("nd,nd->n", rows, rows)
            self.nearest_text[place] = (rows @ every).max(axis=1)
        self.mean /= len(vectors)
        self.spread = float(self.squares.mean() - self.mean @ self.mean)
        self.move(self.mean)

    def pieces(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """The vectors, so many at a time."""
        for start in range(0, len(self.vectors), PIECE):
            place = slice(start, start + PIECE)
            yield place, np.asarray(self.vectors[place], dtype=np.float32)

    def move(self, origin: Floats) -> None:
        """Measure from *origin* from now on."""
        self.origin = origin
        along = np.empty(len(self.vectors))
        for place, rows in self.pieces():
            along[place] = rows @ origin.astype(np.float32)
        self.lengths = np.sqrt(np.maximum(self.squares - 2 * along + origin @ origin, TINY))

    def likeness(self, directions: Floats, documents: Places | None = None) -> Floats:
        """The cosine of each document to each of the *directions*, which have length 1."""
        columns, shift = directions.T.astype(np.float32), directions @ self.origin
        if documents is not None:
            rows = np.asarray(self.vectors[documents], dtype=np.float32)
            return np.asarray((rows @ columns - shift) / self.lengths[documents, None], dtype=np.float64)
        found = np.empty((len(self.vectors), len(directions)))
        for place, rows in self.pieces():
            found[place] = (rows @ columns - shift) / self.lengths[place, None]
        return found

    def total(self, documents: Places) -> Floats:
        """The sum of these documents, each of length 1."""
        total = np.zeros(len(self.mean))
        for start in range(0, len(documents), PIECE):
            some = documents[start : start + PIECE]
            weights = 1 / self.lengths[some]
            rows = np.asarray(self.vectors[some], dtype=np.float32)
            total += weights @ rows - weights.sum() * self.origin
        return total


def margins_of(shares: NDArray[Any]) -> Floats:
    """The distance between the first two shares of each row."""
    two = np.partition(np.asarray(shares, dtype=np.float64), -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


def unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths))


def scaled(scores: Floats) -> Floats:
    """Each row less its mean, all of them divided by what they usually differ."""
    rows = scores - scores.mean(axis=1, keepdims=True)
    return np.asarray(rows / max(float(rows.std()), TINY))
