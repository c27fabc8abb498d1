"""A batch as the algorithm takes it, and what it finds as rows: between ``refining`` and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from retoma.pipelines.classification.choosing import turns
from retoma.pipelines.classification.examples import TaughtPlace
from retoma.pipelines.classification.findings import Change, Material
from retoma.pipelines.classification.gaining import Check, gain_of
from retoma.pipelines.classification.labels import SUB
from retoma.pipelines.classification.learning import learn
from retoma.pipelines.classification.refinements import Gain
from retoma.pipelines.classification.refining import OTHER, First, Refinement, Why, refine
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


def kept_whole(vector: Sequence[float]) -> bytes:
    """The vector of an example's text, which is kept for as long as the example."""
    return np.asarray(vector, dtype=np.float32).tobytes()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a batch says of its documents."""

    refinement: Refinement
    changes: list[Change]
    groups: list[tuple[list[int], list[dict[str, Any]]]]
    """For each group of strangers the ids of its results, and its most typical documents."""
    unused: list[str]
    turns: dict[int, float]
    """By result in doubt, when a person is to be asked about it: the lowest first."""
    gain: Gain
    """What the examples were worth."""


class Sheaf:
    """The documents of a batch, taken page by page; only their vectors, their shares and their names stay. Examples
    from elsewhere lie behind them.
    """

    def __init__(self, labels: Sequence[Label]) -> None:
        self.names = [label.name for label in labels]
        self._places = {name: place for place, name in enumerate(self.names)}
        self._vectors: list[np.ndarray[Any, Any]] = []
        self._shares: list[np.ndarray[Any, Any]] = []
        self.found: list[Material] = []
        self.left_out = 0
        self.examples = 0
        self._foreign: list[TaughtPlace] = []

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

    def learn_from(self, lessons: Sequence[TaughtPlace]) -> None:
        """Take the examples of the project; those from outside the batch only when it is known where they lie."""
        self.examples = len(lessons)
        for each in lessons:
            vector = _read(each)
            if each.inside or vector is None or not self._known(each.label):
                continue
            label = self._place(each.label)
            row = np.full((1, len(self.names)), 1 / len(self.names), dtype=np.float32)
            if label != OTHER:
                row[:] = 0.0
                row[0, label] = 1.0
            self._vectors.append(vector[None, :])
            self._shares.append(row)
            self._foreign.append(each)

    @property
    def taught(self) -> list[int]:
        """The examples whose documents are here, and whose results nobody decided yet."""
        return [each.example_id for each in self.found if each.example_id is not None and not each.decided]

    def judged(self, texts: Sequence[np.ndarray[Any, Any]]) -> Judgement:
        """Judge them by each other and by the examples."""
        vectors = np.concatenate(self._vectors) if self._vectors else np.zeros((0, texts[0].shape[1]), dtype=PRECISION)
        first = self._first()
        self._vectors, self._shares = [], []
        said = self._said()
        alone = refine(vectors, texts, first)
        found = learn(vectors, texts, first, examples=said, alone=alone) if said else alone
        check = Check(vectors, texts, first, said, alone)
        changes = self._changes(found)
        return Judgement(
            refinement=found,
            changes=changes,
            groups=[
                (
                    [self.found[place].id for place in members],
                    [{"id": self.found[place].id, "title": self.found[place].title} for place in central],
                )
                for group in found.groups
                if (members := self._here(group.members)) and (central := self._here(group.central))
            ],
            unused=[self.names[label] for label in found.unused],
            turns=self._turns(vectors, found),
            gain=gain_of(self.found, self.names, found, check.left_out(len(self.found))),
        )

    def _here(self, places: np.ndarray[Any, Any]) -> list[int]:
        return [int(place) for place in places if place < len(self.found)]

    def _first(self) -> First:
        """What was found in each document alone; an example from elsewhere is what was said of it."""
        shares = np.concatenate(self._shares) if self._shares else np.zeros((0, len(self.names)), dtype=np.float32)
        labels = [self._place(_label(each.category, each.subcategory)) for each in self.found]
        labels += [self._place(each.label) for each in self._foreign]
        bands = [*(each.confidence or "baixa" for each in self.found), *("alta" for _ in self._foreign)]
        return First(labels=np.array(labels, dtype=np.int64), shares=shares, confidences=bands)

    def _turns(self, vectors: np.ndarray[Any, Any], found: Refinement) -> dict[int, float]:
        """When a person is asked about each result in doubt, so that the first answers teach most."""
        decided = [place for place, each in enumerate(self.found) if said_of(each) is not None]
        decided += range(len(self.found), len(vectors))
        doubtful = [
            place for place, each in enumerate(self.found)
            if found.confidences[place] == "baixa" and said_of(each) is None
        ]  # fmt: skip
        if len(doubtful) < 2:  # noqa: PLR2004 - one has no order
            return {}
        values = turns(vectors[doubtful], found.margins[doubtful], vectors[decided])
        return {self.found[place].id: value for place, value in zip(doubtful, values, strict=True)}

    def _place(self, label: str) -> int:
        return self._places.get(label, OTHER)

    def _known(self, label: str) -> bool:
        return label in self._places or label == OTHER_NAME

    def _said(self) -> list[tuple[int, int]]:
        """The documents of which a person said the kind, here and elsewhere, as far as the kind has a label."""
        said = [*(said_of(each) for each in self.found), *(each.label for each in self._foreign)]
        return [(place, self._place(label)) for place, label in enumerate(said) if label and self._known(label)]

    def _changes(self, found: Refinement) -> list[Change]:
        changes = []
        for place, each in enumerate(self.found):
            label = int(found.labels[place])
            name = OTHER_NAME if label == OTHER else self.names[label]
            if said_of(each) is not None or (name == each.label and found.confidences[place] == each.band):
                continue
            if label == OTHER and found.reasons[place].why is Why.FIRST:
                continue  # it was given a label that this execution has not
            changes.append(self._change(place, name, found))
        return changes

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
            "neighbours": [self._named(near) for near in reason.neighbours],
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

    def _named(self, place: int) -> dict[str, Any]:
        """A document by its result and title; one from elsewhere by its title alone."""
        if place < len(self.found):
            return {"id": self.found[place].id, "title": self.found[place].title}
        return {"id": None, "title": self._foreign[place - len(self.found)].title}


def said_of(each: Material) -> str | None:
    """What a person said of a document: as an example of the project, or of this result."""
    return each.said or (each.label if each.decided else None)


def _read(each: TaughtPlace) -> np.ndarray[Any, Any] | None:
    """Where an example from elsewhere lies."""
    if each.place is not None:
        return np.frombuffer(each.place, dtype=PRECISION)
    return None if each.kept is None else np.frombuffer(each.kept, dtype=np.float32).astype(PRECISION)


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
    if why["rule"] == Why.FIRST:
        return alone
    language = "pt" if each.justification.startswith((_PT, _LEADS["pt"])) else "en"
    case = "other" if name == OTHER_NAME else "same" if name == first else "moved"
    if why["rule"] == Why.EXAMPLE and case != "other":
        case = "taught"
    said = _SAID[language, case].format(name=name, first=first, count=why["documents"])
    return f"{_LEADS[language]} {said}\n{alone}"


_LEADS = {"pt": "Comparado com os outros do lote,", "en": "Compared with the others of the batch,"}
_SAID = {
    ("pt", "other"): "pertence a um grupo de {count} documentos que não se parece com nenhuma categoria.",
    ("pt", "same"): "continua em «{name}», junto de {count} documentos.",
    ("pt", "moved"): "está mais perto dos {count} documentos de «{name}» do que dos de «{first}».",
    ("pt", "taught"): "e com o que as pessoas ensinaram, está mais perto de «{name}».",
    ("en", "other"): "it belongs to a group of {count} documents that is like no category.",
    ("en", "same"): "it stays “{name}”, beside {count} documents.",
    ("en", "moved"): "it is nearer to the {count} documents of “{name}” than to those of “{first}”.",
    ("en", "taught"): "and with what people taught, it is nearest to “{name}”.",
}
