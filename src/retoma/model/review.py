"""The values of the review desk: what is in doubt, what a person sees of it, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from retoma.model.ids import BatchId, JobId

JOB = "job"
"""The source of reviews that are jobs in the state *review*; other sources are extensions, by name."""


class DecisionKind(StrEnum):
    """What a person did with a proposal."""

    ACCEPT = "accept"
    """The proposal is the result."""
    CORRECT = "correct"
    """The person's value is the result."""
    REJECT = "reject"
    """There is no result."""
    RETRY = "retry"
    """There is no result, and the job is tried again."""
    UNDO = "undo"
    """A decision of before does not count, and its thing waits again."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer that may be chosen with one key; *value* is its JSON."""

    label: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a person sees beside a proposal: content."""

    text: str | None = None
    passage: str | None = None
    """The part of the text that decided."""
    image: str | None = None
    """The path of a picture of the page, below the address of the site."""
    no_image: str | None = None
    """Why there is no picture, in a sentence."""
    link: str | None = None
    """The path of the thing's own page."""
    facts: tuple[tuple[str, str], ...] = ()
    """What else is known, by name."""
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class Review:
    """Something that waits for a person, or waited."""

    id: int
    source: str
    item: str
    job_id: JobId | None
    fence: int | None
    pipeline: str
    batch_id: BatchId | None
    state: str
    title: str | None
    reason: str | None
    proposal: str | None
    label: str | None
    version: str | None
    confidence: float | None
    margin: float | None
    evidence: str | None
    created_at: datetime
    settled_at: datetime | None
    leased_by: str | None
    leased_until: datetime | None

    @property
    def name(self) -> str:
        """What people call it."""
        return self.title or f"{self.pipeline} {self.item}"


@dataclass(frozen=True, slots=True)
class Held(Review):
    """A review under lock, with its job: *taken* when somebody else looks at it now."""

    job_state: str | None
    job_fence: int | None
    taken: bool


@dataclass(frozen=True, slots=True)
class Reviewing:
    """A review that somebody has leased, and what they see of it."""

    review: Review
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Something that an extension says is in doubt, *since* when."""

    item: str
    pipeline: str
    since: datetime
    job_id: int | None = None
    batch_id: int | None = None
    title: str | None = None
    reason: str | None = None
    proposal: str | None = None
    label: str | None = None
    version: str | None = None
    confidence: float | None = None
    margin: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """A decision that is being made, as an extension applies it. *value* is the JSON of the result, or None."""

    kind: DecisionKind
    value: str | None
    who: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided; *undone_by* is the row that undid it."""

    id: int
    key: str
    review_id: int
    source: str
    item: str
    job_id: JobId | None
    fence: int | None
    pipeline: str
    batch_id: BatchId | None
    who: str
    name: str | None
    at: datetime
    kind: DecisionKind
    proposed: str | None
    decided: str | None
    label: str | None
    decided_label: str | None
    version: str | None
    confidence: float | None
    margin: float | None
    note: str | None
    seconds: float | None
    undoes: int | None
    undone_by: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", DecisionKind(self.kind))


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many reviews of a pipeline and a label wait, and how many of them are being looked at."""

    pipeline: str
    label: str | None
    waiting: int
    taken: int


@dataclass(frozen=True, slots=True)
class Agreed:
    """Of the proposals with one label and version, and a confidence in one tenth: how many people kept."""

    pipeline: str
    label: str | None
    version: str | None
    tenth: int | None
    decided: int
    agreed: int
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often people kept what was proposed."""

    rows: Sequence[Agreed] = field(default_factory=list)

    @property
    def decided(self) -> int:
        """Decisions that count."""
        return sum(each.decided for each in self.rows)

    @property
    def agreed(self) -> int:
        """Those that kept the proposal."""
        return sum(each.agreed for each in self.rows)

    def by_label(self) -> list[Agreed]:
        """One row for each pipeline, label and version."""
        keys = dict.fromkeys((each.pipeline, each.label, each.version) for each in self.rows)
        return [
            _together(
                Agreed(pipeline, label, version, None, 0, 0, None),
                [each for each in self.rows if (each.pipeline, each.label, each.version) == (pipeline, label, version)],
            )
            for pipeline, label, version in keys
        ]

    def by_tenth(self) -> list[Agreed]:
        """One row for each tenth of the confidence, of those that have one."""
        tenths = sorted({each.tenth for each in self.rows if each.tenth is not None})
        return [
            _together(Agreed("", None, None, tenth, 0, 0, None), [each for each in self.rows if each.tenth == tenth])
            for tenth in tenths
        ]


def _together(place: Agreed, some: Sequence[Agreed]) -> Agreed:
    return replace(
        place,
        decided=sum(each.decided for each in some),
        agreed=sum(each.agreed for each in some),
        confidence=_mean(some),
    )


def _mean(rows: Sequence[Agreed]) -> float | None:
    known = [each for each in rows if each.confidence is not None]
    weight = sum(each.decided for each in known)
    return sum((each.confidence or 0) * each.decided for each in known) / weight if weight else None
