"""What the documents of a batch say of each other: each is judged again by all of them, and what fits no label is told.

Alone, a document is compared with the texts of the labels, which are short and written in another manner than
documents. A batch has better things to compare with: its documents. The texts of the labels and the first results say
where each label begins; its centre then moves to the documents that are surest of it, round by round, and every
document goes to the nearest centre. Three things keep this from going astray:

* All vectors are measured from one origin: the mean of the batch, less the mean of the labels' texts weighted by how
  many documents each label has. A plain mean would take the only class of a batch for what all documents share.
* A label with many documents is more likely than one with few, so that one class is not split between labels.
* The first result of each document, which knows its letters and its cues, has a say to the end. A batch that would
  change many results that are likely right groups by something else than the labels, and is not believed. One that
  cannot foresee the surest of them from documents that are unlike them
  (:mod:`~retoma.pipelines.classification.foreseeing`) is doubted: it decides only where a first result is all but open.

Nothing here does I/O or draws a random number: the same documents in the same order give the same result. Vectors are
read in pieces and never copied as a whole; time grows with documents times labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retoma.pipelines.classification.foreseeing import foreseen
from retoma.pipelines.classification.space import (
    FEWEST,
    OTHER,
    PIECE,
    TINY,
    First,
    Floats,
    Places,
    Settings,
    Space,
    margins_of,
    scaled,
    unit,
)
from retoma.pipelines.classification.strangers import Group, Strangers

__all__ = [
    "FEWEST",
    "OTHER",
    "First",
    "Group",
    "Outcome",
    "Reason",
    "Refinement",
    "Settings",
    "Why",
    "margins_of",
    "refine",
]


_SETTLED = 6
"""Rounds after which one that changes nothing is the last: by then every document moves its label's centre."""
_NEIGHBOURS = 3
_ASKED = 256
"""Documents of a label among which the neighbours of another are looked for: its surest ones."""


class Outcome(StrEnum):
    """What became of a batch."""

    REFINED = "refined"
    TOO_FEW = "too_few"
    """It has fewer documents than are needed: every first result stands."""
    NO_SPREAD = "no_spread"
    """Its documents are all but equal and no centre can be told from another: every first result stands."""
    CONTRADICTED = "contradicted"
    """Its documents group by something else than the labels, as likely results show: every first one stands."""


class Why(StrEnum):
    """What decided about a document."""

    FIRST = "first"
    """Its first result stands, because the batch was not refined."""
    CENTRE = "centre"
    """It is nearest to the documents of its label."""
    EXAMPLE = "example"
    """A person decided it."""
    STRANGER = "stranger"
    """It belongs to a group that is far from every label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a document has its label."""

    why: Why
    likeness: float
    """The cosine to the centre of its label, or of its group."""
    likeness_before: float | None
    """The cosine to the centre of the label it had, when that is another."""
    documents: int
    """How many documents the label or the group has."""
    neighbours: tuple[int, ...]
    """The documents of its label that it is nearest to, among the surest ones, when it was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """What was found. Everything by document has the order in which they came."""

    outcome: Outcome
    labels: Places
    shares: Floats
    margins: Floats
    confidences: tuple[str, ...]
    changed: NDArray[np.bool_]
    """Whether the label is another than the first one."""
    reasons: tuple[Reason, ...]
    groups: tuple[Group, ...]
    unused: tuple[int, ...]
    """Labels that no document fits with more than a low confidence."""
    rounds: int


def refine(
    vectors: NDArray[Any],
    texts: Sequence[NDArray[Any]],
    first: First,
    *,
    examples: Sequence[tuple[int, int]] = (),
    settings: Settings | None = None,
) -> Refinement:
    """Judge the documents of a batch by each other.

    *vectors* has a row for each document; *texts* has for each label the vectors of its texts: its name, and its
    description and cues when it has them. *examples* are pairs of document and label that a person decided: they stay
    as they are and weigh most. OTHER as an example's label means that it fits none.
    """
    chosen = settings or Settings()
    _check(vectors, texts, first, examples)
    fixed = dict(examples)
    if len(vectors) < chosen.fewest:
        return _as_first(first, fixed, Outcome.TOO_FEW)
    space = Space(vectors, texts)
    if space.spread < chosen.spread:
        return _as_first(first, fixed, Outcome.NO_SPREAD)
    return _Batch(space, first, fixed, chosen).refined()


def _check(
    vectors: NDArray[Any], texts: Sequence[NDArray[Any]], first: First, examples: Sequence[tuple[int, int]]
) -> None:
    documents, labels = len(vectors), len(texts)
    if first.shares.shape != (documents, labels) or len(first.labels) != documents:
        raise ValueError(f"{documents} documents and {labels} labels do not fit first results {first.shares.shape}.")
    for document, label in examples:
        if not 0 <= document < documents or not OTHER <= label < labels:
            raise ValueError(f"There is no document {document} or no label {label} for this example.")


def _as_first(first: First, fixed: dict[int, int], outcome: Outcome) -> Refinement:
    """Every first result as it was, but for what a person decided."""
    labels = np.array(first.labels, dtype=np.int64)
    confidences = list(first.confidences)
    for document, label in fixed.items():
        labels[document], confidences[document] = label, "alta"
    shares = np.asarray(first.shares, dtype=np.float64)
    return Refinement(
        outcome=outcome,
        labels=labels,
        shares=shares,
        margins=margins_of(shares),
        confidences=tuple(confidences),
        changed=labels != first.labels,
        reasons=tuple(
            Reason(
                why=Why.EXAMPLE if each in fixed else Why.FIRST,
                likeness=0.0,
                likeness_before=None,
                documents=0,
                neighbours=(),
            )
            for each in range(len(labels))
        ),
        groups=(),
        unused=(),
        rounds=0,
    )


class _Batch:
    """A batch while it is refined."""

    def __init__(self, space: Space, first: First, fixed: dict[int, int], settings: Settings) -> None:
        self.space, self.first, self.settings = space, first, settings
        self.documents, self.count = first.shares.shape
        self.fixed = fixed
        self.taught = [
            np.array(sorted(each for each, label in fixed.items() if label == own), dtype=np.int64)
            for own in range(self.count)
        ]
        self.even = settings.even[space.described]
        self.size = settings.size[space.described]
        powers = np.log(np.maximum(np.asarray(first.shares, dtype=np.float64), TINY))
        self.powers = powers - powers.mean(axis=1, keepdims=True)
        self.centres = space.directions
        self._judge(self._base(np.asarray(first.shares, dtype=np.float64).mean(axis=0)))

    def refined(self) -> Refinement:
        """The whole of it."""
        rounds = self._settle()
        if self._contradicted():
            return _as_first(self.first, self.fixed, Outcome.CONTRADICTED)
        foretold = foreseen(self.space, self.first, self.labels, self.fixed, self.settings) >= self.settings.foreseen
        voice = self.settings.voice[self.space.described] if foretold else self.settings.doubted
        first = np.log(np.maximum(np.asarray(self.first.shares, dtype=np.float64), TINY))
        self._judge(voice * np.log(np.maximum(self.shares, TINY)) + (1 - voice) * first, temperature=1.0)
        groups = Strangers(self.space, self.first, self.labels, self.fixed, self.settings).found() if foretold else ()
        for group in groups:
            self.labels[group.members] = OTHER
        for document, label in self.fixed.items():
            self.labels[document] = label
        confidences = self._confidences()
        sure = {int(label) for label, each in zip(self.labels, confidences, strict=True) if each != "baixa"}
        return Refinement(
            outcome=Outcome.REFINED,
            labels=self.labels,
            shares=self.shares,
            margins=self.margins,
            confidences=confidences,
            changed=self.labels != self.first.labels,
            reasons=self._reasons(groups),
            groups=groups,
            unused=tuple(label for label in range(self.count) if label not in sure),
            rounds=rounds,
        )

    def _contradicted(self) -> bool:
        """Whether the batch changes too many of the results that are likely right."""
        likely = np.asarray(self.first.shares).max(axis=1) >= self.settings.likely
        likely[list(self.fixed)] = False
        changed = (self.labels != self.first.labels)[likely]
        return bool(len(changed) and changed.mean() > self.settings.contradicted)

    def _settle(self) -> int:
        """Move the centres until no document changes its label."""
        for number in range(self.settings.rounds):
            before = self.labels
            base = self._base(np.bincount(before, minlength=self.count) / self.documents)
            sizes = self._move(min(1.0, self.settings.surest + number / 10))
            likeness = self.space.likeness(self.centres)
            likely = self.size * np.log((sizes + 1) * self.count / self.documents)
            self._judge(scaled(likeness) + self.settings.first_weight * scaled(base) + likely)
            if number >= _SETTLED and np.array_equal(before, self.labels):
                return number + 1
        return self.settings.rounds

    def _base(self, proportions: Floats) -> Floats:
        """What the first results and the texts of the labels say together, if labels have these *proportions*."""
        proportions = (1 - self.even) * proportions + self.even / self.count
        self.space.move(self.space.mean - self.settings.gap * (proportions @ self.space.offsets))
        expected = 1.2 * self.powers.std() * (proportions - 1 / self.count) * np.sqrt(self.count)
        return scaled(self.space.likeness(self.space.directions)) + scaled(
            self.powers - self.powers.mean(axis=0) + expected
        )

    def _move(self, share: float) -> Floats:
        """Move each centre to the *share* of its documents that is surest; how many each has."""
        centres, sizes = np.empty_like(self.space.directions), np.zeros(self.count)
        for label in range(self.count):
            own = np.flatnonzero(self.labels == label)
            sizes[label] = len(own)
            surest = own[np.argsort(-np.round(self.margins[own], 6), kind="stable")]
            kept = surest[: max(3, int(np.ceil(len(own) * share)))]
            total = self.settings.text_weight * self.space.directions[label] + self.space.total(kept)
            total += self.settings.example_weight * self.space.total(self.taught[label])
            centres[label] = unit(total)
        self.centres = centres
        return sizes

    def _judge(self, scores: Floats, temperature: float | None = None) -> None:
        powers = np.exp((scores - scores.max(axis=1, keepdims=True)) / (temperature or self.settings.temperature))
        self.shares = powers / powers.sum(axis=1, keepdims=True)
        for document, label in self.fixed.items():
            self.shares[document] = 0.0
            if label != OTHER:
                self.shares[document, label] = 1.0
        self.margins = margins_of(self.shares)
        self.labels = self.shares.argmax(axis=1)

    def _confidences(self) -> tuple[str, ...]:
        high, medium, best = self.settings.high, self.settings.medium, self.shares.max(axis=1)
        if self.space.described:
            bands = np.where(best >= high, "alta", np.where(best >= medium, "media", "baixa"))
        else:
            bands = np.where(best >= medium, "media", "baixa")
        bands[self.labels == OTHER] = "baixa"
        bands[list(self.fixed)] = "alta"
        return tuple(map(str, bands))

    def _reasons(self, groups: Sequence[Group]) -> tuple[Reason, ...]:
        likeness = self.space.likeness(self.centres)
        sizes = np.bincount(self.labels[self.labels != OTHER], minlength=self.count)
        neighbours = self._neighbours()
        strangers = {int(each): group for group in groups for each in group.members}
        reasons = []
        for document, label in enumerate(self.labels):
            before = int(self.first.labels[document])
            group = strangers.get(document)
            told = Why.EXAMPLE if document in self.fixed else Why.STRANGER if label == OTHER else Why.CENTRE
            reasons.append(
                Reason(
                    why=told,
                    likeness=round(
                        float(likeness[document, label] if label != OTHER else group.likeness if group else 0.0), 4
                    ),
                    likeness_before=round(float(likeness[document, before]), 4)
                    if before not in {OTHER, int(label)}
                    else None,
                    documents=int(sizes[label]) if label != OTHER else len(group.members) if group else 0,
                    neighbours=neighbours.get(document, ()),
                )
            )
        return tuple(reasons)

    def _neighbours(self) -> dict[int, tuple[int, ...]]:
        """For each document that changed, those of its new label that it is nearest to."""
        found: dict[int, tuple[int, ...]] = {}
        for label in range(self.count):
            own = np.flatnonzero(self.labels == label)
            kept = own[self.first.labels[own] == label]
            surest = kept[np.argsort(-np.round(self.margins[kept], 6), kind="stable")][:_ASKED]
            changed = own[self.first.labels[own] != label]
            if len(surest) == 0:
                continue
            rows = np.asarray(self.space.vectors[surest], dtype=np.float64)
            directions = (rows - self.space.origin) / self.space.lengths[surest, None]
            for start in range(0, len(changed), PIECE):
                some = changed[start : start + PIECE]
                order = np.argsort(-np.round(self.space.likeness(directions, some), 6), axis=1, kind="stable")
                for document, near in zip(some, order[:, :_NEIGHBOURS], strict=True):
                    found[int(document)] = tuple(int(each) for each in surest[near])
        return found
