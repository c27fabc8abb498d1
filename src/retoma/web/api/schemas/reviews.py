"""Reviews and decisions as they go over the wire, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from retoma.model.review import Agreed, Agreement, Choice, Evidence, Review, Reviewing
from retoma.web.api.schemas import requests as asked
from retoma.web.api.schemas.responses import Opened, Schema, Time

Note = Annotated[str, Field(min_length=1, max_length=2000)]
Taken = Annotated[float, Field(ge=0, le=86_400)]
Lease = Annotated[float, Field(ge=1, le=3600)]


class ReviewFilter(asked.Wanted):
    """Which reviews, and how many of them at a time."""

    pipeline: asked.Text | None = None
    batch_id: asked.Id | None = None
    label: asked.Text | None = None
    job_id: asked.Id | None = None
    cursor: asked.Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), asked.WHOLE] = 50


class DecisionFilter(asked.Wanted):
    """Which decisions, and how many of them at a time."""

    pipeline: asked.Text | None = None
    batch_id: asked.Id | None = None
    review_id: asked.Id | None = None
    who: asked.Text | None = None
    cursor: asked.Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), asked.WHOLE] = 50


class AgreementFilter(asked.Wanted):
    """Of which decisions."""

    pipeline: asked.Text | None = None
    batch_id: asked.Id | None = None


class NextReviews(asked.Asked):
    """How many reviews are wanted, of which kind, and for how long nobody else gets them."""

    limit: Annotated[int, Field(ge=1, le=50), asked.WHOLE] = 1
    lease_seconds: Lease = 60.0
    pipeline: asked.Text | None = None
    batch_id: asked.Id | None = None
    label: asked.Text | None = None


class KeptReviews(asked.Asked):
    """Which leases begin anew, and for how long; null is all that the caller has."""

    ids: Annotated[list[asked.Id], Field(max_length=100)] | None = None
    lease_seconds: Lease = 60.0


class Deciding(asked.Asked):
    """What is said with a decision; the same key is the same decision."""

    key: asked.Text | None = None
    note: Note | None = None
    seconds: Taken | None = None


class Correcting(Deciding):
    """The value that becomes the result, and its name in one word."""

    value: Any
    label: asked.Text | None = None


class Rejecting(Deciding):
    """Whether the job is tried again."""

    retry: bool = False


class Undoing(asked.Asked):
    """Which decision of the caller is undone; the last one when it is not said."""

    decision: asked.Id | None = None
    key: asked.Text | None = None
    note: Note | None = None


class ReviewItem(Schema):
    """Something that waits for a person, or waited; the proposal and the reason are there with content:read."""

    content = ("proposal", "reason", "title")

    id: int
    source: str
    item: str
    job_id: int | None
    pipeline: str
    batch_id: int | None
    state: Literal["open", "settled", "gone"]
    label: str | None
    version: str | None
    confidence: float | None
    margin: float | None
    created_at: Time
    settled_at: Time | None
    leased_until: Time | None
    title: str | None = None
    reason: str | None = None
    proposal: Opened = None


class ReviewChoice(Schema):
    """An answer that may be chosen with one key."""

    label: str
    value: Any


class ReviewFact(Schema):
    """Something that is known about the thing in doubt."""

    name: str
    value: str


class ReviewEvidence(Schema):
    """What a person sees beside a proposal."""

    text: str | None
    passage: str | None
    image: str | None
    no_image: str | None
    link: str | None
    facts: list[ReviewFact]
    choices: list[ReviewChoice]

    @classmethod
    def seen(cls, evidence: Evidence) -> Self:
        """*evidence* as it goes over the wire."""
        return cls(
            text=evidence.text,
            passage=evidence.passage,
            image=evidence.image,
            no_image=evidence.no_image,
            link=evidence.link,
            facts=[ReviewFact(name=name, value=value) for name, value in evidence.facts],
            choices=[_choice(each) for each in evidence.choices],
        )


def _choice(each: Choice) -> ReviewChoice:
    return ReviewChoice(label=each.label, value=each.value)


class SeenReview(Schema):
    """A review, and with content:read what a person sees of it."""

    review: ReviewItem
    evidence: ReviewEvidence | None

    @classmethod
    def seen(cls, found: Reviewing, *, content: bool) -> Self:
        """*found* as it goes over the wire."""
        return cls(
            review=ReviewItem.of(found.review, content=content),
            evidence=ReviewEvidence.seen(found.evidence) if content else None,
        )


class SeenReviews(Schema):
    """The reviews that the caller has leased."""

    reviews: list[SeenReview]


class Reviews(Schema):
    """A page of what waits, the lowest margin first; *next* is the cursor of the page that follows."""

    reviews: list[ReviewItem]
    next: str | None

    @classmethod
    def page(cls, found: Sequence[Review], following: str | None, *, content: bool) -> Self:
        """A page of *found*."""
        return cls(reviews=[ReviewItem.of(each, content=content) for each in found], next=following)


class KeptLeases(Schema):
    """The reviews whose leases the caller still has."""

    ids: list[int]


class Skipped(Schema):
    """Whether the caller had the review; false when they did not."""

    skipped: bool


class ReviewDecision(Schema):
    """What somebody decided; values and notes are there with content:read."""

    content = ("proposed", "decided", "note")

    id: int
    review_id: int
    source: str
    item: str
    job_id: int | None
    pipeline: str
    batch_id: int | None
    who: str
    name: str | None
    at: Time
    kind: Literal["accept", "correct", "reject", "retry", "undo"]
    label: str | None
    decided_label: str | None
    version: str | None
    confidence: float | None
    margin: float | None
    seconds: float | None
    undoes: int | None
    undone_by: int | None
    proposed: Opened = None
    decided: Opened = None
    note: str | None = None


class Decisions(Schema):
    """A page of decisions, the newest first."""

    decisions: list[ReviewDecision]
    next: str | None


class LabelAgreement(Schema):
    """How many proposals with a label and a version people kept."""

    pipeline: str
    label: str | None
    version: str | None
    count: int
    agreed: int
    confidence: float | None


class ConfidenceAgreement(Schema):
    """How many proposals people kept, of those whose confidence lies in one tenth; 0 is from 0 to 0.1."""

    tenth: int
    count: int
    agreed: int
    confidence: float | None


class ReviewAgreement(Schema):
    """How often people kept what was proposed. Undone decisions do not count."""

    count: int
    agreed: int
    labels: list[LabelAgreement]
    calibration: list[ConfidenceAgreement]

    @classmethod
    def seen(cls, found: Agreement) -> Self:
        """*found* as it goes over the wire."""

        def counted(each: Agreed) -> dict[str, Any]:
            return {"count": each.decided, "agreed": each.agreed, "confidence": each.confidence}

        return cls(
            count=found.decided,
            agreed=found.agreed,
            labels=[
                LabelAgreement(pipeline=each.pipeline, label=each.label, version=each.version, **counted(each))
                for each in found.by_label()
            ],
            calibration=[ConfidenceAgreement(tenth=each.tenth or 0, **counted(each)) for each in found.by_tenth()],
        )
