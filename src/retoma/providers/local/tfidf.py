"""The similarity of texts by their letters: n-grams of three to five, rarer ones weighing more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from retoma.providers.local.encoder import ngrams


class Tfidf:
    """Knows some texts, and returns how similar another one is to each of them."""

    def __init__(self, known: Sequence[str]) -> None:
        counted = [ngrams(text) for text in known]
        times = Counter(gram for grams in counted for gram in grams)
        self._weights = {gram: math.log((1 + len(known)) / (1 + count)) + 1 for gram, count in times.items()}
        self._known = [self._vector(grams) for grams in counted]

    def similarities(self, text: str) -> NDArray[np.float64]:
        """The cosine of *text* to each known text, in their order."""
        vector = self._vector(ngrams(text))
        return np.array(
            [sum(weight * known.get(gram, 0.0) for gram, weight in vector.items()) for known in self._known]
        )

    def _vector(self, grams: Mapping[str, int]) -> dict[str, float]:
        weighed = {
            gram: (1 + math.log(times)) * self._weights[gram] for gram, times in grams.items() if gram in self._weights
        }
        length = math.sqrt(sum(weight * weight for weight in weighed.values())) or 1.0
        return {gram: weight / length for gram, weight in weighed.items()}
