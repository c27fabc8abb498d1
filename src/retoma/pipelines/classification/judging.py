"""A batch as the algorithm takes it, and what it finds as rows: between ``refining`` and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from retoma.pipelines.classification.findings import Change, Material
from retoma.pipelines.classification.labels import SUB
from retoma.pipelines.classification.refining import OTHER, First, Outcome, Refinement, refine
from retoma.providers import Label

OTHER_NAME = "outro"
"""The category of a document that fits none of the labels."""
PRECISION = np.float16
"""Of a vector as it is kept: half the room, and no result depends on more."""

_BANDS = {"alta": 0.9, "media": 0.6, "baixa": 0.3}
"""The share of its label in a first result that tells none."""
_PT = "O trecho"


def packed(vector: Sequence[float]) -> bytes:
    """A vector as it is kept."""
    return np.asarray(vector, dtype=PRECISION).tobytes()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a batch says of its documents."""

    refinement: Refinement
    changes: list[Change]
    groups: list[tuple[list[int], list[dict[str, Any]]]]
    """For each group of strangers the ids of its results, and its most typical documents."""
    unused: list[str]


class Sheaf:
    """The documents of a batch, taken page by page; only their vectors, their shares and their names stay."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self.names = [label.name for label in labels]
        self._places = {name: place for place, name in enumerate(self.names)}
        self._vectors: list[np.ndarray[Any, Any]] = []
        self._shares: list[np.ndarray[Any, Any]] = []
        self.found: list[Material] = []
        self.left_out = 0

    def take(self, page: Sequence[Material], model: str) -> None:
        """Take those documents that have a vector of this *model*."""
        kept = [each for each in page if each.vector is not None and each.model == model]
        self.left_out += len(page) - len(kept)
        if not kept:
            return
        self._vectors.append(np.stack([np.frombuffer(each.vector or b"", dtype=PRECISION) for each in kept]))
        self._shares.append(np.stack([self._shares_of(each) for each in kept]))
        self.found += [_without_vector(each) for each in kept]

    def _shares_of(self, each: Material) -> np.ndarray[Any, Any]:
        told: dict[str, float] = orjson.loads(each.shares) if each.shares else {}
        if told:
            row = np.array([max(told.get(name) or 0.0, 0.0) for name in self.names], dtype=np.float32)
            if row.sum() > 0:
                return np.asarray(row / row.sum())
        row = np.full(len(self.names), 1 / len(self.names), dtype=np.float32)
        own = self._places.get(_label(each.category, each.subcategory))
        if own is not None and len(self.names) > 1:
            sure = _BANDS.get(each.confidence or "", 1 / len(self.names))
            row[:] = (1 - sure) / (len(self.names) - 1)
            row[own] = sure
        return row

    def judged(self, texts: Sequence[np.ndarray[Any, Any]]) -> Judgement:
        """Judge them by each other."""
        vectors = np.concatenate(self._vectors) if self._vectors else np.zeros((0, texts[0].shape[1]), dtype=PRECISION)
        shares = np.concatenate(self._shares) if self._shares else np.zeros((0, len(self.names)), dtype=np.float32)
        self._vectors, self._shares = [], []
        labels = np.array([self._place(_label(each.category, each.subcategory)) for each in self.found], dtype=np.int64)
        first = First(labels=labels, shares=shares, confidences=[each.confidence or "baixa" for each in self.found])
        found = refine(vectors, texts, first, examples=self._examples())
        return Judgement(
            refinement=found,
            changes=self._changes(found),
            groups=[
                (
                    [self.found[place].id for place in group.members],
                    [{"id": self.found[place].id, "title": self.found[place].title} for place in group.central],
                )
                for group in found.groups
            ],
            unused=[self.names[label] for label in found.unused],
        )

    def _place(self, label: str) -> int:
        return self._places.get(label, OTHER)

    def _examples(self) -> list[tuple[int, int]]:
        return [
            (place, self._place(each.label))
            for place, each in enumerate(self.found)
            if each.decided and (each.label in self._places or each.label == OTHER_NAME)
        ]

    def _changes(self, found: Refinement) -> list[Change]:
        if found.outcome is not Outcome.REFINED:
            return [self._restored(place) for place in range(len(self.found)) if self._moved(place)]
        changes = []
        for place, each in enumerate(self.found):
            label = int(found.labels[place])
            name = OTHER_NAME if label == OTHER else self.names[label]
            if each.decided or (name == each.label and found.confidences[place] == each.band):
                continue
            changes.append(self._change(place, name, found))
        return changes

    def _moved(self, place: int) -> bool:
        """Whether a result is not what was found in its document alone: another batch had made it so."""
        each = self.found[place]
        return not each.decided and each.label != _label(each.category, each.subcategory)

    def _restored(self, place: int) -> Change:
        each = self.found[place]
        after = {"category": each.category, "subcategory": each.subcategory, "confidence": each.confidence}
        return Change(each.id, _as_it_is(each), {**_as_it_is(each), **after}, {"rule": "first"})

    def _change(self, place: int, name: str, found: Refinement) -> Change:
        each, reason = self.found[place], found.reasons[place]
        label = int(found.labels[place])
        first = _label(each.category, each.subcategory)
        why = {
            "rule": str(reason.why),
            "first": first,
            "likeness": reason.likeness,
            "likeness_before": reason.likeness_before,
            "documents": reason.documents,
            "neighbours": [{"id": self.found[near].id, "title": self.found[near].title} for near in reason.neighbours],
        }
        category, _, subcategory = name.partition(SUB)
        after = {
            "category": category,
            "subcategory": subcategory or None,
            "confidence": found.confidences[place],
            "score": round(float(found.shares[place, label]), 4) if label != OTHER else None,
            "margin": round(float(found.margins[place]), 4) if label != OTHER else None,
            "justification": _told(each, first, name, why),
        }
        return Change(each.id, _as_it_is(each), after, why)


def _without_vector(each: Material) -> Material:
    return replace(each, vector=None, shares=None)


def _label(category: str | None, subcategory: str | None) -> str:
    return SUB.join(part for part in (category, subcategory) if part)


def _as_it_is(each: Material) -> dict[str, Any]:
    category, _, subcategory = each.label.partition(SUB)
    return {
        "category": category,
        "subcategory": subcategory or None,
        "confidence": each.band,
        "score": each.score,
        "margin": each.margin,
        "justification": each.justification,
    }


def _told(each: Material, first: str, name: str, why: dict[str, Any]) -> str:
    """The reason in a sentence, in the language of the first one; what was said of the document alone stays below."""
    lead, _, rest = each.justification.partition("\n")
    alone = rest if lead.startswith(tuple(_LEADS.values())) else each.justification
    language = "pt" if each.justification.startswith((_PT, _LEADS["pt"])) else "en"
    case = "other" if name == OTHER_NAME else "same" if name == first else "moved"
    said = _SAID[language, case].format(name=name, first=first, count=why["documents"])
    return f"{_LEADS[language]} {said}\n{alone}"


_LEADS = {"pt": "Comparado com os outros do lote,", "en": "Compared with the others of the batch,"}
_SAID = {
    ("pt", "other"): "pertence a um grupo de {count} documentos que não se parece com nenhuma categoria.",
    ("pt", "same"): "continua em «{name}», junto de {count} documentos.",
    ("pt", "moved"): "está mais perto dos {count} documentos de «{name}» do que dos de «{first}».",
    ("en", "other"): "it belongs to a group of {count} documents that is like no category.",
    ("en", "same"): "it stays “{name}”, beside {count} documents.",
    ("en", "moved"): "it is nearer to the {count} documents of “{name}” than to those of “{first}”.",
}
