"""What the documents of an execution and the examples of its project say together, in numbers."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from retoma.app.fetch import fetch
from retoma.pipelines.classification import examples, refinements
from retoma.pipelines.classification.labels import from_json
from retoma.pipelines.classification.learning import learn
from retoma.pipelines.classification.refine_again import Found
from retoma.pipelines.classification.refinements import Change, Gain, LabelGain, Material
from retoma.pipelines.classification.refining import OTHER, First, Refinement
from retoma.providers import Label
from retoma.providers.local import LocalEmbedder

_FOLDS = 5
_TIMEOUT = 600.0
_SURE = {"alta": 0.9, "media": 0.6, "baixa": 0.3}
"""The share of its label in a result that tells none."""

Connection = psycopg.AsyncConnection[Any]
Rows = NDArray[np.float32]


# — vectors —


def hash_of(text: str) -> str:
    """What a text is known by."""
    return hashlib.sha256(text.encode()).hexdigest()


async def keep(connection: Connection, texts: Sequence[str]) -> None:
    """Keep the vectors of those texts that have none."""
    embedder = LocalEmbedder()
    by_hash = {hash_of(text): text for text in texts if any(map(str.isalnum, text))}
    known = await fetch(connection, refinements.vectors(embedder.model, list(by_hash)))
    for each in known:
        del by_hash[each.text_sha256]
    if by_hash:
        made = await embedder.embed(list(by_hash.values()), timeout=_TIMEOUT)
        packed = [np.asarray(each, dtype=np.float32).tobytes() for each in made.vectors]
        await fetch(connection, refinements.keep_vectors(embedder.model, dict(zip(by_hash, packed, strict=True))))


async def vectors_of(connection: Connection, texts: Sequence[str]) -> Rows:
    """The vectors that were kept, in order; zeros where there is none."""
    embedder = LocalEmbedder()
    rows = np.zeros((len(texts), embedder.dimensions), dtype=np.float32)
    hashes = [hash_of(text) for text in texts]
    for start in range(0, len(hashes), 1000):
        some = hashes[start : start + 1000]
        kept = {
            each.text_sha256: each.vector for each in await fetch(connection, refinements.vectors(embedder.model, some))
        }
        for place, name in enumerate(some, start):
            if name in kept:
                rows[place] = np.frombuffer(kept[name], dtype=np.float32)
    return rows


# — judging —


async def judged(connection: Connection, batch_id: int, project_id: int, kinds: Sequence[dict[str, Any]]) -> Found:
    """What changes in an execution, and what it is worth."""
    found: list[Material] = []
    while page := await fetch(
        connection, refinements.material(batch_id, after=found[-1].id if found else 0, limit=2000)
    ):
        found += page
    own = {each.document_id for each in found}
    taught = await fetch(connection, examples.texts(project_id))
    foreign = [each for each in taught if each.document_id not in own and each.excerpt]
    labels = from_json(kinds)
    vectors = await vectors_of(connection, [*(each.text for each in found), *(str(each.excerpt) for each in foreign)])
    texts = [np.asarray(rows) for rows in await _label_vectors(labels)]
    lesson = _Lesson(found, [each.label for each in foreign], labels)
    return await asyncio.to_thread(lesson.judged, vectors, texts, len(taught))


async def _label_vectors(labels: Sequence[Label]) -> list[NDArray[Any]]:
    """For each label the vectors of its texts: its name, and its description and cues when it has them."""
    embedder = LocalEmbedder()
    made = []
    for label in labels:
        texts = [each for each in (label.name, label.description, *label.cues) if any(map(str.isalnum, each))]
        made.append(np.asarray((await embedder.embed(texts, timeout=_TIMEOUT)).vectors, dtype=np.float32))
    return made


class _Lesson:
    """The documents of an execution and the examples from elsewhere, as the algorithm takes them."""

    def __init__(self, found: Sequence[Material], foreign: Sequence[str], labels: Sequence[Label]) -> None:
        self.found, self.foreign = found, foreign
        self.names = [each.name for each in labels]
        self.places = {name: place for place, name in enumerate(self.names)}
        self.said = [each.said or (each.label if each.decided else None) for each in found]

    def judged(self, vectors: Rows, texts: Sequence[NDArray[Any]], taught: int) -> Found:
        """What changes, and what it is worth."""
        first = self._first()
        everything = self._examples()
        refined = learn(vectors, texts, first, examples=everything)
        changes = [self._change(place, refined) for place in range(len(self.found)) if self._changes(place, refined)]
        return Found(
            examples=taught,
            total=len(self.found),
            taught=[each.example_id for each in self.found if each.example_id is not None and not each.decided],
            changes=changes,
            gain=self._gain(refined, self._checked(vectors, texts, first, everything)),
        )

    def _first(self) -> First:
        count = len(self.found) + len(self.foreign)
        shares = np.full((count, len(self.names)), 1.0 / len(self.names))
        labels = np.zeros(count, dtype=np.int64)
        for place, each in enumerate(self.found):
            own = self.places.get(each.label)
            if each.shares:
                shares[place] = [max(each.shares.get(name) or 0.0, 1e-6) for name in self.names]
            elif own is not None and len(self.names) > 1:
                sure = _SURE[each.confidence]
                shares[place] = (1 - sure) / (len(self.names) - 1)
                shares[place, own] = sure
            labels[place] = OTHER if own is None else own
        for place, label in enumerate(self.foreign, len(self.found)):
            labels[place] = self.places.get(label, OTHER)
        shares /= shares.sum(axis=1, keepdims=True)
        confidences = [*(each.confidence for each in self.found), *("alta" for _ in self.foreign)]
        return First(labels=labels, shares=shares, confidences=confidences)

    def _examples(self) -> list[tuple[int, int]]:
        """Those whose label is among the labels of the execution."""
        said = [*self.said, *self.foreign]
        return [(place, self.places[label]) for place, label in enumerate(said) if label in self.places]

    def _checked(
        self, vectors: Rows, texts: Sequence[NDArray[Any]], first: First, everything: Sequence[tuple[int, int]]
    ) -> dict[int, int]:
        """What each decided document would be taken for if nobody had decided it: each is left out once."""
        own = [each for each in everything if each[0] < len(self.found)]
        found: dict[int, int] = {}
        for fold in range(min(_FOLDS, len(own))):
            left_out = {place for place, _ in own[fold::_FOLDS]}
            kept = [each for each in everything if each[0] not in left_out]
            judged = learn(vectors, texts, first, examples=kept)
            found |= {place: int(judged.labels[place]) for place in left_out}
        return found

    def _changes(self, place: int, refined: Refinement) -> bool:
        each, label = self.found[place], int(refined.labels[place])
        if self.said[place] is not None or label == OTHER:
            return False
        return self.names[label] != each.label or refined.confidences[place] != each.confidence

    def _change(self, place: int, refined: Refinement) -> Change:
        each, label = self.found[place], int(refined.labels[place])
        name, was = self.names[label], each.label
        told = (
            f"Antes «{was}»; com o que foi ensinado, está mais perto dos documentos de «{name}»."
            if name != was
            else f"Continua «{name}», agora comparado com os documentos já decididos."
        )
        return Change(
            id=each.id,
            was=was,
            label=name,
            confidence=refined.confidences[place],
            score=round(float(refined.shares[place, label]), 4),
            margin=round(float(refined.margins[place]), 4),
            justification=told,
        )

    def _gain(self, refined: Refinement, checked: dict[int, int]) -> Gain:
        before, after, moves = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
        for place, each in enumerate(self.found):
            now = self.said[place] or (
                self.names[refined.labels[place]] if refined.labels[place] != OTHER else each.label
            )
            before[each.label] += 1
            after[now] += 1
            if now != each.label:
                moves[each.label, now] += 1
        rows = []
        for name in sorted({*self.names, *before, *after}):
            own = [place for place in checked if self.said[place] == name]
            if not (own or before[name] or after[name]):
                continue
            rows.append(
                LabelGain(
                    label=name,
                    decided=len(own),
                    agreed_before=sum(self._before(place) == name for place in own),
                    agreed_after=sum(self.names[checked[place]] == name for place in own if checked[place] != OTHER),
                    results_before=before[name],
                    results_after=after[name],
                )
            )
        return Gain(
            decided=len(checked),
            agreed_before=sum(each.agreed_before for each in rows),
            agreed_after=sum(each.agreed_after for each in rows),
            labels=tuple(rows),
            moves=tuple((was, now, count) for (was, now), count in moves.most_common(20)),
        )

    def _before(self, place: int) -> str:
        """What had been found in a document before a person decided."""
        return self.found[place].proposed or self.found[place].label
