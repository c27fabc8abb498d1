"""Which checkpoints can be used to go on: looked at from the newest to the oldest, each with its verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from retoma.pipelines.books.contract import Checkpoint
from retoma.pipelines.books.verdicts import ANY, Expected, Verdict, judge

Outcome = Literal["no_checkpoint", "none_valid", "resumable", "complete"]
"""What a search comes to. ``no_checkpoint`` and ``none_valid`` begin at the first chapter."""

_OLDEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What may be a checkpoint: its bytes, or why they could not be read."""

    name: str
    body: bytes = b""
    unread: Verdict | None = None
    chapter_number: str | None = None
    """The chapter that its name or its row says."""
    written_at: datetime | None = None
    """When it was written, as far as its holder knows; for those that do not say it themselves."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate and the verdict on it."""

    candidate: Candidate
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Search:
    """What was found, in the order in which it was looked at."""

    judged: tuple[Judged, ...]
    outcome: Outcome
    usable: dict[str, Checkpoint]
    """The newest valid checkpoint of each chapter."""
    unprocessed: tuple[str, ...]
    """Every chapter of the plan without a valid checkpoint, in the order of the book; gaps, too."""

    @property
    def last_valid(self) -> Checkpoint | None:
        """The newest that is valid."""
        return next((each.verdict.checkpoint for each in self.judged if each.verdict.checkpoint), None)

    @property
    def invalid(self) -> tuple[Judged, ...]:
        """Those that were set aside."""
        return tuple(each for each in self.judged if not each.verdict.valid)

    @property
    def next_chapter(self) -> str | None:
        """Where the work goes on; None when it is complete."""
        return self.unprocessed[0] if self.unprocessed else None


def search(candidates: Iterable[Candidate], *, chapters: Sequence[str] = (), expected: Expected = ANY) -> Search:
    """Judge *candidates*, newest first. *chapters* are those of the plan, in order.

    One that is invalid is never used, and the next older one takes its place.
    """
    ordered = sorted(candidates, key=_age, reverse=True)
    judged = tuple(Judged(each, _judged(each, expected)) for each in ordered)
    usable: dict[str, Checkpoint] = {}
    for each in judged:
        if each.verdict.checkpoint is not None:
            usable.setdefault(each.verdict.checkpoint.chapter_number, each.verdict.checkpoint)
    unprocessed = tuple(number for number in chapters if number not in usable)
    return Search(judged, _outcome(judged, usable, chapters, unprocessed), usable, unprocessed)


def _outcome(
    judged: Sequence[Judged], usable: dict[str, Checkpoint], chapters: Sequence[str], unprocessed: Sequence[str]
) -> Outcome:
    if not judged:
        return "no_checkpoint"
    if not usable:
        return "none_valid"
    return "complete" if chapters and not unprocessed else "resumable"


def _judged(candidate: Candidate, expected: Expected) -> Verdict:
    if candidate.unread is not None:
        return candidate.unread
    if candidate.chapter_number is not None:
        expected = replace(expected, chapter_number=candidate.chapter_number)
    return judge(candidate.body, expected)


def _age(candidate: Candidate) -> tuple[datetime, str]:
    """When the checkpoint says it was saved, whether or not it is valid; else when it was written."""
    with suppress(ValueError, TypeError, KeyError, RecursionError, OverflowError):
        said = datetime.fromisoformat(json.loads(candidate.body)["timestamp_checkpoint"])
        return (said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)), candidate.name
    return candidate.written_at or _OLDEST, candidate.name
