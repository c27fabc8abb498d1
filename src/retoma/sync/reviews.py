"""The review desk of an app: what waits for a person, and what people decided."""

# Made by tools/sync.py from app/reviews.py; change that one.

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypedDict, Unpack

from retoma.commands import decisions as decision_commands
from retoma.commands import reviews as review_commands
from retoma.commands.jobs import only
from retoma.commands.options import refuse_unknown
from retoma.commands.reviews import LEASE_SECONDS, Desk, Person, Said
from retoma.model import validation
from retoma.model.review import Agreement, Decision, Review, Reviewing, Waiting
from retoma.store import reviews
from retoma.store.query import Command
from retoma.store.reviews import ReviewFilter
from retoma.sync.runner import Runner
from retoma.telemetry import emit
from retoma.telemetry.events import ReviewDecided

_PIECE = 500


class Which(TypedDict, total=False):
    """Which reviews, or the decisions on them; what is not said does not filter."""

    pipeline: str | None
    pipelines: Sequence[str] | None
    """Those that the caller may see."""
    batch_id: int | None
    label: str | None


class By(TypedDict, total=False):
    """Who decides, and what they say with it."""

    name: str | None
    """What people call them."""
    holder: str
    """Whose lease it is, where one person sits at two desks."""
    key: str | None
    """The same key is the same decision, however often it is sent."""
    note: str | None
    seconds: float | None
    """How long the person took."""
    conn: object


class Reviews:
    """What waits for a person: lease it, decide it once, undo it, and compare people with proposals."""

    def __init__(self, run: Runner, desk: Callable[[], Desk]) -> None:
        self._run = run
        self._desk = desk

    # — looking —

    def next(
        self,
        who: str,
        *,
        limit: int = 1,
        seconds: float = LEASE_SECONDS,
        holder: str = "",
        conn: object = None,
        **which: Unpack[Which],
    ) -> list[Reviewing]:
        """Lease the next reviews, those with the lowest margin first, each with its evidence. Nobody else gets them for
        that many *seconds*; ``renew`` begins them anew. Who asks again gets what they have first.
        """
        person = Person(who=who, holder=holder)
        return self._run.ask(
            review_commands.following(self._desk(), person, _wanted(which), limit=limit, seconds=seconds), conn
        )

    def get(self, id: int, *, conn: object = None) -> Reviewing:
        """A review, whatever its state, with its evidence."""
        return self._run.ask(review_commands.shown(self._desk(), id), conn)

    def find(
        self,
        *,
        job_id: int | None = None,
        after: tuple[float | None, int] | None = None,
        limit: int = 50,
        **which: Unpack[Which],
    ) -> list[Review]:
        """What waits, the lowest margin first, *after* the margin and id of the last one seen."""
        validation.page("reviews", limit)
        self._run.ask(review_commands.gather_some(self._desk()))
        return self._run.ask(only(reviews.page(_wanted(which), job_id=job_id, after=after, limit=limit)))

    def counts(self, **which: Unpack[Which]) -> list[Waiting]:
        """How many wait, by pipeline and label."""
        self._run.ask(review_commands.gather_some(self._desk()))
        return self._run.ask(only(reviews.counts(_wanted(which))))

    def renew(
        self, who: str, ids: Iterable[int] | None = None, *, seconds: float = LEASE_SECONDS, holder: str = ""
    ) -> list[int]:
        """Keep what one has leased; returns the ids of those that one still has."""
        person = Person(who=who, holder=holder)
        return self._run.ask(review_commands.renew(person, None if ids is None else list(ids), seconds=seconds))

    def skip(self, id: int, who: str, *, holder: str = "", conn: object = None) -> bool:
        """Give a review back; it comes to this person again after all others. False when it was not theirs."""
        person = Person(who=who, holder=holder)
        return bool(self._run.ask(review_commands.release(person, [id], skip=True), conn))

    def release(self, who: str, *, holder: str = "") -> list[int]:
        """Give everything back that one has leased."""
        return self._run.ask(review_commands.release(Person(who=who, holder=holder), None, skip=False))

    # — deciding —

    def accept(self, id: int, who: str, **by: Unpack[By]) -> Decision:
        """The proposal becomes the result, in one transaction and once."""
        person, said = _by(who, by)
        return self._decided(decision_commands.accept(self._desk(), id, person, said), by)

    def correct(self, id: int, value: Any, who: str, *, label: str | None = None, **by: Unpack[By]) -> Decision:
        """*value* becomes the result, if it fits the pipeline's output; *label* names it in one word."""
        person, said = _by(who, by)
        text = json.dumps(value, ensure_ascii=False)
        validation.text("label", label)
        return self._decided(decision_commands.correct(self._desk(), id, text, person, said, label=label), by)

    def reject(self, id: int, who: str, *, retry: bool = False, **by: Unpack[By]) -> Decision:
        """There is no result: the job fails, or with *retry* it is tried again."""
        person, said = _by(who, by)
        return self._decided(decision_commands.reject(self._desk(), id, person, said, retry=retry), by)

    def undo(self, who: str, id: int | None = None, **by: Unpack[By]) -> Decision:
        """Undo one's last decision, or one's decision *id*: its thing waits again."""
        person, said = _by(who, by)
        command = decision_commands.undo(self._desk(), person, said, id=id, seconds=LEASE_SECONDS)
        return self._decided(command, by)

    def _decided(self, command: Command[Decision], by: By) -> Decision:
        decision = self._run.transact(command, by.get("conn"))
        emit(
            ReviewDecided(
                review=decision.review_id,
                decision=decision.id,
                job=decision.job_id,
                pipeline=decision.pipeline,
                batch=decision.batch_id,
                kind=str(decision.kind),
                who=decision.who,
            )
        )
        return decision

    # — what was decided —

    def decisions(
        self,
        *,
        review_id: int | None = None,
        who: str | None = None,
        standing: bool = False,
        before: int | None = None,
        limit: int = 50,
        **which: Unpack[Which],
    ) -> list[Decision]:
        """Who decided what, the newest first; with *standing* without those that were undone."""
        validation.page("decisions", limit)
        query = reviews.decisions(
            _wanted(which), review_id=review_id, who=who, standing=standing, before=before, limit=limit
        )
        return self._run.ask(only(query))

    def export(self, **which: Unpack[Which]) -> Iterator[Decision]:
        """Every decision, the oldest first."""
        after: int = 0
        while some := self._run.ask(only(reviews.export(_wanted(which), after=after, limit=_PIECE))):
            yield from some
            after = some[-1].id

    def agreement(self, **which: Unpack[Which]) -> Agreement:
        """How often people kept what was proposed: by label and version, and by confidence."""
        return self._run.ask(review_commands.agreement(_wanted(which)))


def _wanted(which: Which) -> ReviewFilter:
    refuse_unknown(which, Which, "A look at reviews")
    return ReviewFilter(**which)


def _by(who: str, by: By) -> tuple[Person, Said]:
    refuse_unknown(by, By, "A decision")
    person = Person(who=who, name=by.get("name"), holder=by.get("holder", ""))
    return person, Said(key=by.get("key"), note=by.get("note"), seconds=by.get("seconds"))
