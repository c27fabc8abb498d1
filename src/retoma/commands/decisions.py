"""Commands that decide what waits for a person, and undo it.

A decision runs in one transaction: the review and its job are locked, the result is written, and the decision's row is
added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from retoma.commands import last_steps
from retoma.commands.reviews import Adapter, Desk, Person, Said, not_found
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model import validation
from retoma.model.job import JobState
from retoma.model.review import JOB, Decision, DecisionKind, Held, Settling
from retoma.store import jobs, reviews
from retoma.store.query import Command
from retoma.store.reviews import NewDecision, ReviewFilter
from retoma.values.codec import Misfit

_LONGEST_NOTE = 2000
_LONGEST_SITTING = 86_400.0

Result = Callable[[Desk, Held], tuple[str | None, str | None]]
"""Finds the JSON of a decision's result, and its label, from the review that is decided."""


def accept(desk: Desk, id: int, person: Person, said: Said) -> Command[Decision]:
    """The proposal becomes the result."""
    return (yield from _decide(desk, id, person, said, DecisionKind.ACCEPT, _accepted))


def correct(desk: Desk, id: int, value: str, person: Person, said: Said, *, label: str | None) -> Command[Decision]:
    """*value*, as JSON, becomes the result."""

    def corrected(desk: Desk, held: Held) -> tuple[str | None, str | None]:
        return _checked(desk, held, value), label

    return (yield from _decide(desk, id, person, said, DecisionKind.CORRECT, corrected))


def reject(desk: Desk, id: int, person: Person, said: Said, *, retry: bool) -> Command[Decision]:
    """There is no result: the job fails, or is tried again."""
    kind = DecisionKind.RETRY if retry else DecisionKind.REJECT
    return (yield from _decide(desk, id, person, said, kind, lambda _desk, _held: (None, None)))


def _accepted(desk: Desk, held: Held) -> tuple[str | None, str | None]:
    if held.proposal is None:
        raise ConfigurationError(
            f"Review {held.id} proposes nothing that could be accepted.", next="Correct it, or reject it."
        )
    if held.source == JOB and desk.adapter(held) is None and held.pipeline in desk.pipelines:
        try:
            desk.pipelines[held.pipeline].output.decode(held.proposal)
        except Misfit as misfit:
            raise ConfigurationError(
                f"The proposal of review {held.id} is not an output of {held.pipeline!r}: {misfit}.",
                next="Correct it instead.",
            ) from None
    return held.proposal, held.label


def _checked(desk: Desk, held: Held, value: str) -> str:
    """*value* as the output of the pipeline; an extension checks its own."""
    if held.source != JOB or desk.adapter(held) is not None:
        return value
    if held.pipeline not in desk.pipelines:
        raise ConfigurationError(
            f"This program does not have the pipeline {held.pipeline!r}, so nobody can check a value for it.",
            next="Correct it where the program is: retoma review correct --app MODULE:ATTRIBUTE.",
        )
    output = desk.pipelines[held.pipeline].output
    try:
        fits = output.decode(value, untrusted=True)
    except Misfit as misfit:
        raise ConfigurationError(
            f"This is not an output of {held.pipeline!r}: {misfit}.", next="Change the value, and decide again."
        ) from None
    return output.encode(fits, what=f"the correction of review {held.id}").text


def _decide(desk: Desk, id: int, person: Person, said: Said, kind: DecisionKind, result: Result) -> Command[Decision]:
    key = said.key or str(uuid4())
    _check(key, said, person)
    if not validation.is_id(id):
        raise not_found(id)
    held = yield from _held(id, person)
    before: list[Decision] = yield reviews.by_key(key)
    if before:
        return _same(before[0], id, kind)
    yield from _refuse_decided(held)
    value, label = result(desk, held)
    new = NewDecision(
        key=key,
        who=person.who,
        name=person.name,
        kind=kind,
        decided=value,
        decided_label=label,
        note=said.note,
        seconds=said.seconds,
    )
    applied = yield from _apply(desk, held, person, new)
    written = yield reviews.decide(id, replace(new, decided_label=applied))
    if not written:
        raise Conflict(f"The key {key!r} is that of another decision.", next="Decide with another key.")
    yield reviews.close(id)
    (decision,) = yield reviews.by_key(key)
    return decision  # type: ignore[no-any-return]


def _check(key: str, said: Said, person: Person) -> None:
    validation.text("decision key", key)
    validation.text("name of whoever decides", person.who)
    if said.note is not None and (len(said.note) > _LONGEST_NOTE or "\0" in said.note):
        raise ConfigurationError(f"A note has at most {_LONGEST_NOTE} characters and no NUL.")
    if said.seconds is not None and not 0 <= said.seconds <= _LONGEST_SITTING:
        raise ConfigurationError("The seconds of a decision are between 0 and a day.", next="Leave them out.")


def _held(id: int, person: Person) -> Command[Held]:
    rows: list[Held] = yield reviews.hold(id, person.lease)
    if not rows:
        raise not_found(id)
    return rows[0]


def _same(before: Decision, id: int, kind: DecisionKind) -> Decision:
    """The decision that was made with this key; the key of another one is refused."""
    if before.review_id != id or before.kind is not kind:
        raise Conflict(
            f"The key of this decision was used for another one: {before.kind} on review {before.review_id}.",
            next="Decide with another key.",
        )
    return before


def _refuse_decided(held: Held) -> Command[None]:
    if held.state == "settled":
        last: list[Decision] = yield reviews.decisions(ReviewFilter(), review_id=held.id, standing=True, limit=1)
        raise Conflict(_decided_already(held, last[0]) if last else f"Review {held.id} is settled already.")
    if held.state == "gone" or (
        held.source == JOB and (held.job_state != JobState.REVIEW or held.job_fence != held.fence)
    ):
        now = f"job {held.job_id} is {held.job_state or 'gone'}" if held.source == JOB else "it is in doubt no more"
        raise Conflict(f"Review {held.id} is no longer open: {now}.", next="Take the next one.")
    if held.taken:
        until = held.leased_until.isoformat(timespec="seconds") if held.leased_until else ""
        raise Conflict(
            f"Review {held.id} is being looked at by somebody else until {until}.", next="Take the next one."
        )


def _decided_already(held: Held, last: Decision) -> str:
    at = last.at.isoformat(timespec="seconds")
    return f"Review {held.id} was decided already: {last.name or last.who} chose {last.kind} at {at}."


def _apply(desk: Desk, held: Held, person: Person, new: NewDecision) -> Command[str | None]:
    """Move the job, and let the extension do its part; returns the label of the result."""
    adapter = desk.adapter(held)
    if adapter is None and held.source == JOB:
        yield from _move_job(held, person, new)
        return new.decided_label
    adapter = _adapter(desk, held)
    if adapter.owns_jobs and held.job_state not in _DONE:
        raise Conflict(
            f"Review {held.id} is no longer open: job {held.job_id} is {held.job_state or 'gone'}.",
            next="Take the next one.",
        )
    settling = Settling(kind=new.kind, value=new.decided, who=person.name or person.who, note=new.note)
    label: str | None = yield from adapter.settle(held, settling)
    if held.source == JOB or (adapter.owns_jobs and held.job_state == JobState.COMPLETED):
        yield from _move_job(held, person, new, waits=held.source == JOB)
    return label or new.decided_label


def _adapter(desk: Desk, held: Held) -> Adapter:
    found = desk.adapter(held)
    if found is None:
        raise ConfigurationError(
            f"This program does not have the extension {held.source!r}, which must apply the decision.",
            next="Decide where the program is.",
        )
    return found


def _move_job(held: Held, person: Person, new: NewDecision, *, waits: bool = False) -> Command[None]:
    """Move the job; one that *waits* for a go-ahead starts over when it has it."""
    assert held.job_id is not None
    assert held.job_fence is not None
    assert held.job_state is not None
    if new.kind is DecisionKind.RETRY:
        moved = yield (jobs.retry([held.job_id]) if held.source == JOB else jobs.restart(held.job_id))
    elif waits and new.kind is not DecisionKind.REJECT:
        moved = yield jobs.restart(held.job_id)
    else:
        rejected = new.kind is DecisionKind.REJECT
        why = f"{person.name or person.who} rejected it in review" + (f": {new.note}" if new.note else ".")
        moved = yield reviews.settle(
            held.job_id,
            held.job_fence,
            was=held.job_state,
            state=JobState.FAILED if rejected else JobState.COMPLETED,
            output=held.proposal if rejected else new.decided,
            reason="rejected" if rejected else None,
            error=why if rejected else None,
        )
    if not moved:
        raise Conflict(f"Job {held.job_id} cannot be moved: its batch is being deleted.", next="Take the next one.")
    if held.batch_id is not None:
        yield from last_steps.follow([held.batch_id])


_DONE = (JobState.COMPLETED, JobState.SKIPPED)
_LEFT = {
    DecisionKind.ACCEPT: JobState.COMPLETED,
    DecisionKind.CORRECT: JobState.COMPLETED,
    DecisionKind.REJECT: JobState.FAILED,
    DecisionKind.RETRY: JobState.QUEUED,
}
"""The state in which each decision leaves its job."""


def undo(desk: Desk, person: Person, said: Said, *, id: int | None, seconds: float) -> Command[Decision]:
    """Undo the last decision of *person*, or their decision *id*: its thing waits again, and is theirs to look at."""
    key = said.key or str(uuid4())
    _check(key, said, person)
    before: list[Decision] = yield reviews.by_key(key)
    if before:
        return _same(before[0], before[0].review_id, DecisionKind.UNDO)
    last = yield from _last(person, id)
    held = yield from _held(last.review_id, person)
    # The same undo, sent twice at once, may have been waited for here.
    before = yield reviews.by_key(key)
    if before:
        return _same(before[0], before[0].review_id, DecisionKind.UNDO)
    standing: list[Decision] = yield reviews.decisions(ReviewFilter(), review_id=held.id, standing=True, limit=1)
    if not standing or standing[0].id != last.id:
        raise Conflict(f"Decision {last.id} was undone, or another one came after it.", next="Look at the decisions.")
    adapter = desk.adapter(held)
    if held.source == JOB:
        waits = adapter is not None and last.kind is not DecisionKind.REJECT
        yield from _moved_back(held, last, JobState.REVIEW, was=JobState.QUEUED if waits else _LEFT[last.kind])
    elif _adapter(desk, held).owns_jobs and held.job_state != JobState.SKIPPED:
        yield from _moved_back(held, last, JobState.COMPLETED, was=_LEFT[last.kind])
    if adapter is not None:
        yield from adapter.undo(held, last)
    opened = yield reviews.reopen(held.id, person.lease, seconds=seconds)
    new = NewDecision(key=key, who=person.who, name=person.name, kind=DecisionKind.UNDO, note=said.note, undoes=last.id)
    if not opened or not (yield reviews.decide(held.id, new)):
        raise Conflict(f"Decision {last.id} was undone meanwhile.", next="Look at the decisions.")
    (decision,) = yield reviews.by_key(key)
    return decision  # type: ignore[no-any-return]


def _last(person: Person, id: int | None) -> Command[Decision]:
    mine: list[Decision] = yield reviews.decisions(
        ReviewFilter(), who=person.who, standing=True, before=None if id is None else id + 1, limit=1
    )
    if not mine or (id is not None and mine[0].id != id):
        raise NotFound(
            "There is no decision of yours that could be undone."
            if id is None
            else f"There is no decision {id} of yours that could be undone.",
            next="Only whoever decided can undo it, and only once.",
        )
    return mine[0]


def _moved_back(held: Held, last: Decision, state: JobState, *, was: JobState) -> Command[None]:
    """The job as it was before *last*, if it is as *last* left it."""
    moved: list[Any] = []
    same = held.job_fence == last.fence if held.source == JOB else last.kind is not DecisionKind.RETRY
    if held.state == "settled" and held.job_state == was and same:
        assert held.job_id is not None
        assert held.job_fence is not None
        moved = yield reviews.settle(
            held.job_id,
            held.job_fence,
            was=was,
            state=state,
            output=held.proposal,
            reason=held.reason if held.source == JOB else None,
            error=None,
        )
    if not moved:
        raise Conflict(
            f"Decision {last.id} cannot be undone: job {held.job_id} is {held.job_state or 'gone'} now.",
            next="What has happened to it since stays.",
        )
