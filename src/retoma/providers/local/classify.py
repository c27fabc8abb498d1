"""Classifies texts without a key and without a network, and quotes the words that decided.

Four scores are added up, each with its weight: the meaning of the text against that of each label; its sentences, one
by one, against the cues of each label; its letters against those of each label; and whether the text names the label,
early or late. Labels that have only a name are weighed otherwise: a single word has too few letters to compare.

A softmax turns the sums into shares of one. How steep it is depends on how many labels there are and how long the text
is, so that the first share, the score, says how often such a verdict is right. The confidence is read from it.
"""

from __future__ import annotations

import unicodedata
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
FIRST, MIDDLE, LAST = 30, 10, 10
"""Sentences of a long text that are read: its class shows at the beginning, at the end, or behind a cover."""

EVEN = 0.9
"""The evenness of the verdicts on a list from which its own mean is the better background."""

Views = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

HIGH, MEDIUM = 0.9, 0.6
"""The scores from which a verdict is "alta" and "media". The others are "baixa", for a person to check."""

_EARLY = 200
"""Characters from the beginning of a text at which its own name counts half: titles name what they head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How the scores become shares, for labels of one sort."""

    views: tuple[float, float, float, float]
    """What meaning, cues, letters and the name count."""

    labels: float
    """The power of the number of labels, over 8, that the sum is multiplied by."""

    words: float
    """The power of the number of words of the text, over 60."""

    def steepness(self, labels: int, words: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the sums for texts of so many *words* are multiplied by; beyond what was measured it stays as it is."""
        return np.asarray(
            (np.clip(labels, 2, 24) / 8) ** self.labels * (np.clip(words, 10, 200) / 60) ** self.words, dtype=np.float64
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The parameters of one encoder: those with the least cross-entropy on the development part of the held-out set,
    for 2 to 12 labels that are described well, poorly and not at all. :mod:`retoma.bench.evaluation.calibrating` finds
    them again; ``retoma accuracy`` measures them on the other part.
    """

    units: tuple[float, float, float, float]
    """The usual spread of the labels' scores by meaning, cues, letters and name."""

    described: Weights
    bare: Weights
    """For labels that have only a name."""


CALIBRATIONS = {
    "use-multilingual-3": Calibration(
        units=(0.117, 0.047, 0.059, 0.3),
        described=Weights(views=(1.47, 1.32, 0.59, 1.48), labels=-0.03, words=0.07),
        bare=Weights(views=(0.69, 1.33, 0.0, 1.71), labels=-0.09, words=-0.16),
    ),
    "char-ngrams-1024": Calibration(
        units=(0.053, 0.043, 0.059, 0.3),
        described=Weights(views=(0.21, 0.38, 0.94, 1.3), labels=0.39, words=0.43),
        bare=Weights(views=(0.15, 0.54, 0.09, 1.29), labels=0.19, words=0.61),
    ),
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
        self._known: KnownLabels | None = None
        self.model = f"{self._encoder.model}+char-tfidf"
        self.space = self._encoder.model

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        """One verdict per text, without blocking the loop."""
        texts, labels = tuple(texts), tuple(labels)
        return await beside(
            lambda waiting: self._classify(texts, labels, waiting),
            timeout=timeout,
            what=f"To classify {len(texts)} texts",
        )

    async def place(self, texts: Sequence[str], *, timeout: float) -> Sequence[Sequence[float]]:
        """Where texts lie: vectors of the same space as those of the verdicts."""
        texts = tuple(texts)
        rows = await beside(
            lambda waiting: [embedded(text, self._encoder, waiting) for text in texts],
            timeout=timeout,
            what=f"To place {len(texts)} texts",
        )
        return [row.tolist() for row in rows]

    def _classify(self, texts: Sequence[str], labels: Sequence[Label], waiting: Waiting) -> Sequence[Verdict]:
        _check(texts, labels)
        if not texts:
            return ()
        known = self._know(labels)
        read = [ReadText(text, known, self._encoder, waiting) for text in texts]
        shares = self.shares(read, known)
        return tuple(self._verdict(text, row, known) for text, row in zip(read, shares, strict=True))

    def _know(self, labels: Sequence[Label]) -> KnownLabels:
        """The labels as vectors; cached, because the next document usually has the same labels."""
        known = self._known
        if known is None or known.labels != labels:
            known = self._known = KnownLabels(labels, self._encoder)
        return known

    def shares(self, texts: Sequence[ReadText], known: KnownLabels) -> NDArray[np.float64]:
        """For each text the share of each label; each row adds up to 1."""
        meanings = np.vstack([text.meaning for text in texts])
        cues = np.vstack([text.cues for text in texts])
        letters = np.vstack([text.letters for text in texts])
        named = np.vstack([text.named for text in texts])
        words = np.array([text.words for text in texts], dtype=np.float64)
        near = known.similarities(meanings)
        alone = self._softmax((near, cues, letters, named), words, known)
        if not _is_even(alone):
            return alone
        near = known.similarities(meanings, background=meanings.mean(axis=0))
        views = (near, cues - cues.mean(axis=0), letters - letters.mean(axis=0), named)
        return self._softmax(views, words, known)

    def _softmax(self, views: Views, words: NDArray[np.float64], known: KnownLabels) -> NDArray[np.float64]:
        weights = self._calibration.described if known.described else self._calibration.bare
        total = sum(
            weight * (view - view.mean(axis=1, keepdims=True)) / each
            for view, weight, each in zip(views, weights.views, self._calibration.units, strict=True)
        )
        return shares_of(np.asarray(total), words, weights)

    def _verdict(self, text: ReadText, shares: NDArray[np.float64], known: KnownLabels) -> Verdict:
        first, second = (int(place) for place in np.argsort(-shares, kind="stable")[:2])
        margin = round(float(shares[first] - shares[second]), 4)
        quote = text.sentences[int(text.nearest[:, first].argmax())]
        confidence = confidence_of(float(shares[first]))
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
            vector=text.meaning.tolist(),
        )


def shares_of(sums: NDArray[np.float64], words: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    """The shares of the labels, for the *sums* of their scores in texts of so many *words*."""
    steep = sums * weights.steepness(sums.shape[1], words)[:, None]
    powers = np.exp(steep - steep.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def confidence_of(score: float) -> str:
    """What people are told of a *score*: "alta", "media" or "baixa"."""
    if score >= HIGH:
        return "alta"
    return "media" if score >= MEDIUM else "baixa"


class KnownLabels:
    """The labels, as vectors and letters."""

    def __init__(self, labels: Sequence[Label], encoder: Encoder) -> None:
        self.labels = labels
        whole = [" ".join((f"{label.name}. {label.description}", "; ".join(label.cues))).strip() for label in labels]
        self.meanings = encoder.encode(whole)
        self.cues = [encoder.encode(label.cues or [label.description or label.name]) for label in labels]
        self.letters = Tfidf(whole)
        self.names = [[_folded(part).strip() for part in label.name.split(">")] for label in labels]
        self.described = 2 * sum(bool(label.description or label.cues) for label in labels) >= len(labels)

    def similarities(
        self, meanings: Matrix, background: Matrix | None = None, columns: Sequence[int] | None = None
    ) -> NDArray[np.float64]:
        """The cosine of each text to each label, both relative to the *background*: what all share tells nothing. It is
        the mean of the labels unless another is given; *columns* are the places of some labels, as if there were no
        others.
        """
        own = self.meanings if columns is None else self.meanings[list(columns)]
        background = own.mean(axis=0) if background is None else background
        return np.asarray(unit(meanings - background) @ unit(own - background).T, dtype=np.float64)


class ReadText:
    """A text as vectors and letters; computed alone, so that its neighbours do not matter."""

    def __init__(self, text: str, known: KnownLabels, encoder: Encoder, waiting: Waiting) -> None:
        text = text if len(text) <= 2 * EDGE else f"{text[:EDGE]}\n\n{text[-EDGE:]}"
        self.language = language_of(text)
        found = sentences(text, self.language)
        self.sentences = _read(found)
        judged = "\n".join(self.sentences)
        rows = encoder.encode(self.sentences)
        self.meaning = embedded(judged, encoder, waiting)
        self.nearest = np.column_stack([(rows @ cues.T).max(axis=1) for cues in known.cues])
        self.cues = np.asarray(self.nearest.mean(axis=0), dtype=np.float64)
        self.letters = known.letters.similarities(judged)
        self.words = len(judged.split())
        folded = _folded(judged)
        self.named = np.array([sum(_mention(folded, part) for part in parts) / len(parts) for parts in known.names])


def _read(found: list[str]) -> list[str]:
    """The sentences that are read of all that were found."""
    if len(found) <= FIRST + MIDDLE + LAST:
        return found
    middle = (FIRST + len(found) - LAST - MIDDLE) // 2
    return [*found[:FIRST], *found[middle : middle + MIDDLE], *found[-LAST:]]


def _folded(text: str) -> str:
    """*text* in small letters without accents, one blank between words and at both ends."""
    plain = "".join(each for each in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(each))
    return f" {' '.join(''.join(each if each.isalnum() else ' ' for each in plain).split())} "


def _mention(text: str, name: str) -> float:
    """How early a folded *text* has the *name* of a label, from 1 at its beginning to 0 where it has it not."""
    places = [place for ending in (" ", "s ") if (place := text.find(f" {name}{ending}")) >= 0] if name else []
    return 1 / (1 + min(places) / _EARLY) if places else 0.0


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
                f"Text {number} of {len(texts)} has no word in it, so it cannot be classified.",
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
