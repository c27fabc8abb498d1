"""Groups of documents that are like each other and like no label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from retoma.pipelines.classification.space import OTHER, TINY, First, Places, Settings, Space, unit

CENTRAL = 3
"""Members of a group that are named as its most typical ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Documents that are alike and fit no label."""

    members: Places
    central: Places
    """The members nearest to its centre, the nearest first."""
    likeness: float
    """The mean cosine of its members to its centre."""


class Strangers:
    """Finds groups of documents that are like each other and like no label."""

    def __init__(self, space: Space, first: First, labels: Places, fixed: dict[int, int], settings: Settings) -> None:
        self.space, self.settings = space, settings
        self.best = np.asarray(first.shares, dtype=np.float64).max(axis=1)
        # Of two labels one always has half: with few labels the mark lies half way from even shares to one.
        self.unsure = max(settings.unsure, (1 + 1 / first.shares.shape[1]) / 2)
        self.labels = np.array(labels)
        self.labels[[each for each, label in fixed.items() if label != OTHER]] = OTHER  # decided, and no strangers
        self.foreign = [each for each, label in fixed.items() if label == OTHER]
        deviation = max(float(space.nearest_text.std()), TINY)
        self.usual = (space.nearest_text - space.nearest_text.mean()) / deviation
        self.least = max(settings.group[0], int(np.ceil(settings.group[1] * len(labels))))

    def found(self) -> tuple[Group, ...]:
        """The groups, the largest first."""
        if not self.settings.strangers:
            return ()
        groups: list[Group] = []
        for label in range(int(self.labels.max(initial=OTHER)) + 1):
            rest = np.flatnonzero(self.labels == label)
            while len(groups) < self.settings.groups and len(rest) >= 2 * self.least:
                parts = self._parted(rest)
                if parts is None:
                    break
                rest, strange = parts
                groups.append(self._group(strange))
        return tuple(sorted(groups, key=lambda each: (-len(each.members), int(each.members[0]))))

    def _parted(self, documents: Places) -> tuple[Places, Places] | None:
        """These *documents* without a kind that fits no label, and that kind; None when there is no such kind."""
        order = documents[np.argsort(np.round(self.usual[documents], 6), kind="stable")]
        quarter = max(3, len(order) // 4)
        near, far = unit(self.space.total(order[-quarter:])), unit(self.space.total(order[:quarter]))
        for _ in range(10):
            likeness = self.space.likeness(np.vstack([near, far]), documents)
            strange = likeness[:, 1] > likeness[:, 0]
            if min(strange.sum(), (~strange).sum()) < self.least:
                return None
            near, far = (
                unit(self.space.total(documents[~strange])),
                unit(self.space.total(documents[strange])),
            )
        distant = self.usual[documents[strange]].mean() <= -self.settings.distant[self.space.described]
        known = self.best[documents[strange]].mean() >= self.unsure
        if near @ far > self.settings.apart[self.space.described] or not distant or known:
            return None
        return documents[~strange], documents[strange]

    def _group(self, members: Places) -> Group:
        centre = unit(self.space.total(members))
        likeness = self.space.likeness(centre[None, :], members)[:, 0]
        order = np.argsort(-np.round(likeness, 6), kind="stable")
        return Group(members=members, central=members[order[:CENTRAL]], likeness=round(float(likeness.mean()), 4))
