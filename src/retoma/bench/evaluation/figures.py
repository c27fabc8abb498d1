"""Shares with their intervals, and how far a score can be believed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Figures = dict[str, Any]

_NORMAL = 1.959964
"""Of a normal distribution, 95 % lie within so many standard deviations."""

_DRAWS = 2000
_SEED = 20260121
_BINS = 10
COVERAGE = 0.9


def share(right: Sequence[bool]) -> float:
    """How many of them are right, of 1."""
    return round(sum(right) / max(1, len(right)), 3)


def wilson(right: int, number: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score: for texts that have nothing to do with each other."""
    if not number:
        return 0.0, 1.0
    found, square = right / number, _NORMAL**2
    middle = (found + square / (2 * number)) / (1 + square / number)
    half = _NORMAL * math.sqrt(found * (1 - found) / number + square / (4 * number**2)) / (1 + square / number)
    return round(max(0.0, middle - half), 3), round(min(1.0, middle + half), 3)


def by_template(right: Sequence[bool], templates: Sequence[str]) -> tuple[float, float]:
    """The 95 % interval of a share by drawing whole templates again: texts of one template are alike, and count as one
    piece of evidence rather than as many.
    """
    names = sorted(set(templates))
    place = {name: number for number, name in enumerate(names)}
    each, good = np.zeros(len(names)), np.zeros(len(names))
    for one, name in zip(right, templates, strict=True):
        each[place[name]] += 1
        good[place[name]] += one
    drawn = np.random.default_rng(_SEED).integers(0, len(names), (_DRAWS, len(names)))
    shares = good[drawn].sum(axis=1) / each[drawn].sum(axis=1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return round(float(low), 3), round(float(high), 3)


def calibration_error(right: Sequence[bool], scores: Sequence[float]) -> float:
    """The expected calibration error: how far scores and shares of right verdicts lie apart, in ten bins of scores."""
    truths, said = np.array(right, dtype=float), np.array(scores)
    bins = np.minimum((said * _BINS).astype(int), _BINS - 1)
    apart = sum(abs(float((truths - said)[bins == each].sum())) for each in range(_BINS))
    return round(apart / max(1, len(truths)), 3)


def at_coverage(right: Sequence[bool], scores: Sequence[float], coverage: float = COVERAGE) -> float:
    """The share that is right among the texts with the highest scores, when *coverage* of them are taken."""
    order = np.argsort(-np.array(scores), kind="stable")[: max(1, round(coverage * len(right)))]
    return share([bool(right[int(each)]) for each in order])


def confidences(right: Sequence[bool], said: Sequence[str]) -> Figures:
    """For each confidence how many texts have it, and which share of them is right."""
    told = {}
    for band in ("alta", "media", "baixa"):
        of_band = [one for one, each in zip(right, said, strict=True) if each == band]
        if of_band:
            told[band] = {
                "texts": len(of_band),
                "right": share(of_band),
                "interval": wilson(sum(of_band), len(of_band)),
            }
    return told


def per_label(right: Sequence[bool], labels: Sequence[str]) -> Figures:
    """For each label how many texts it has, and which share of them is found."""
    told = {}
    for label in sorted(set(labels)):
        own = [one for one, each in zip(right, labels, strict=True) if each == label]
        told[label] = {"texts": len(own), "right": share(own), "interval": wilson(sum(own), len(own))}
    return told


def majority(labels: Sequence[str]) -> float:
    """What the most frequent label alone would get right."""
    return share([each == max(sorted(set(labels)), key=list(labels).count) for each in labels])


def cosine(texts: NDArray[Any], labels: NDArray[Any]) -> list[int]:
    """The nearest label of each text, by the cosine of their vectors and nothing else."""
    return [int(each) for each in (texts @ labels.T).argmax(axis=1)]
