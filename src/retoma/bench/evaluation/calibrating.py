"""The parameters of the offline classifier, found again from the development part of the held-out set.

    python -m retoma.bench.evaluation.calibrating

The labels of the house were written with the development part in sight, so that they fit it better than anybody's
labels fit their own documents. Every set is therefore judged with weaker labels as well: without cues, with some of
them, with half the words of a description, with names alone; and each of these with parts of the labels, two or more.
What is least wrong over all of that, each counting the same, is steep enough where labels are good and not too steep
where they are poor. It prefers weights near one: a few dozen templates are too little to learn more from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retoma.bench.evaluation import heldout
from retoma.bench.evaluation.heldout import labels as label_sets
from retoma.bench.evaluation.judging import Remembering
from retoma.providers import Label
from retoma.providers.local.classify import CALIBRATIONS, KnownLabels, ReadText, Weights
from retoma.providers.local.encoder import Encoder, Lexical, best_encoder
from retoma.providers.local.threads import Waiting

Floats = NDArray[np.float64]

_PARTS = 8
"""Parts of the labels that are tried beside all of them."""
_PULL = 0.01
"""How much it costs to be away from what is preferred."""
_PREFERRED = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
_STEP = 1e-4
_ROUNDS = 60
_ENOUGH = 1e-5

Weaken = Callable[[Label, random.Random], Label]


def _cues(share: float) -> Weaken:
    return lambda label, chance: replace(label, cues=tuple(each for each in label.cues if chance.random() < share))


def _half_the_words(label: Label, chance: random.Random) -> Label:
    return replace(label, cues=(), description=" ".join(w for w in label.description.split() if chance.random() < 0.5))  # noqa: PLR2004


_WEAKER: dict[str, dict[str, Weaken]] = {
    "topics": {f"words.{number}": _half_the_words for number in range(3)},
    "kinds": {
        "no_cues": _cues(0.0),
        "half_the_cues.0": _cues(0.5),
        "half_the_cues.1": _cues(0.5),
        "few_cues": _cues(0.2),
        "words": _half_the_words,
        "cues_alone": lambda label, _: replace(label, description=""),
    },
}
"""By family of texts, how its described labels are made weaker."""


@dataclass(frozen=True, slots=True)
class Case:
    """Texts of one set and some labels: the four views of each pair, scaled, and which label is right."""

    views: Floats
    truth: NDArray[np.int64]
    words: Floats
    templates: Sequence[str]

    def loss(self, parameters: Floats) -> float:
        """The mean cross-entropy with these *parameters*: the weights of the views, and the two powers."""
        labels = self.views.shape[2]
        weights = Weights(views=(0, 0, 0, 0), labels=float(parameters[4]), words=float(parameters[5]))
        sums = np.tensordot(parameters[:4], self.views, 1) * weights.steepness(labels, self.words)[:, None]
        powers = np.exp(sums - sums.max(axis=1, keepdims=True))
        right = powers[np.arange(len(self.truth)), self.truth] / powers.sum(axis=1)
        return float(-np.log(np.maximum(right, 1e-9)).mean())


def fitted(encoder: Encoder, *, described: bool) -> Weights:
    """The weights for labels with descriptions, or with names alone."""
    found = _least(list(cases(encoder, described=described)))
    one, two, three, four, labels, words = (round(float(each), 2) for each in found)
    return Weights(views=(one, two, three, four), labels=labels, words=words)


def cases(encoder: Encoder, *, described: bool, split: str = "dev", weaker: bool = True) -> Iterator[Case]:
    """Every set with its labels, whole and in parts; and when *weaker* with every weaker variant of them, too."""
    known = Remembering(encoder)
    for family, made, labels_of in (
        ("topics", heldout.news, label_sets.topics),
        ("kinds", heldout.documents, label_sets.kinds),
    ):
        for language in heldout.LANGUAGES:
            texts = made(split, language)
            labels = labels_of(language, described=described)
            for name, weaken in {"": None, **(_WEAKER[family] if described and weaker else {})}.items():
                chance = random.Random(f"{family}.{language}.{name}")  # noqa: S311  # the same every time
                told = {key: weaken(each, chance) if weaken else each for key, each in labels.items()}
                yield from _parts(texts, told, known, chance)


def _parts(
    texts: Sequence[heldout.Text], labels: dict[str, Label], encoder: Encoder, chance: random.Random
) -> Iterator[Case]:
    kinds = list(labels)
    known = KnownLabels(tuple(labels.values()), encoder)
    read = [ReadText(each.text, known, encoder, Waiting()) for each in texts]
    truth = np.array([kinds.index(each.label) for each in texts])
    chosen = [sorted(chance.sample(range(len(kinds)), chance.randrange(2, len(kinds)))) for _ in range(_PARTS)]
    for columns in (list(range(len(kinds))), *chosen):
        own = np.flatnonzero(np.isin(truth, columns))
        yield Case(
            _views([read[each] for each in own], known, columns, CALIBRATIONS[encoder.model].units),
            np.searchsorted(columns, truth[own]),
            np.array([read[each].words for each in own], dtype=np.float64),
            [texts[int(each)].template for each in own],
        )


def _views(read: Sequence[ReadText], known: KnownLabels, columns: Sequence[int], units: Sequence[float]) -> Floats:
    near = known.similarities(np.vstack([each.meaning for each in read]), columns=columns)
    others = [np.vstack([getattr(each, name) for each in read])[:, columns] for name in ("cues", "letters", "named")]
    return np.stack(
        [(view - view.mean(axis=1, keepdims=True)) / one for view, one in zip((near, *others), units, strict=True)]
    )


def loss_of(found: Sequence[Case], parameters: Floats) -> float:
    """What is made least: the mean loss of the cases, and a little for being away from what is preferred."""
    away = parameters - _PREFERRED
    return float(np.mean([each.loss(parameters) for each in found]) + _PULL * (away @ away))


def _least(found: Sequence[Case]) -> Floats:
    """The parameters with the least loss, by a quasi-Newton descent; no weight is below zero."""

    def loss(parameters: Floats) -> float:
        return loss_of(found, parameters)

    def slope(parameters: Floats, here: float) -> Floats:
        return np.array([(loss(parameters + _STEP * unit) - here) / _STEP for unit in np.eye(len(parameters))])

    at, here = _PREFERRED.copy(), loss(_PREFERRED)
    down, inverse = slope(at, here), np.eye(len(at))
    for _ in range(_ROUNDS):
        moved = _moved(at, here, -inverse @ down, loss)
        if moved is None:
            break
        after, there = moved
        steeper = slope(after, there)
        inverse = _curved(inverse, after - at, steeper - down)
        settled = here - there < _ENOUGH
        at, here, down = after, there, steeper
        if settled:
            break
    return at


def _moved(at: Floats, here: float, step: Floats, loss: Callable[[Floats], float]) -> tuple[Floats, float] | None:
    """The first place along *step*, halved until it helps, that is better than here."""
    for halvings in range(14):
        after = at + step / 2**halvings
        after[:4] = np.maximum(after[:4], 0)
        if (there := loss(after)) < here:
            return after, there
    return None


def _curved(inverse: Floats, moved: Floats, changed: Floats) -> Floats:
    """The estimate of the inverse curvature with one more step known (Broyden, Fletcher, Goldfarb and Shanno)."""
    along = float(moved @ changed)
    if along <= 1e-10:  # noqa: PLR2004  # flat: nothing is learnt from this step
        return inverse
    turned = np.eye(len(moved)) - np.outer(moved, changed) / along
    return np.asarray(turned @ inverse @ turned.T + np.outer(moved, moved) / along)


def main() -> None:
    """Print the weights of both encoders as JSON."""
    told: dict[str, Any] = {}
    for encoder in (best_encoder(), Lexical()):
        found = {
            name: fitted(encoder, described=described) for name, described in (("described", True), ("bare", False))
        }
        told[encoder.model] = {
            name: {"views": each.views, "labels": each.labels, "words": each.words} for name, each in found.items()
        }
    print(json.dumps(told, indent=2))  # noqa: T201  # the command's answer


if __name__ == "__main__":
    main()
