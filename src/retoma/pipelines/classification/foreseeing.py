"""Whether a batch is to be believed: it must foresee the surest results from documents that are unlike them.

The documents are cut into parts so that those which are alike lie in one part: the prints of one form, the news of one
event. The surest first results of each part are then told from the centres of the other parts. Where vectors carry what
the labels mean, nearly all are told right; where documents group by something else, such as their matter, many are not.
Documents that are alike must not vouch for each other: forms would always be foreseen by their copies.
"""

from __future__ import annotations

import numpy as np

from retoma.pipelines.classification.space import First, Floats, Places, Settings, Space, unit


def foreseen(space: Space, first: First, labels: Places, fixed: dict[int, int], settings: Settings) -> float:
    """How many of the surest first results the others foresee, for each that is right by its own share; *labels* are
    what the batch made of them all.
    """
    best = np.asarray(first.shares, dtype=np.float64).max(axis=1)
    best[list(fixed)] = -1.0  # a person decided them, and a batch may well say something else
    share, least = settings.surer
    order = np.argsort(-np.round(best, 6), kind="stable")
    surest = order[: max(least, int(np.ceil(share * len(best))))]
    surest = surest[best[surest] >= 0]
    if len(surest) == 0:
        return 1.0
    parts = _parts(space, *settings.folds)
    right = 0
    for part in range(settings.folds[0]):
        own = surest[parts[surest] == part]
        if len(own):
            centres = _centres(space, labels, parts != part, settings.text_weight)
            right += int((space.likeness(centres, own).argmax(axis=1) == first.labels[own]).sum())
    return right / float(best[surest].sum())


def _centres(space: Space, labels: Places, kept: np.ndarray[tuple[int], np.dtype[np.bool_]], texts: float) -> Floats:
    """The centre of each label, by those of its documents that are *kept* and by its texts."""
    return np.asarray(
        unit(
            np.vstack(
                [
                    space.total(np.flatnonzero(kept & (labels == label))) + texts * direction
                    for label, direction in enumerate(space.directions)
                ]
            )
        )
    )


def _parts(space: Space, count: int, groups: int) -> Places:
    """The part of each document. Groups gather around documents that are far from each other, and whole groups make up
    a part, the largest first and each into the smallest part.
    """
    group = _groups(space, groups)
    sizes = np.bincount(group, minlength=groups)
    part_of, filled = np.zeros(groups, dtype=np.int64), np.zeros(count)
    for each in np.argsort(-sizes, kind="stable"):
        part_of[each] = int(filled.argmin())
        filled[part_of[each]] += sizes[each]
    return np.asarray(part_of[group])


def _groups(space: Space, groups: int) -> Places:
    """For each document which of so many, far from each other, is the nearest."""
    origin = space.origin
    space.move(space.mean)
    likeness = np.round(space.likeness(unit(space.mean)[None, :])[:, 0], 6)
    at, nearest = int(likeness.argmax()), np.full(len(likeness), -2.0)
    group = np.zeros(len(likeness), dtype=np.int64)
    for number in range(groups):
        direction = np.asarray(space.vectors[at], dtype=np.float64) - space.mean
        likeness = np.round(space.likeness(unit(direction)[None, :])[:, 0], 6)
        group[likeness > nearest] = number
        nearest = np.maximum(nearest, likeness)
        at = int(nearest.argmin())
    space.move(origin)
    return group
