"""How an execution reads on its page: why it does not move, how long it still takes, what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retoma.batch import BatchState, Event, Progress
from retoma.evidence import Explanation
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Execution
from retoma.web.pages.classifier_desk import Say
from retoma.web.words import phrases

LINES = 200
"""Events that the log shows."""
_NAMED = 3
_HOUR, _TWO_MINUTES, _MINUTE = 3600, 120, 60
_UNSAID = ("person", "local", "environment")
_SITUATIONS = {
    "waiting": "waiting",
    "saturated": "saturated",
    "queue_paused": "paused",
    "no_workers": "no_workers",
    "budget": "budget",
}


def span(seconds: float) -> str:
    """A stretch of time as people say it; the same in both languages."""
    whole = round(seconds)
    if whole < _TWO_MINUTES:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // _HOUR} h" + (f" {whole % _HOUR // 60} min" if whole % _HOUR // 60 else "")


def long_span(seconds: float) -> str:
    """The same where nobody wants the seconds: whole minutes from the first one on."""
    return f"{int(seconds)} s" if seconds < _MINUTE else f"{int(seconds // _MINUTE)} min"


def eta_of(pace: Progress, say: Say) -> str | None:
    """What is left, as a range; nothing while it does not run, or while that would be a guess."""
    if pace.state is not BatchState.RUNNING or pace.eta is None or pace.done == pace.total:
        return None
    least, most = (each.total_seconds() for each in pace.eta)
    return say("exec.eta_one" if least == most else "exec.eta", least=span(least), most=span(most))


def cause_of(verdict: str | None, facts: Mapping[str, Any], say: Say) -> str:
    """Why nothing moves, in the language of the page."""
    key = f"cause.{verdict}"
    if key not in phrases("en"):
        return say("cause.unknown")
    unknown = "?"
    values = {
        "lost_time": _clock(facts.get("lost_at")),
        "next_time": _clock(facts.get("next_run_at")),
        "oldest": span(float(facts.get("oldest_seconds") or 0)),
        **facts,
    }
    return say(key, **_Filled(values, unknown))


class _Filled(dict[str, Any]):
    """Facts for a phrase: what is not known reads as a question mark, and no fact chooses another phrase."""

    _NAMES = ("queue", "lost_worker", "lost_time", "suspect_key", "suspect_crashes", "bad_endings", "running",
              "workers", "oldest_key", "oldest", "queue_paused", "next_time", "spent", "budget")  # fmt: skip

    def __init__(self, facts: Mapping[str, Any], unknown: str) -> None:
        super().__init__({name: facts.get(name, unknown) for name in self._NAMES})


def _clock(at: object) -> str:
    return datetime.fromisoformat(at).strftime("%H:%M:%S UTC") if isinstance(at, str) else "?"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an execution does not go on: the cause, what helps, and the words of the error itself."""

    cause: str
    help: str | None
    detail: str | None


def trouble_of(run: Execution, say: Say) -> Trouble:
    """What the watchdog found when it called the execution stalled."""
    facts = run.cause or {}
    key = f"cause_next.{run.reason}"
    return Trouble(
        cause=cause_of(run.reason, facts, say),
        help=say(key) if key in phrases("en") else None,
        detail=facts.get("bad_error"),
    )


def wants_explanation(run: Execution, pace: Progress) -> bool:
    """Whether it is worth asking why: it waits, or nothing has ended for half of what is allowed."""
    if run.state in (BatchState.QUEUED, BatchState.PAUSED):
        return True
    return run.state is BatchState.RUNNING and (pace.silent_seconds or 0) >= run.stall_seconds / 2


def situation_of(explained: Explanation | None, say: Say) -> str | None:
    """What explains the wait of an execution that has not stalled."""
    if explained is None:
        return None
    if explained.verdict == "slow":
        return say("exec.slow")
    name = _SITUATIONS.get(explained.verdict)
    if name == "waiting" and "RateLimited" in str(explained.evidence.get("next_reason")):
        name = "rate_limited"
    if name is None:
        return None
    told = cause_of(name, explained.evidence, say)
    return told[:1].upper() + told[1:]


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
    events = await library.app.events(run.id, after=max(0, run.event_seq - LINES), limit=LINES * 2)
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


def _lines(event: Event, named: Mapping[int, str], say: Say) -> list[Line]:
    if event.kind != "jobs":
        return [Line(event.seq, event.at, "batch", event.kind, _told(event, say))]
    by_state: dict[str, list[int]] = {}
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
