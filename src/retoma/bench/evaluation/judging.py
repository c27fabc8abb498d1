"""Classification on the held-out set: names alone and with descriptions, Portuguese and English."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retoma.bench.evaluation import heldout
from retoma.bench.evaluation.figures import (
    Figures,
    at_coverage,
    by_template,
    calibration_error,
    confidences,
    cosine,
    majority,
    per_label,
    share,
)
from retoma.bench.evaluation.heldout import labels as label_sets
from retoma.pipelines.classification.refining import OTHER, First, Outcome, refine
from retoma.providers import Label, Verdict
from retoma.providers.local.classify import LocalClassifier
from retoma.providers.local.embed import embedded
from retoma.providers.local.encoder import Encoder, Matrix, best_encoder
from retoma.providers.local.threads import Waiting

_TIMEOUT = 600.0
_NAMING = {"names": False, "described": True}


class Remembering:
    """An encoder that encodes each text once, however often it is asked."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._rows: dict[str, Any] = {}
        self.model, self.dimensions = encoder.model, encoder.dimensions

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row per text."""
        new = list(dict.fromkeys(text for text in texts if text not in self._rows))
        if new:
            self._rows.update(zip(new, self._encoder.encode(new), strict=True))
        return np.vstack([self._rows[text] for text in texts])


@cache
def shared_encoder() -> Remembering:
    """The best encoder, for all figures of one run: they are told from the same texts."""
    return Remembering(best_encoder())


@dataclass(frozen=True, slots=True)
class Judged:
    """Texts, what they are, and what was said of them."""

    truth: Sequence[str]
    templates: Sequence[str]
    """Texts with the same one are alike; each its own where nothing is known of that."""
    verdicts: Sequence[Verdict]
    vectors: Matrix
    placed: NDArray[np.float16]
    labels: Sequence[Label]

    @property
    def right(self) -> list[bool]:
        """Whether each verdict is right."""
        return [each == verdict.label for each, verdict in zip(self.truth, self.verdicts, strict=True)]


async def judge(
    texts: Sequence[str], truth: Sequence[str], templates: Sequence[str], labels: Sequence[Label], encoder: Encoder
) -> Judged:
    """Each text classified alone."""
    classifier = LocalClassifier(encoder)
    verdicts = [(await classifier.classify([text], labels, timeout=_TIMEOUT))[0] for text in texts]
    vectors = np.vstack([embedded(text, encoder, Waiting()) for text in texts])
    placed = np.array([each.vector for each in verdicts], dtype=np.float16)  # as an execution keeps them
    return Judged(truth, templates, verdicts, vectors, placed, labels)


def told(judged: Judged, encoder: Encoder) -> Figures:
    """All the figures of one set: alone, by plain cosine, and what the scores are worth."""
    right = judged.right
    scores = [each.score for each in judged.verdicts]
    rows = encoder.encode([f"{each.name}. {each.description}".strip() for each in judged.labels])
    plain = [judged.labels[each].name for each in cosine(judged.vectors, rows)]
    return {
        "right": share(right),
        "interval": by_template(right, judged.templates),
        "plain_cosine": share([each == one for each, one in zip(judged.truth, plain, strict=True)]),
        "by_confidence": confidences(right, [each.confidence for each in judged.verdicts]),
        "calibration_error": calibration_error(right, scores),
        "right_at_90_coverage": at_coverage(right, scores),
        "taught_by_the_batch": taught(judged, encoder),
        "by_label": per_label(right, judged.truth),
    }


def taught(judged: Judged, encoder: Encoder) -> Figures:
    """The same texts as one batch, whose documents are judged by each other, unless they are too few for it."""
    names = [each.name for each in judged.labels]
    texts = [
        encoder.encode([text for text in (each.name, each.description, *each.cues) if text]) for each in judged.labels
    ]
    first = First(
        labels=np.array([names.index(each.label) for each in judged.verdicts], dtype=np.int64),
        shares=np.array([[each.scores[name] for name in names] for each in judged.verdicts]),
        confidences=[each.confidence for each in judged.verdicts],
    )
    found = refine(judged.placed, texts, first)
    if found.outcome is not Outcome.REFINED:
        return {"outcome": str(found.outcome)}
    labels = ["" if each == OTHER else names[each] for each in found.labels]
    right = [each == label for each, label in zip(judged.truth, labels, strict=True)]
    scores = [float(each.max()) for each in found.shares]
    return {
        "right": share(right),
        "interval": by_template(right, judged.templates),
        "fit_no_label": labels.count(""),
        "by_confidence": confidences(right, found.confidences),
        "calibration_error": calibration_error(right, scores),
        "right_at_90_coverage": at_coverage(right, scores),
    }


async def measured(
    made: Callable[..., Sequence[heldout.Text]],
    labels: Callable[..., dict[str, Label]],
    *,
    split: str,
    copies: int | None,
    encoder: Encoder | None = None,
) -> Figures:
    """One part of a set in both languages, each with names alone and with descriptions."""
    known = Remembering(encoder) if encoder else shared_encoder()
    figures: Figures = {"split": split, "model": LocalClassifier(known).model}
    pooled: list[tuple[bool, float]] = []
    for language in heldout.LANGUAGES:
        texts = made(split, language, copies=copies)
        own: Figures = {
            "texts": len(texts),
            "templates": len({each.template for each in texts}),
            "labels": len({each.label for each in texts}),
            "majority": majority([each.label for each in texts]),
        }
        for naming, described in _NAMING.items():
            answers = labels(language, described=described)
            judged = await judge(
                [each.text for each in texts],
                [answers[each.label].name for each in texts],
                [each.template for each in texts],
                list(answers.values()),
                known,
            )
            own[naming] = told(judged, known)
            pooled += zip(judged.right, (each.score for each in judged.verdicts), strict=True)
        figures[language] = own
    figures["calibration_error"] = calibration_error([one for one, _ in pooled], [score for _, score in pooled])
    return figures


async def documents(*, split: str = "test", copies: int | None = None, encoder: Encoder | None = None) -> Figures:
    """The documents of twelve kinds."""
    return await measured(heldout.documents, label_sets.kinds, split=split, copies=copies, encoder=encoder)


async def news(*, split: str = "test", copies: int | None = None, encoder: Encoder | None = None) -> Figures:
    """The short news of six topics."""
    return await measured(heldout.news, label_sets.topics, split=split, copies=copies, encoder=encoder)
