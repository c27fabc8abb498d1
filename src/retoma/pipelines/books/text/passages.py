"""Which sentences of a chapter make its summary: passages that can be read on, rather than sentences here and there."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from retoma.pipelines.books.text.discourse import Standing
from retoma.pipelines.books.text.sentences import Sentence
from retoma.providers.local.encoder import Matrix

PARTS = 5
"""Parts of a chapter of which each has a say, its end too."""

_NEW = 0.6
"""The weight of importance against similarity to sentences already taken."""
_NEXT = 0.3
"""What it counts that the sentence before it is taken; less behind each further one, and in a new paragraph."""
_BRIDGE = 0.15
"""What it counts that the sentence after it is taken."""
_SHORT, _LONG = 50, 150
"""Words of a paragraph: one with fewer goes on behind a gap, one with more ends without a gap."""


def standing_places(sentences: Sequence[Sentence], least: int, worst: Standing = Standing.APART) -> list[int]:
    """The places of sentences that stand alone; where they are fewer than *least*, of the next kind too, to *worst*."""
    places: list[int] = []
    for kind in range(worst + 1):
        places = [place for place, each in enumerate(sentences) if each.standing <= kind]
        if len(places) >= least:
            break
    return places


def parted(places: Sequence[int], count: int) -> list[Sequence[int]]:
    """*places* in so many parts of about the same size."""
    edges = np.linspace(0, len(places), count + 1).astype(int)
    return [places[start:end] for start, end in itertools.pairwise(edges) if end > start]


def passages(
    sentences: Sequence[Sentence],
    rows: Matrix,
    weights: NDArray[np.float64],
    wanted: Collection[int],
    *,
    aim: int,
    most: int,
) -> list[int]:
    """The places of sentences with about *aim* words, in order: those *wanted*, one for each part of the chapter, and
    then what goes on with them or says something new. A sentence that leans on the one before comes only behind it.
    """
    choice = _Choice(sentences, rows, weights, most)
    for place in sorted(wanted):
        choice.take(place)
    alone = [place for place, each in enumerate(sentences) if each.standing is Standing.ALONE]
    for part in parted(alone, min(PARTS, len(alone))):
        if choice.total < aim and not choice.taken[part].any():
            choice.take(max(part, key=lambda place: weights[place]))
    while choice.total < aim and (best := choice.best()) is not None:
        choice.take(best)
    return [int(place) for place in np.flatnonzero(choice.taken)]


class _Choice:
    """What is taken so far."""

    def __init__(self, sentences: Sequence[Sentence], rows: Matrix, weights: NDArray[np.float64], most: int) -> None:
        self._sentences, self._rows, self._weights, self._most = sentences, rows, weights, most
        self._lengths = np.array([each.words for each in sentences], dtype=np.int64)
        self._standing = np.array([each.standing for each in sentences], dtype=np.int64)
        paragraphs = np.array([each.paragraph for each in sentences], dtype=np.int64)
        self._new_paragraph = np.append(True, paragraphs[1:] != paragraphs[:-1])
        self._likest = np.zeros(len(sentences))
        self._said: set[str] = set()
        self._free = np.ones(len(sentences), dtype=bool)
        self.taken = np.zeros(len(sentences), dtype=bool)
        self.total = 0

    def take(self, place: int) -> None:
        """Take a sentence, unless the same words were taken or there is no room for it."""
        sentence = self._sentences[place]
        self._free[place] = False
        if self.taken[place] or sentence.text in self._said or self.total + sentence.words > self._most:
            return
        self.taken[place] = True
        self._said.add(sentence.text)
        self.total += sentence.words
        self._likest = np.maximum(self._likest, self._rows @ self._rows[place])

    def best(self) -> int | None:
        """The sentence to take next."""
        behind = np.append(False, self.taken[:-1])
        before = np.append(self.taken[1:], False)
        room = self._lengths <= self._most - self.total
        alone, leans = self._standing == Standing.ALONE, self._standing == Standing.LEANS
        open = self._free & room & (alone | (leans & behind))
        if not open.any():
            return None
        follows = _NEXT * behind / np.maximum(1, self._run()) * np.where(self._new_paragraph, 0.5, 1.0)
        scores = _NEW * self._weights - (1 - _NEW) * self._likest + follows + _BRIDGE * (before & alone)
        return int(np.where(open, scores, -np.inf).argmax())

    def _run(self) -> NDArray[np.int64]:
        """How many sentences in a row are taken right before each."""
        found = np.zeros(len(self.taken), dtype=np.int64)
        for place in np.flatnonzero(self.taken):
            if place + 1 < len(found):
                found[place + 1] = found[place] + 1
        return found


def paragraphs(places: Sequence[int], told: Sequence[str]) -> str:
    """*told*, the sentences at *places*, as paragraphs that end where the text goes on elsewhere."""
    return "\n\n".join(" ".join(each) for each in _grouped(places, told))


def _grouped(places: Sequence[int], told: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    for place, before, sentence in zip(places, [-1, *places], told, strict=False):
        words = sum(len(each.split()) for each in group)
        if group and (words >= _LONG or (words >= _SHORT and place != before + 1)):
            yield group
            group = []
        group.append(sentence)
    if group:
        yield group
