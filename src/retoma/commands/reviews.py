"""Commands of the review desk: find what waits, lease it, and show it. What is decided is in ``decisions``.

An extension brings an adapter for what it calls doubtful; a job in review needs none.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from retoma.errors import NotFound
from retoma.model import validation
from retoma.model.review import (
    JOB,
    Agreement,
    Choice,
    Decision,
    Doubt,
    Evidence,
    Review,
    Reviewing,
    Settling,
)
from retoma.run.pipeline import Pipeline
from retoma.store import jobs, reviews
from retoma.store.query import Command, Query
from retoma.store.reviews import ReviewFilter

LEASE_SECONDS = 60.0
"""How long somebody has a review without a sign of life."""

_AT_A_TIME = 500
_GATHER_SECONDS = 2.0
_MOST_LEASED = 50


class Adapter(Protocol):
    """What an extension offers to the desk. Its commands run in the transaction of the decision."""

    owns_jobs: bool
    """Whether the thing in doubt is the result of its job, so that the decision becomes the job's output."""
    jobs_of: tuple[str, ...]
    """Pipelines whose jobs wait in review for a go-ahead: an accepted one starts over and finds what was decided."""

    def doubts(self, limit: int) -> Query[Doubt] | None:
        """Things in doubt that no open review names yet, the oldest first; None when only jobs wait."""

    def show(self, review: Review) -> Command[Evidence | None]:
        """What a person sees of it; None when it needs no review any more."""

    def settle(self, review: Review, settling: Settling) -> Command[str | None]:
        """Apply a decision, and return the label of the result. Raises Conflict when it is in doubt no more, and
        ConfigurationError when the value does not fit.
        """

    def undo(self, review: Review, decision: Decision) -> Command[None]:
        """Put back what was there before *decision*. Raises Conflict when it has changed since."""


@dataclass(slots=True)
class Desk:
    """What the commands need to know of an app, and when this program last asked its extensions for doubts."""

    adapters: Mapping[str, Adapter]
    pipelines: Mapping[str, Pipeline[Any, Any]]
    gathered_at: float = -math.inf

    @property
    def sources(self) -> list[str]:
        """Where the reviews come from that this program can decide."""
        return [JOB, *self.adapters]

    def adapter(self, review: Review) -> Adapter | None:
        """Who knows about *review*; nobody but the engine about most jobs."""
        if review.source != JOB:
            return self.adapters.get(review.source)
        return next((each for each in self.adapters.values() if review.pipeline in each.jobs_of), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who decides; *holder* is whose lease it is, where one person sits at two desks."""

    who: str
    name: str | None = None
    holder: str = ""

    @property
    def lease(self) -> str:
        """The name on the lease."""
        return self.holder or self.who


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What somebody says with a decision. The same *key* is the same decision."""

    key: str | None = None
    note: str | None = None
    seconds: float | None = None


def gather(desk: Desk) -> Command[int]:
    """File what the extensions say is in doubt; returns how many are new."""
    filed = 0
    desk.gathered_at = time.monotonic()
    for source, adapter in desk.adapters.items():
        ask = adapter.doubts(_AT_A_TIME)
        found: list[Doubt] = [] if ask is None else (yield ask)
        if found:
            filed += len((yield reviews.file(source, found)))
    return filed


def gather_some(desk: Desk) -> Command[bool]:
    """The same, unless this program has just done it; whether it was done."""
    due = time.monotonic() - desk.gathered_at >= _GATHER_SECONDS
    if due:
        yield from gather(desk)
    return due


def following(
    desk: Desk, person: Person, wanted: ReviewFilter, *, limit: int, seconds: float
) -> Command[list[Reviewing]]:
    """Lease the next reviews for *person*: those they have already, then those with the lowest margin. What they
    skipped comes when nothing else is left.
    """
    validation.whole("limit", limit, 1, _MOST_LEASED)
    validation.seconds("seconds", seconds)
    wanted = replace(wanted, sources=desk.sources)
    mine: list[Review] = yield reviews.mine(person.lease, wanted, seconds=seconds)
    found = yield from _seen(desk, sorted(mine, key=_doubtful)[:limit])
    gathered = yield from gather_some(desk)
    for skipped in (False, True):
        while len(found) < limit:
            have: list[Review] = yield reviews.lease(
                person.lease, wanted, seconds=seconds, limit=limit - len(found), skipped=skipped
            )
            if not have and not gathered:
                gathered = True
                yield from gather(desk)
            elif not have:
                break
            found += yield from _seen(desk, sorted(have, key=_doubtful))
    return found


def _seen(desk: Desk, some: Sequence[Review]) -> Command[list[Reviewing]]:
    """Those of *some* that are still in doubt, with their evidence."""
    found = []
    for each in some:
        shown = yield from evidence_of(desk, each)
        if shown is not None:
            found.append(Reviewing(each, shown))
    return found


def _doubtful(review: Review) -> tuple[bool, float, int]:
    return review.margin is None, review.margin or 0.0, review.id


def evidence_of(desk: Desk, review: Review) -> Command[Evidence | None]:
    """What a person sees of *review*; None, and it is closed, when it needs no review any more."""
    adapter = desk.adapter(review)
    if review.source == JOB and adapter is None:
        return (yield from _shown_job(review))
    shown = None if adapter is None else (yield from adapter.show(review))
    if shown is None and adapter is not None and review.state == "open":
        yield reviews.close(review.id, gone=True)
    return shown


def _shown_job(review: Review) -> Command[Evidence]:
    said: dict[str, Any] = json.loads(review.evidence) if review.evidence else {}
    choices = tuple(Choice(each["label"], each["value"]) for each in said.get("choices", ()))
    text = said.get("text")
    if text is None and review.job_id is not None:
        rows = yield jobs.one(review.job_id)
        text = rows[0].input if rows else None
    return Evidence(text=text, passage=said.get("passage"), choices=choices)


def shown(desk: Desk, id: int) -> Command[Reviewing]:
    """A review, whatever its state, with what a person sees of it."""
    review = yield from _one(id)
    return Reviewing(review, (yield from evidence_of(desk, review)) or Evidence())


def _one(id: int) -> Command[Review]:
    rows: list[Review] = (yield reviews.one(id)) if validation.is_id(id) else []
    if not rows:
        raise not_found(id)
    return rows[0]


def not_found(id: int) -> NotFound:
    """The error for a review that is not there."""
    return NotFound(f"There is no review {id}.", next="'retoma review list' shows what waits for a person.")


def renew(person: Person, ids: Sequence[int] | None, *, seconds: float) -> Command[list[int]]:
    """Begin the leases of *person* anew; returns those that are still theirs."""
    validation.seconds("seconds", seconds)
    rows: list[Review] = yield reviews.mine(person.lease, ReviewFilter(), seconds=seconds, ids=ids)
    return [each.id for each in rows]


def release(person: Person, ids: Sequence[int] | None, *, skip: bool) -> Command[list[int]]:
    """Give reviews back to the others."""
    rows: list[int] = yield reviews.release(person.lease, ids, skip=skip)
    return rows


def agreement(wanted: ReviewFilter) -> Command[Agreement]:
    """How often people kept what was proposed."""
    return Agreement((yield reviews.agreement(wanted)))
