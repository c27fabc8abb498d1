"""Learning curves: how many documents are right after so many decisions of a person, chosen in two ways.

The documents are those of the held-out set. A decision says the true label of a document; decisions are made ten at a
time, and what is judged right is counted among the documents that nobody decided.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from retoma.bench.evaluation import heldout
from retoma.bench.evaluation.heldout import labels as label_sets
from retoma.bench.evaluation.judging import shared_encoder
from retoma.pipelines.classification.choosing import order
from retoma.pipelines.classification.learning import learn
from retoma.pipelines.classification.refining import First, Refinement
from retoma.providers.local.classify import LocalClassifier

DECISIONS = (0, 10, 30, 100)
KINDS = 8
"""The first so many kinds of the set."""
_AT_ONCE = 10
_TIMEOUT = 600.0
_SEED = 20260121


async def learning() -> dict[str, Any]:
    """The curves of the test part: eight described kinds, in both languages."""
    return {"split": "test", **{language: await curves("test", language) for language in heldout.LANGUAGES}}


async def curves(split: str = "test", language: str = "pt", *, described: bool = True) -> dict[str, Any]:
    """For each way to choose, the share that is right after each number of decisions."""
    kinds = dict(list(label_sets.kinds(language, described=described).items())[:KINDS])
    texts = [each for each in heldout.documents(split, language) if each.label in kinds]
    batch = await _Batch.made([each.text for each in texts], [list(kinds).index(each.label) for each in texts], kinds)
    return {
        "texts": len(texts),
        "kinds": len(kinds),
        "alone": batch.right_alone(),
        "chosen": batch.curve(by_worth=True),
        "random": batch.curve(by_worth=False),
    }


class _Batch:
    """Documents whose labels are known, and what was found in each alone."""

    def __init__(self, vectors: Any, label_vectors: Sequence[Any], first: First, truth: Sequence[int]) -> None:
        self.vectors, self.label_vectors, self.first = vectors, label_vectors, first
        self.truth = np.asarray(truth)

    @classmethod
    async def made(cls, texts: Sequence[str], truth: Sequence[int], kinds: dict[str, Any]) -> _Batch:
        """Every text alone, as an execution would find it."""
        classifier, names = LocalClassifier(shared_encoder()), list(kinds.values())
        verdicts = [(await classifier.classify([each], names, timeout=_TIMEOUT))[0] for each in texts]
        shares = np.array([[each.scores[name.name] for name in names] for each in verdicts])
        vectors = np.array([each.vector for each in verdicts], dtype=np.float32)
        told = [[each for each in (name.name, name.description, *name.cues) if each] for name in names]
        label_vectors = [np.asarray(await classifier.place(each, timeout=_TIMEOUT)) for each in told]
        first = First(labels=shares.argmax(axis=1), shares=shares, confidences=[each.confidence for each in verdicts])
        return cls(vectors, label_vectors, first, truth)

    def right_alone(self) -> float:
        """The share that is right before anything is refined."""
        return round(float((self.first.labels == self.truth).mean()), 3)

    def curve(self, *, by_worth: bool) -> dict[str, float]:
        """After so many decisions, the share of the rest that is right."""
        chance = random.Random(_SEED)  # noqa: S311 - the same choice every time
        said: list[tuple[int, int]] = []
        found = {}
        for most in DECISIONS:
            while len(said) < most:
                said += self._asked(said, min(_AT_ONCE, most - len(said)), None if by_worth else chance)
            left = self._left(said)
            found[str(most)] = round(float((self._judged(said).labels[left] == self.truth[left]).mean()), 3)
        return found

    def _left(self, said: Sequence[tuple[int, int]]) -> list[int]:
        done = {document for document, _ in said}
        return [each for each in range(len(self.truth)) if each not in done]

    def _judged(self, said: Sequence[tuple[int, int]]) -> Refinement:
        return learn(self.vectors, self.label_vectors, self.first, examples=said)

    def _asked(self, said: Sequence[tuple[int, int]], most: int, chance: random.Random | None) -> list[tuple[int, int]]:
        left = self._left(said)
        if chance is not None:
            chosen = chance.sample(left, most)
        else:
            known = self.vectors[[document for document, _ in said]]
            places = order(self.vectors[left], self._judged(said).margins[left], known, most=most)
            chosen = [left[place] for place in places]
        return [(document, int(self.truth[document])) for document in chosen]
