"""Embeddings that need no key and no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from retoma.providers import RequestRejected, Usage, Vectors
from retoma.providers.local.encoder import Encoder, Lexical, Matrix, best_encoder, unit
from retoma.providers.local.sentences import sentences
from retoma.providers.local.threads import Waiting, beside

PIECE_WORDS = 120
"""A longer text is cut between sentences into pieces of at most this many words."""

PIECE_CHARACTERS = 1_500
"""And characters, for text without blanks."""

DECIMALS = 6

UNRELATED = 0.07
"""A question and a text that are not nearer than this (a cosine) have nothing to do with each other. On the dev part of
questions whose answers are known 0.13 loses none of them; this is half of it, because to miss a text costs more than a
poor hit. ``retoma accuracy search`` measures it on the other part.
"""


class LocalEmbedder:
    """Vectors of length 1, rounded; a text has the same one alone and in any list.

    A text of more than 120 words (or 1,500 characters) is cut between its sentences into pieces of at most that length.
    Its vector is the mean of theirs, weighted by their words. Without the encoder's wheel, the letters decide; *model*
    says which, because vectors of the two do not mix.
    """

    provider = "local"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encoder = encoder or best_encoder()
        self.model = self._encoder.model
        self.dimensions = self._encoder.dimensions
        self.unrelated = None if isinstance(self._encoder, Lexical) else UNRELATED

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:
        """One vector per text, without blocking the loop."""
        texts = tuple(texts)
        return await beside(
            lambda waiting: self._embed(texts, waiting), timeout=timeout, what=f"To embed {len(texts)} texts"
        )

    def _embed(self, texts: Sequence[str], waiting: Waiting) -> Vectors:
        for number, text in enumerate(texts, start=1):
            if not any(map(str.isalnum, text)):
                raise RequestRejected(
                    f"Text {number} of {len(texts)} has no word in it, so there is nothing to embed.",
                    next="Leave it out.",
                    provider=self.provider,
                    paid=False,
                )
        rows = [embedded(text, self._encoder, waiting) for text in texts]
        return Vectors(
            vectors=tuple(tuple(np.round(row.astype(np.float64), DECIMALS).tolist()) for row in rows),
            model=self.model,
            usage=Usage(input_tokens=sum(len(text.split()) for text in texts)),
        )


def embedded(text: str, encoder: Encoder, waiting: Waiting) -> Matrix:
    """The vector of one text.

    Its pieces are encoded one by one: in a list the last digits of a row depend on its neighbours, and no rounding can
    hide that at a rounding boundary.
    """
    cut, rows = list(pieces(text)), []
    for piece in cut:
        waiting.check()
        rows.append(encoder.encode([piece])[0])
    weights = np.array([len(piece.split()) for piece in cut])
    vector: Matrix = unit((np.vstack(rows) * weights[:, None]).sum(axis=0))
    return vector


def pieces(text: str) -> Iterator[str]:
    """*text* in pieces of at most PIECE_WORDS words, cut between sentences."""
    if len(text) <= PIECE_CHARACTERS and len(text.split()) <= PIECE_WORDS:
        yield text
        return
    piece = ""
    for sentence in sentences(text):
        longer = f"{piece} {sentence}".strip()
        if piece and (len(longer) > PIECE_CHARACTERS or len(longer.split()) > PIECE_WORDS):
            yield piece
            longer = sentence
        piece = longer
    if piece:
        yield piece
