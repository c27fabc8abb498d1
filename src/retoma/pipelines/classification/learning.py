"""What a batch and its examples say together: the batch is judged by itself, then by the documents that people decided.

A decided document is surer than any centre. Each document is therefore also compared with the examples, one by one: the
nearer it is to those of a label and the farther from the others, the more they count beside what the batch says. Copies
of an example have its label, whatever else speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retoma.pipelines.classification.refining import OTHER, First, Reason, Refinement, Why, margins_of, refine

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_PIECE = 2048
_LEAST = 1e-4
"""The share below which a label is not more unlikely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The parameters, chosen on the development part of the held-out set."""

    sharpness: float = 12.0
    """How much nearer examples count for more than those further off."""
    near: float = 0.6
    """The cosine to the nearest example at which it counts as much as the batch does."""
    width: float = 0.1
    """How quickly that grows with the cosine."""
    copy: float = 0.93
    """The plain cosine from which a document is a copy of an example: the same form, filled in."""
    prior: float = 0.0
    """By how many examples the batch is ahead of the first results before there are any."""
    steepness: float = 0.7
    """How much one more example that only one of them got right counts."""
    high: float = 0.9
    medium: float = 0.5


def learn(
    vectors: NDArray[Any],
    texts: Sequence[NDArray[Any]],
    first: First,
    *,
    examples: Sequence[tuple[int, int]] = (),
    alone: Refinement | None = None,
    weights: Weights | None = None,
) -> Refinement:
    """As ``refine``, with the examples compared one by one as well. *alone* is what ``refine`` says without any, for
    whoever asks several times.
    """
    chosen = weights or Weights()
    refined = refine(vectors, texts, first, examples=examples)
    known = [(document, label) for document, label in examples if label != OTHER]
    if not known:
        return refined
    said, trust, nearest = _said(vectors, known, len(texts), chosen)
    base = _base(first, alone or refine(vectors, texts, first), refined, known, chosen)
    shares = trust[:, None] * said + (1 - trust[:, None]) * base
    labels = shares.argmax(axis=1)
    strange = (refined.labels == OTHER) & (trust < 0.5)  # noqa: PLR2004 - a stranger that is like no example
    labels[strange] = OTHER
    for document, label in examples:
        labels[document] = label
    heard = (trust >= 0.5) | (labels != refined.labels)  # noqa: PLR2004 - as above
    return _told(refined, first, shares, labels, dict(examples), np.where(heard, nearest, -1), chosen)


def _base(
    first: First, alone: Refinement, refined: Refinement, known: Sequence[tuple[int, int]], chosen: Weights
) -> Floats:
    """What the first results and the batch say together. The examples tell which of the two knows these documents:
    kinds that differ by form are known by the first, topics by the batch. *alone* was refined without the examples.
    """
    places, labels = [document for document, _ in known], np.array([label for _, label in known])
    right_first = float((first.labels[places] == labels).sum())
    right_batch = float((alone.labels[places] == labels).sum())
    odds = chosen.prior + right_batch - right_first
    share = 1 / (1 + np.exp(-chosen.steepness * odds))
    powers = share * np.log(np.maximum(refined.shares, _LEAST)) + (1 - share) * np.log(
        np.maximum(np.asarray(first.shares, dtype=np.float64), _LEAST)
    )
    mixed = np.exp(powers - powers.max(axis=1, keepdims=True))
    return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))


def _said(
    vectors: NDArray[Any], known: Sequence[tuple[int, int]], labels: int, chosen: Weights
) -> tuple[Floats, Floats, Places]:
    """For each document what the examples say, as shares of the labels, how far they are to be trusted, and which of
    them is the nearest.
    """
    mean = np.asarray(vectors, dtype=np.float64).mean(axis=0)
    places = [document for document, _ in known]
    taught = _unit(np.asarray(vectors[places], dtype=np.float64) - mean)
    whole = _unit(np.asarray(vectors[places], dtype=np.float64))
    owner = np.zeros((len(known), labels))
    owner[np.arange(len(known)), [label for _, label in known]] = 1.0
    said, trust = np.empty((len(vectors), labels)), np.empty(len(vectors))
    close = np.empty(len(vectors), dtype=np.int64)
    for start in range(0, len(vectors), _PIECE):
        rows = _unit(np.asarray(vectors[start : start + _PIECE], dtype=np.float64) - mean)
        likeness = rows @ taught.T
        nearest = likeness.max(axis=1)
        close[start : start + _PIECE] = np.array(places)[likeness.argmax(axis=1)]
        # Of each label the nearest example speaks: many alike do not outvote one that is nearer.
        best = np.where(owner.T[None, :, :] > 0, likeness[:, None, :], -1.0).max(axis=2)
        powers = np.exp(chosen.sharpness * (best - nearest[:, None])) * (owner.sum(axis=0) > 0)
        said[start : start + _PIECE] = powers / powers.sum(axis=1, keepdims=True)
        copied = (_unit(np.asarray(vectors[start : start + _PIECE], dtype=np.float64)) @ whole.T).max(axis=1)
        trust[start : start + _PIECE] = np.where(
            copied >= chosen.copy, 1.0, 1 / (1 + np.exp(-(nearest - chosen.near) / chosen.width))
        )
    return said, trust, close


def _told(
    refined: Refinement,
    first: First,
    shares: Floats,
    labels: Places,
    fixed: dict[int, int],
    heard: Places,
    chosen: Weights,
) -> Refinement:
    """As it was *refined*, and where an example was *heard* with that example as the reason."""
    margins = margins_of(shares)
    bands = np.where(margins >= chosen.high, "alta", np.where(margins >= chosen.medium, "media", "baixa"))
    bands[labels == OTHER] = "baixa"
    bands[list(fixed)] = "alta"
    sizes = np.bincount(labels[labels != OTHER], minlength=shares.shape[1])
    reasons = [
        replace(each, why=Why.EXAMPLE, neighbours=(int(near),), documents=int(sizes[label]))
        if near >= 0 and label != OTHER
        else each
        for each, near, label in zip(refined.reasons, heard, labels, strict=True)
    ]
    return replace(
        refined,
        labels=labels,
        shares=shares,
        margins=margins,
        confidences=tuple(map(str, bands)),
        changed=labels != first.labels,
        reasons=tuple[Reason, ...](reasons),
    )


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths))
