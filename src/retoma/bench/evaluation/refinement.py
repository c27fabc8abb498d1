"""What the batch adds to the verdicts on its documents, on the held-out test part, and what each part of it adds.

Each document is classified alone first; then all of one set and language are refined together, as the last step of an
execution does. Its parameters were chosen on other texts: the development part, and news that are not kept here.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retoma.bench.evaluation import heldout
from retoma.bench.evaluation.heldout import labels as label_sets
from retoma.bench.evaluation.judging import shared_encoder
from retoma.pipelines.classification.refining import OTHER, First, Refinement, Settings, refine
from retoma.providers import Label
from retoma.providers.local.classify import LocalClassifier

Figures = dict[str, Any]

_TIMEOUT = 600.0
_WAYS: Mapping[str, Settings] = {
    "refined": Settings(strangers=False),
    "without_foreseeing": Settings(strangers=False, foreseen=0.0),
    "always_believed": Settings(strangers=False, contradicted=1.0, foreseen=0.0),
    "batch_alone": Settings(strangers=False, contradicted=1.0, foreseen=0.0, voice=(1.0, 1.0)),
    "one_round": Settings(strangers=False, rounds=1),
    "even_proportions": Settings(strangers=False, even=(1.0, 1.0), gap=0.0, size=(0.0, 0.0)),
    "without_first_results": Settings(strangers=False, first_weight=0.0),
    "without_label_texts": Settings(strangers=False, text_weight=0.0),
}
"""The whole of it, and the whole of it less one part."""


async def refinement(copies: int | None = None) -> Figures:
    """Accuracy alone and refined, by set, language and label texts; and how well what fits no label is told."""
    classifier = LocalClassifier(shared_encoder())
    told: Figures = {"model": classifier.model, "split": "test"}
    for name, texts_of, labels_of in (
        ("news", heldout.news, label_sets.topics),
        ("kinds", heldout.documents, label_sets.kinds),
    ):
        for language in heldout.LANGUAGES:
            texts = texts_of("test", language, copies=copies)
            for described in (False, True):
                labels = labels_of(language, described=described)
                batch = await _batch(classifier, texts, labels)
                told[f"{name}.{language}.{'described' if described else 'names'}"] = batch.figures()
    told["20000_documents"] = await asyncio.to_thread(_pace, await _alone())
    return told


class _Batch:
    def __init__(self, truth: NDArray[Any], vectors: NDArray[Any], first: First, texts: Sequence[NDArray[Any]]) -> None:
        self.truth, self.vectors, self.first, self.texts = truth, vectors, first, texts

    def figures(self) -> Figures:
        return {
            "texts": len(self.truth),
            "labels": len(self.texts),
            "alone": _share(self.first.labels == self.truth),
            **{way: _share(self._refined(each).labels == self.truth) for way, each in _WAYS.items()},
            "outcome": str(self._refined(_WAYS["refined"]).outcome),
            "refined_by_confidence": self._bands(),
            "wrongly_none_of_these": _share(self._refined(Settings()).labels == OTHER),
            "none_of_these": self._left_out(),
        }

    def _refined(self, settings: Settings) -> Refinement:
        return refine(self.vectors, self.texts, self.first, settings=settings)

    def _bands(self) -> Figures:
        found = self._refined(_WAYS["refined"])
        bands = np.array(found.confidences)
        return {
            band: {"texts": int((bands == band).sum()), "right": _share((found.labels == self.truth)[bands == band])}
            for band in ("alta", "media", "baixa")
            if (bands == band).any()
        }

    def _left_out(self) -> Figures:
        """Each label is left out once: how many of its documents are told as strangers, and how many told are."""
        caught = told = true = 0
        for label in range(len(self.texts)):
            kept = [each for each in range(len(self.texts)) if each != label]
            shares = np.maximum(self.first.shares[:, kept], 1e-6)
            shares = shares / shares.sum(axis=1, keepdims=True)
            first = replace(self.first, labels=shares.argmax(axis=1), shares=shares)
            other = refine(self.vectors, [self.texts[each] for each in kept], first).labels == OTHER
            own = self.truth == label
            caught, told, true = caught + int((other & own).sum()), told + int(other.sum()), true + int(own.sum())
        return {"found": round(caught / max(1, true), 3), "right": round(caught / max(1, told), 3)}


async def _batch(classifier: LocalClassifier, texts: Sequence[heldout.Text], labels: Mapping[str, Label]) -> _Batch:
    kinds = list(labels.values())
    names = [each.name for each in kinds]
    verdicts = [(await classifier.classify([each.text], kinds, timeout=_TIMEOUT))[0] for each in texts]
    shares = np.array([[verdict.scores[name] for name in names] for verdict in verdicts])
    placed = []
    for label in kinds:
        own = [each for each in (label.name, label.description, *label.cues) if each]
        placed.append(np.asarray(await classifier.place(own, timeout=_TIMEOUT), dtype=np.float32))
    return _Batch(
        np.array([names.index(labels[each.label].name) for each in texts]),
        np.array([verdict.vector for verdict in verdicts], dtype=np.float16),
        First(labels=shares.argmax(axis=1), shares=shares, confidences=[verdict.confidence for verdict in verdicts]),
        placed,
    )


async def _alone() -> float:
    """How many documents are classified in a second, before anything is compared."""
    classifier, kinds = LocalClassifier(), list(label_sets.kinds("pt", described=True).values())
    texts = heldout.documents("dev", "pt", copies=2)
    await classifier.classify([texts[0].text], kinds, timeout=_TIMEOUT)  # the model and the labels are loaded once
    began = time.perf_counter()
    for each in texts:
        await classifier.classify([each.text], kinds, timeout=_TIMEOUT)
    return len(texts) / (time.perf_counter() - began)


def _pace(alone: float, documents: int = 20_000, labels: int = 12, width: int = 512) -> Figures:
    """Time and memory for many documents, of which *alone* so many are classified in a second. The vectors are made up:
    only their number and length matter here.
    """
    chance = np.random.default_rng(0)
    kinds = chance.normal(size=(labels, width))
    truth = np.arange(documents) % labels
    vectors = np.empty((documents, width), dtype=np.float16)
    for start in range(0, documents, 1000):
        rows = kinds[truth[start : start + 1000]] + 2 * chance.normal(size=(len(truth[start : start + 1000]), width))
        vectors[start : start + 1000] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    shares = np.full((documents, labels), 0.5 / (labels - 1), dtype=np.float32)
    shares[np.arange(documents), truth] = 0.5
    first = First(labels=truth, shares=shares, confidences=["media"] * documents)
    texts = [kinds[label : label + 1] + chance.normal(size=(4, width)) for label in range(labels)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    outcome = refine(vectors, texts, first).outcome
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "vectors": "made up",
        "outcome": str(outcome),
        "seconds": round(seconds, 2),
        "documents_per_second_alone": round(alone, 1),
        "documents_per_second_with_refinement": round(documents / (documents / alone + seconds), 1),
        "share_of_the_time_alone": round(seconds * alone / documents, 4),
        "memory_added_mb": round((after - before) / 1024, 1),
        "memory_at_most_mb": round(after / 1024, 1),
        "vectors_mb": round(vectors.nbytes / 2**20, 1),
    }


def _share(truths: NDArray[Any]) -> float:
    return round(float(np.mean(truths)), 3) if len(truths) else 0.0
