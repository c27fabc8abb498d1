"""Lists of chapters that are in doubt, at the review desk."""

from __future__ import annotations

import json
from dataclasses import dataclass

from retoma.errors import ConfigurationError, Conflict
from retoma.model.review import Decision, DecisionKind, Doubt, Evidence, Review, Settling
from retoma.pipelines.books import sessions
from retoma.pipelines.books.pipeline import NAME
from retoma.pipelines.books.remarks import all_said, of_values
from retoma.store.query import Command, Query, load

SQL = load("retoma.pipelines.books.queries", "desk.sql")


@dataclass(frozen=True, slots=True)
class Seen:
    """A session whose chapters are in doubt."""

    id: str
    title: str
    doubts: str
    chapters: str


def seen(job_id: int) -> Query[Seen]:
    return Query(SQL["seen"], Seen, {"job_id": job_id})


def withdraw(job_id: int) -> Query[str]:
    return Query(SQL["withdraw"], str, {"job_id": job_id})


class DoubtfulChapters:
    """The adapter of books for the review desk. An accepted list lets the book go on; it is changed on its own page."""

    owns_jobs = False
    jobs_of = (NAME,)

    def doubts(self, limit: int) -> Query[Doubt] | None:  # noqa: ARG002 - as the desk asks
        """None: the jobs of the sessions wait in review by themselves."""
        return None

    def show(self, review: Review) -> Command[Evidence | None]:
        """How each chapter begins, and what is doubtful about the list."""
        rows: list[Seen] = [] if review.job_id is None else (yield seen(review.job_id))
        if not rows:
            return None
        found = rows[0]
        facts = [
            ("book", found.title),
            *(("doubt", each) for each in all_said(of_values(json.loads(found.doubts)), "en")),
        ]
        return Evidence(text=found.chapters, link=f"/books/{found.id}/review", facts=tuple(facts))

    def settle(self, review: Review, settling: Settling) -> Command[str | None]:
        """Accept the list as it stands; the engine then lets the job start over, and nothing is read again."""
        rows: list[Seen] = [] if review.job_id is None else (yield seen(review.job_id))
        if not rows:
            raise Conflict("The chapters of this book need no review any more.", next="Take the next one.")
        if settling.kind is DecisionKind.CORRECT:
            raise ConfigurationError(
                "A list of chapters is changed on the page of its book.",
                next=f"Open /books/{rows[0].id}/review, and accept it here or there.",
            )
        if settling.kind is DecisionKind.ACCEPT:
            yield sessions.approve(rows[0].id)
        return None

    def undo(self, review: Review, decision: Decision) -> Command[None]:
        """Put the doubt back, as long as no chapter is done."""
        if decision.kind is DecisionKind.ACCEPT and review.job_id is not None and not (yield withdraw(review.job_id)):
            raise Conflict(
                f"Decision {decision.id} cannot be undone: chapters of the book are done.",
                next="What has happened to it since stays.",
            )


REVIEWS = DoubtfulChapters()
