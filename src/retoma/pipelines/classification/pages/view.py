"""How an execution reads on its page: why it does not move, how long it still takes, what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from retoma.model.batch import BatchState, Event, Progress
from retoma.model.evidence import Explanation
from retoma.model.ids import JobId
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Execution
from retoma.pipelines.classification.pages.context import Say
from retoma.web.words import phrases
from retoma.web.words.causes import cause_of, help_of, span, words_of

LINES = 200
"""Events that the log shows."""
_NAMED = 3
_MINUTE = 60
_UNSAID = ("person", "local", "environment")
_SITUATIONS = frozenset(
    {"slow", "ready", "waiting", "saturated", "queue_paused", "no_workers", "budget", "price_unknown", "refused",
     "provider_down", "rate_limited", "failing", "worker_lost"}
)  # fmt: skip


def long_span(seconds: float) -> str:
    """The same where nobody wants the seconds: whole minutes from the first one on."""
    return f"{int(seconds)} s" if seconds < _MINUTE else f"{int(seconds // _MINUTE)} min"


def eta_of(pace: Progress, say: Say) -> str | None:
    """What is left, as a range; nothing while it does not run, or while that would be a guess."""
    if pace.state is not BatchState.RUNNING or pace.eta is None or pace.done == pace.total:
        return None
    least, most = (each.total_seconds() for each in pace.eta)
    return say("exec.eta_one" if least == most else "exec.eta", least=span(least), most=span(most))


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an execution does not go on: the cause, what helps, and the words of the error itself."""

    cause: str
    help: str | None
    detail: str | None


def trouble_of(run: Execution, say: Say) -> Trouble:
    """What the watchdog found when it called the execution stalled."""
    facts = run.cause or {}
    return Trouble(cause_of(run.reason, facts, say), help_of(run.reason, facts, say), words_of(facts))


def wants_explanation(run: Execution, pace: Progress) -> bool:
    """Whether it is worth asking why: nothing of it is at work, nothing ends any more, or nothing has for half of what
    is allowed.
    """
    if run.state in (BatchState.QUEUED, BatchState.PAUSED):
        return True
    quiet = not pace.running or pace.nothing_ends or (pace.silent_seconds or 0) >= run.stall_seconds / 2
    return run.state is BatchState.RUNNING and quiet


@dataclass(frozen=True, slots=True)
class Situation:
    """What explains the wait of an execution that has not stalled; *alarming* when it will not go on by itself."""

    told: str
    help: str | None
    detail: str | None
    alarming: bool


def situation_of(explained: Explanation | None, say: Say) -> Situation | None:
    """Why it waits, if there is more to say than that it does."""
    if explained is None or explained.verdict not in _SITUATIONS:
        return None
    facts = explained.evidence
    told = cause_of(explained.verdict, facts, say)
    detail = words_of(facts) if explained.needs_help else None
    return Situation(
        told[:1].upper() + told[1:],
        help_of(explained.verdict, facts, say) if explained.needs_help else None,
        detail,
        explained.needs_help,
    )


# — the log —


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the log; *kind* and *state* choose its look."""

    seq: int
    at: datetime
    kind: str
    state: str
    text: str


async def log_of(library: Classification, run: Execution, say: Say) -> list[Line]:
    """The newest events of an execution, the newest first."""
    events = await library.app.batches.events(run.id, after=max(0, run.event_seq - LINES), limit=LINES * 2)
    wanted = {job for event in events if event.kind == "jobs" for job in _first_of_each(event.data["jobs"])}
    named = {}
    if wanted:
        found = await library.results(run.id, jobs=sorted(wanted), limit=len(wanted))
        named = {each.job_id: each.filename or each.code for each in found}
    lines = [line for event in events for line in _lines(event, named, say)]
    return lines[::-1][:LINES]


def _first_of_each(jobs: Sequence[tuple[int, str]]) -> set[int]:
    """The jobs that a line will name."""
    by_state: dict[str, list[int]] = {}
    for id, state in jobs:
        by_state.setdefault(state, []).append(id)
    return {id for ids in by_state.values() for id in ids[:_NAMED]}


def _lines(event: Event, named: Mapping[JobId, str], say: Say) -> list[Line]:
    if event.kind != "jobs":
        return [Line(event.seq, event.at, "batch", event.kind, _told(event, say))]
    by_state: dict[str, list[JobId]] = {}
    for id, state in event.data["jobs"]:
        by_state.setdefault(state, []).append(id)
    lines = []
    for state, ids in by_state.items():
        names = ", ".join(named.get(id, f"#{id}") for id in ids[:_NAMED])
        if len(ids) > _NAMED:
            names = say("classifier.log.more", names=names, n=len(ids) - _NAMED)
        lines.append(Line(event.seq, event.at, "job", state, say(f"classifier.log.jobs_{state}", names=names)))
    return lines


def _told(event: Event, say: Say) -> str:
    """What happened to the execution as a whole."""
    data, why = event.data, event.data.get("why")
    if event.kind == "stalled":
        return say("classifier.log.stalled", causa=cause_of(why, data.get("cause") or {}, say))
    if event.kind == "running" and why is None and data.get("before") == "queued":
        why = "queued"
    by = data.get("by")
    values = {
        "total": data.get("total"),
        "by": say("classifier.log.nobody") if by in _UNSAID else by,
        "kind": event.kind,
    }
    for key in (f"classifier.log.{event.kind}_{why}", f"classifier.log.{event.kind}"):
        if key in phrases("en"):
            return say(key, **values)
    return say("classifier.log.other", **values)
