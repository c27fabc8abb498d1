"""What examples are worth: each decided document is judged as if nobody had decided it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from retoma.pipelines.classification.findings import Material
from retoma.pipelines.classification.learning import learn
from retoma.pipelines.classification.refinements import Gain, LabelGain
from retoma.pipelines.classification.refining import OTHER, First, Refinement

_FOLDS = 5
_MOVES = 20


@dataclass(frozen=True, slots=True)
class Check:
    """A batch with its examples, and what it says without them."""

    vectors: NDArray[Any]
    texts: Sequence[NDArray[Any]]
    first: First
    said: Sequence[tuple[int, int]]
    alone: Refinement

    def left_out(self, count: int) -> dict[int, int]:
        """What each decided document among the first *count* is taken for without its own example: each is left out
        once.
        """
        own = [each for each in self.said if each[0] < count]
        found: dict[int, int] = {}
        for fold in range(min(_FOLDS, len(own))):
            gone = {place for place, _ in own[fold::_FOLDS]}
            kept = [each for each in self.said if each[0] not in gone]
            judged = learn(self.vectors, self.texts, self.first, examples=kept, alone=self.alone)
            found |= {place: int(judged.labels[place]) for place in gone}
        return found


def gain_of(found: Sequence[Material], names: Sequence[str], refined: Refinement, checked: Mapping[int, int]) -> Gain:
    """What a refinement did to each label, and of how many of the *checked* documents it is right."""
    before, after, moves = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    said = [each.said or (each.label if each.decided else None) for each in found]
    for place, each in enumerate(found):
        label = int(refined.labels[place])
        now = said[place] or (names[label] if label != OTHER else each.label)
        before[each.label] += 1
        after[now] += 1
        if now != each.label:
            moves[each.label, now] += 1
    rows = []
    for name in sorted({*names, *before, *after}):
        own = [place for place in checked if said[place] == name]
        if own or before[name] or after[name]:
            rows.append(
                LabelGain(
                    label=name,
                    decided=len(own),
                    agreed_before=sum((found[place].proposed or found[place].label) == name for place in own),
                    agreed_after=sum(names[checked[place]] == name for place in own if checked[place] != OTHER),
                    results_before=before[name],
                    results_after=after[name],
                )
            )
    return Gain(
        decided=len(checked),
        agreed_before=sum(each.agreed_before for each in rows),
        agreed_after=sum(each.agreed_after for each in rows),
        labels=tuple(rows),
        moves=tuple((was, now, count) for (was, now), count in moves.most_common(_MOVES)),
    )
