"""Results that are not sure, at the review desk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from retoma.errors import ConfigurationError, Conflict
from retoma.model.review import Choice, Decision, DecisionKind, Doubt, Evidence, Review, Settling
from retoma.pipelines.classification import examples, pictures
from retoma.pipelines.classification.labels import SUB, from_json
from retoma.store.query import Command, Query, load

SQL = load("retoma.pipelines.classification.queries", "reviews.sql")

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """A result in doubt, as a person is shown it."""

    id: int
    batch_id: int
    category: str
    subcategory: str | None
    justification: str | None
    quote: str | None
    chunk_used: str | None
    filename: str | None
    code: str
    case_number: str | None
    answer: str | None
    labels: list[dict[str, Any]] | None
    kind: str | None
    kept: bool
    """Whether its file is still the one that was judged."""


def _doubt(*columns: Any) -> Doubt:
    names = (
        "item",
        "pipeline",
        "since",
        "job_id",
        "batch_id",
        "title",
        "reason",
        "proposal",
        "label",
        "version",
        "confidence",
        "margin",
    )
    return Doubt(**dict(zip(names, columns, strict=True)))


def doubts(limit: int) -> Query[Doubt]:
    return Query(SQL["doubts"], _doubt, {"limit": limit})


def seen(id: int) -> Query[Seen]:
    return Query(SQL["seen"], Seen, {"id": id})


def decide(id: int, category: str | None, subcategory: str | None, by: str) -> Query[int]:
    """Without a category the result is rejected, and there is none."""
    return Query(SQL["decide"], int, {"id": id, "category": category, "subcategory": subcategory, "by": by})


def undo(id: int) -> Query[int]:
    return Query(SQL["undo"], int, {"id": id})


class DoubtfulResults:
    """The adapter of classification for the review desk."""

    owns_jobs = True
    jobs_of: tuple[str, ...] = ()

    def doubts(self, limit: int) -> Query[Doubt]:
        """Results with a low confidence."""
        return doubts(limit)

    def show(self, review: Review) -> Command[Evidence | None]:
        """The part of the document that was judged, with the words that decided, its page as a picture, and the labels
        by their score.
        """
        rows: list[Seen] = yield seen(int(review.item))
        if not rows:
            return None
        found = rows[0]
        facts = {"justification": found.justification, "case": found.case_number, "file": found.filename or found.code}
        return Evidence(
            text=found.chunk_used,
            passage=found.quote,
            image=_image(found),
            no_image=pictures.why_not(found.kind, kept=found.kept),
            link=f"/classificador/execucoes/{found.batch_id}/documentos/{found.id}",
            facts=tuple((name, value) for name, value in facts.items() if value),
            choices=tuple(_choices(found)),
        )

    def settle(self, review: Review, settling: Settling) -> Command[str | None]:
        """Write what was decided, and keep it as an example of the project; a rejected document has no category any
        more, and teaches nothing.
        """
        if settling.kind is DecisionKind.RETRY:
            return None
        result = int(review.item)
        category, subcategory = (None, None) if settling.value is None else _read(settling.value)
        if not (yield decide(result, category, subcategory, settling.who)):
            raise Conflict(f"Result {result} needs no review any more.", next="Take the next one.")
        if category is None:
            return None
        label = SUB.join(each for each in (category, subcategory) if each)
        if not (yield examples.learn(result, label, by=settling.who, source="review")):
            raise Conflict(f"Somebody else is saying what the document of result {result} is.", next="Decide again.")
        return label

    def undo(self, review: Review, decision: Decision) -> Command[None]:
        """Put back what was found, and take the example back."""
        result = int(review.item)
        yield examples.withdraw(result_id=result, by=decision.name or decision.who)
        if not (yield undo(result)):
            raise Conflict(
                f"Decision {decision.id} cannot be undone: the document has been classified anew.",
                next="What has happened to it since stays.",
            )


def _image(found: Seen) -> str | None:
    place = f"/classificador/api/execucoes/{found.batch_id}/resultados/{found.id}/pagina.png"
    return place if pictures.has_picture(found.kind, kept=found.kept) else None


def _choices(found: Seen) -> list[Choice]:
    answer = orjson.loads(found.answer) if found.answer else {}
    scores: dict[str, float] = answer.get("pontuacoes") or {}
    names = [each.name for each in from_json(found.labels or ())]
    own = SUB.join(each for each in (found.category, found.subcategory) if each)
    order = sorted(names, key=lambda name: (name != own, -(scores.get(name) or 0.0)))
    return [Choice(name, _value(name)) for name in order]


def _value(name: str) -> dict[str, Any]:
    category, _, subcategory = name.partition(SUB)
    return {"category": category, "subcategory": subcategory or None, "confidence": "baixa"}


def _read(value: str) -> tuple[str, str | None]:
    """The category and subcategory in a decision."""
    told = orjson.loads(value)
    told = _value(told) if isinstance(told, str) else told
    category = told.get("category") if isinstance(told, dict) else None
    subcategory = told.get("subcategory") if isinstance(told, dict) else None
    for word in (category, subcategory if subcategory is not None else "none"):
        if not isinstance(word, str) or not word.strip() or len(word) > _LONGEST or "\0" in word:
            raise ConfigurationError(
                f"A category is a name of 1 to {_LONGEST} characters.",
                next='Write {"category": "contract", "subcategory": null}.',
            )
    assert isinstance(category, str)
    return category.strip(), subcategory.strip() if subcategory else None


REVIEWS = DoubtfulResults()
