"""How far scores can be believed, by how many labels there are and how long the text is.

Each set is judged with all of its labels and with parts of them, two or more, so that there are label sets of every
size. The texts are few and those of one template alike: even scores that were exactly right would not show an error of
zero. What they would show is told beside each error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retoma.bench.evaluation import calibrating
from retoma.bench.evaluation.figures import Figures, calibration_error, share
from retoma.bench.evaluation.judging import shared_encoder
from retoma.providers.local.classify import CALIBRATIONS, shares_of

LABELS = ((2, 3), (4, 6), (7, 12))
WORDS = ((1, 39), (40, 99), (100, 10_000))
_DRAWS = 200
_SEED = 20260121
_FEWEST = 30
"""Verdicts of which an error is told."""


class Judgement(NamedTuple):
    """A verdict: its score, whether it is right, and what is known of its text."""

    score: float
    right: bool
    labels: int
    words: float
    template: str


async def calibration(*, split: str = "test") -> Figures:
    """For names alone and described labels, the error by labels and by words of the text, and over all."""
    told: Figures = {"split": split}
    for naming, described in (("names", False), ("described", True)):
        made = list(judgements(split, described=described))
        told[naming] = {"all": error_of(made), **dict(_cells(made))}
    return told


def judgements(split: str, *, described: bool) -> Iterator[Judgement]:
    """Every text of a part of the held-out set, judged with all labels and with parts of them."""
    encoder = shared_encoder()
    calibration = CALIBRATIONS[encoder.model]
    weights = calibration.described if described else calibration.bare
    for case in calibrating.cases(encoder, described=described, split=split, weaker=False):
        shares = shares_of(np.tensordot(weights.views, case.views, 1), case.words, weights)
        for row, truth, words, template in zip(shares, case.truth, case.words, case.templates, strict=True):
            first = int(row.argmax())
            yield Judgement(float(row[first]), bool(first == truth), len(row), float(words), template)


def error_of(made: Sequence[Judgement]) -> Figures:
    """The error of these verdicts, their mean score and the share that is right."""
    scores, right = [each.score for each in made], [each.right for each in made]
    return {
        "verdicts": len(made),
        "templates": len({each.template for each in made}),
        "right": share(right),
        "mean_score": round(float(np.mean(scores)), 3),
        "calibration_error": calibration_error(right, scores),
        "error_of_exact_scores": exact([each.template for each in made], scores),
    }


def exact(templates: Sequence[str], scores: Sequence[float]) -> float:
    """The error that scores would show in the mean if they were exactly right and texts of one template as alike as can
    be: right together, as far as their scores allow.
    """
    names, place = np.unique(np.array(templates), return_inverse=True)
    said, chance = np.array(scores), np.random.default_rng(_SEED)
    found = []
    for _ in range(_DRAWS):
        drawn: NDArray[np.float64] = chance.random(len(names))[place]
        found.append(calibration_error((drawn < said).tolist(), scores))
    return round(float(np.mean(found)), 3)


def _cells(made: Sequence[Judgement]) -> Iterator[tuple[str, Mapping[str, object]]]:
    for fewest, most in LABELS:
        for shortest, longest in WORDS:
            own = [each for each in made if fewest <= each.labels <= most and shortest <= each.words <= longest]
            if len(own) >= _FEWEST:
                words = f"{shortest}-{longest}" if longest < WORDS[-1][1] else f"{shortest}+"
                yield f"labels_{fewest}-{most}.words_{words}", error_of(own)
