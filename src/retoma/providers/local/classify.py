"""Classifies texts without a key and without a network, and quotes the words that decided.

Three scores are added up, each divided by its usual spread between labels: the meaning of the text against that
of each label; its sentences, one by one, against the cues of each label; its letters against those of each label.
A softmax turns the sums into shares of one. The distance between the first two shares is the margin, which
decides the confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retoma.providers import Label, RequestRejected, Verdict
from retoma.providers.local.embed import embedded
from retoma.providers.local.encoder import Encoder, Matrix, best_encoder, unit
from retoma.providers.local.sentences import language_of, sentences
from retoma.providers.local.tfidf import Tfidf
from retoma.providers.local.threads import Waiting, beside

EDGE = 200_000
"""Characters of a long text that are read, from each end. They contain its first and last sentences, and bound the time
for a text of fifty million.
"""
FIRST, LAST = 40, 10
"""Sentences of a long text that are read: its class shows at the beginning and at the end."""

EVEN = 0.9
"""The evenness of the verdicts on a list from which its own mean is the better background."""

Views = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The parameters chosen on the dev part of the labelled set, for one encoder; ``retoma accuracy`` measures them."""

    units: tuple[float, float, float]
    """The usual spread of the labels' scores by meaning, cues and letters: their mean standard deviation."""

    temperature: float
    """The temperature with the least cross-entropy on the right labels."""

    high: float
    """The margin from which 19 of 20 verdicts are right: "alta"."""

    medium: float
    """The margin from which 2 of 3 are right: "media". The others are "baixa", for a person to check."""


CALIBRATIONS = {
    "use-multilingual-3": Calibration(units=(0.117, 0.047, 0.059), temperature=0.35, high=0.75, medium=0.2),
    "char-ngrams-1024": Calibration(units=(0.053, 0.043, 0.059), temperature=0.5, high=0.9, medium=0.3),
}


class LocalClassifier:
    """Classifies by the sentence and the cues of each label.

    A text has the same verdict alone and in a list, with one exception: a list whose verdicts are spread evenly over
    all labels, at least two texts for each, is judged again against its own mean, which is more often right. A list of
    mostly one class is not: its mean is that class, and subtracting it would leave nothing.
    """

    provider = "local"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encoder = encoder or best_encoder()
        self._calibration = CALIBRATIONS[self._encoder.model]
        self._known: _Known | None = None
        self.model = f"{self._encoder.model}+char-tfidf"

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        """One verdict per text, without blocking the loop."""
        texts, labels = tuple(texts), tuple(labels)
        return await beside(
            lambda waiting: self._classify(texts, labels, waiting),
            timeout=timeout,
            what=f"To classify {len(texts)} texts",
        )

    def _classify(self, texts: Sequence[str], labels: Sequence[Label], waiting: Waiting) -> Sequence[Verdict]:
        _check(texts, labels)
        if not texts:
            return ()
        known = self._know(labels)
        read = [_Text(text, known, self._encoder, waiting) for text in texts]
        shares = self.shares(read, known)
        return tuple(self._verdict(text, row, known) for text, row in zip(read, shares, strict=True))

    def _know(self, labels: Sequence[Label]) -> _Known:
        """The labels as vectors; cached, because the next document usually has the same labels."""
        known = self._known
        if known is None or known.labels != labels:
            known = self._known = _Known(labels, self._encoder)
        return known

    def shares(self, texts: Sequence[_Text], known: _Known) -> NDArray[np.float64]:
        """For each text the share of each label; each row adds up to 1."""
        meanings = np.vstack([text.meaning for text in texts])
        cues = np.vstack([text.cues for text in texts])
        letters = np.vstack([text.letters for text in texts])
        alone = self._softmax((known.similarities(meanings, known.meanings.mean(axis=0)), cues, letters))
        if not _is_even(alone):
            return alone
        mean = meanings.mean(axis=0)
        return self._softmax(
            (known.similarities(meanings, mean), cues - cues.mean(axis=0), letters - letters.mean(axis=0))
        )

    def _softmax(self, views: Views) -> NDArray[np.float64]:
        total = sum(
            (view - view.mean(axis=1, keepdims=True)) / each
            for view, each in zip(views, self._calibration.units, strict=True)
        ) / len(views)
        powers = np.exp(total / self._calibration.temperature)
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def _verdict(self, text: _Text, shares: NDArray[np.float64], known: _Known) -> Verdict:
        first, second = (int(place) for place in np.argsort(-shares, kind="stable")[:2])
        margin = round(float(shares[first] - shares[second]), 4)
        quote = text.sentences[int(text.nearest[:, first].argmax())]
        confidence = self._confidence(margin)
        return Verdict(
            label=known.labels[first].name,
            score=round(float(shares[first]), 4),
            margin=margin,
            confidence=confidence,
            quote=quote,
            justification=justify(
                known.labels[first], confidence, quote, known.labels[second], float(shares[second]), text.language
            ),
            scores={label.name: round(float(share), 4) for label, share in zip(known.labels, shares, strict=True)},
        )

    def _confidence(self, margin: float) -> str:
        if margin >= self._calibration.high:
            return "alta"
        return "media" if margin >= self._calibration.medium else "baixa"


class _Known:
    """The labels, as vectors and letters."""

    def __init__(self, labels: Sequence[Label], encoder: Encoder) -> None:
        self.labels = labels
        whole = [" ".join((f"{label.name}. {label.description}", "; ".join(label.cues))).strip() for label in labels]
        self.meanings = encoder.encode(whole)
        self.cues = [encoder.encode(label.cues or [label.description or label.name]) for label in labels]
        self.letters = Tfidf(whole)

    def similarities(self, meanings: Matrix, background: Matrix) -> NDArray[np.float64]:
        """The cosine of each text to each label, both relative to the *background*: what all share tells nothing."""
        return np.asarray(unit(meanings - background) @ unit(self.meanings - background).T, dtype=np.float64)


class _Text:
    """A text as vectors and letters; computed alone, so that its neighbours do not matter."""

    def __init__(self, text: str, known: _Known, encoder: Encoder, waiting: Waiting) -> None:
        text = text if len(text) <= 2 * EDGE else f"{text[:EDGE]}\n\n{text[-EDGE:]}"
        self.language = language_of(text)
        found = sentences(text, self.language)
        self.sentences = found if len(found) <= FIRST + LAST else [*found[:FIRST], *found[-LAST:]]
        judged = "\n".join(self.sentences)
        rows = encoder.encode(self.sentences)
        self.meaning = embedded(judged, encoder, waiting)
        self.nearest = np.column_stack([(rows @ cues.T).max(axis=1) for cues in known.cues])
        self.cues = np.asarray(self.nearest.mean(axis=0), dtype=np.float64)
        self.letters = known.letters.similarities(judged)


def _check(texts: Sequence[str], labels: Sequence[Label]) -> None:
    names = [label.name for label in labels]
    if len(set(names)) < 2 or len(set(names)) < len(names):  # noqa: PLR2004  # one label is no question
        raise RequestRejected(
            f"Labels must be two or more with different names, and these are {', '.join(names) or 'none'}.",
            next="Give each kind a label with a sentence that tells it from the others.",
            provider="local",
            paid=False,
        )
    for number, text in enumerate(texts, start=1):
        if not any(map(str.isalnum, text)):
            raise RequestRejected(
                f"Text {number} of {len(texts)} has no word in it, and is of no kind.",
                next="Read the document again, by OCR if it is a picture.",
                provider="local",
                paid=False,
            )


def _is_even(shares: NDArray[np.float64]) -> bool:
    """Whether the verdicts are spread over all labels nearly as evenly as possible."""
    texts, labels = shares.shape
    if texts < 2 * labels:
        return False
    parts = np.bincount(shares.argmax(axis=1), minlength=labels) / texts
    parts = parts[parts > 0]
    return bool(-(parts * np.log(parts)).sum() / np.log(labels) >= EVEN)


def justify(label: Label, confidence: str, quote: str, other: Label, share: float, language: str) -> str:
    """The reason for the verdict, in the language of the text."""
    words = " ".join(quote.split())
    what = label.description.rstrip(".") or label.name
    if language == "pt":
        near = f"O trecho «{words}» é o que mais se aproxima de «{label.name}» ({what})."
        return f"{near} Confiança {_PT[confidence]}; a segunda hipótese é «{other.name}», com {share:.0%}."
    near = f"The passage “{words}” is the one nearest to “{label.name}” ({what})."
    return f"{near} Confidence is {_EN[confidence]}; the second guess is “{other.name}”, at {share:.0%}."


_PT = {"alta": "alta", "media": "média", "baixa": "baixa"}
_EN = {"alta": "high", "media": "medium", "baixa": "low"}
