"""How a batch reads on its page: how long it still takes and why, what keeps it, what can be done, what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retoma.model.batch import Batch, BatchState, Event, Progress
from retoma.model.evidence import Explanation
from retoma.web.console.speaking import Say, span
from retoma.web.words import phrases
from retoma.web.words.causes import cause_of, words_of

_FEW_JOBS, _FEW_SECONDS = 10, 15.0
_RESUMABLE = frozenset({BatchState.PAUSED, BatchState.STALLED, BatchState.FAILED})
_PAUSABLE = frozenset({BatchState.QUEUED, BatchState.RUNNING, BatchState.STALLED})
_NOBODY = frozenset({"person", "local", "environment"})
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Eta:
    """How long the rest takes, as a range, and what that rests on; or why nobody can say."""

    told: str
    why: str


def eta_of(now: Progress, say: Say) -> Eta:
    """The estimate of *now* in words."""
    if now.eta is not None and now.done < now.total:
        least, most = (each.total_seconds() for each in now.eta)
        key = "console.eta.about" if least == most else "console.eta.range"
        return Eta(say(key, least=span(round(least)), most=span(round(most))), say("console.eta.by_pace"))
    if now.state.ended or now.done == now.total:
        return Eta("", "")
    return Eta(say("console.eta.none"), say(f"console.eta.{_why_no_eta(now)}"))


def _why_no_eta(now: Progress) -> str:
    if now.state is not BatchState.RUNNING:
        return f"why_{now.state}"
    if now.nothing_ends:
        return "why_silent"
    few = now.done < _FEW_JOBS or (now.elapsed or 0.0) < _FEW_SECONDS
    return "why_few" if few else "why_uneven"


# — what can be done —


@dataclass(frozen=True, slots=True)
class Act:
    """A button: where it leads or what it sends; *why* it cannot be used, in a sentence, when it cannot."""

    name: str
    icon: str
    kind: str
    path: str
    why: str = ""
    sends: bool = True
    n: int = 0


def acts_of(batch: Batch, now: Progress, say: Say, *, may: bool) -> list[Act]:
    """What a person can do to the batch, each with the reason when not."""
    place = f"batches/{batch.id}"
    whys = {
        "resume": _why_no_resume(batch),
        "retry": _why_no_retry(batch, now),
        "pause": "" if batch.state in _PAUSABLE else f"pause_{batch.state}",
        "cancel": f"cancel_{batch.state}" if batch.state.ended else "",
    }
    looks = {
        "resume": ("play", "primary", False),
        "retry": ("again", "plain", True),
        "pause": ("pause", "plain", True),
        "cancel": ("stop", "danger", False),
    }
    acts = []
    for name, why in whys.items():
        icon, kind, sends = looks[name]
        told = say("console.batch.why.scope") if not may else say(f"console.batch.why.{why}") if why else ""
        n = now.retriable if name == "retry" else 0
        acts.append(Act(name, icon, kind, f"{place}/{name}", told, sends, n))
    return acts


def _why_no_resume(batch: Batch) -> str:
    if batch.sealed_at is None:
        return "resume_unsealed"
    if batch.state in _RESUMABLE:
        return ""
    return f"resume_{batch.state}"


def _why_no_retry(batch: Batch, now: Progress) -> str:
    if batch.operation_id is not None:
        return "retry_operation"
    return "" if now.retriable else "retry_none"


# — what keeps it —


@dataclass(frozen=True, slots=True)
class Stuck:
    """Why a batch stands still: the sentence, what to do, the facts, and what helps as a link or a form."""

    sentence: str
    advice: str
    command: str | None
    verdict: str
    facts: list[tuple[str, Any]]
    detail: str | None
    helps: str
    """"resume", "retry", or a page of the console; empty when one can only wait."""


_PAGES = {"start_worker": "workers", "resume_queue": "queues", "set_price": "costs", "raise_budget": "configuration",
          "release": "pilot"}  # fmt: skip
_FACTS = ("last_progress_at", "running", "queued", "due", "workers", "idle_workers", "orphaned", "lost_worker",
          "bad_endings", "troubled", "suspect_key", "suspect_crashes", "oldest_key", "oldest_seconds", "shut_limit",
          "shut_until", "call_status", "queue_paused")  # fmt: skip
_TIMES = frozenset({"last_progress_at", "shut_until"})
_ALWAYS = frozenset({"running", "queued", "workers"})


def wants_explanation(now: Progress) -> bool:
    """Whether it is worth asking why: it rests or waits, nothing of it is at work, or nothing ends any more."""
    if now.state in (BatchState.COMPLETED, BatchState.CANCELLED):
        return False
    if now.state is not BatchState.RUNNING:
        return True
    return not now.running or now.nothing_ends or (now.silent_seconds or 0.0) * 2 >= now.stall_seconds


def stuck_of(why: Explanation, *, content: bool) -> Stuck:
    """*why*, whose sentences are in the reader's language, as the panel shows it."""
    facts = why.evidence
    helps = {"retry_failed": "retry", "wait": "", "none": "", "seal": ""}.get(why.action, "resume")
    return Stuck(
        sentence=why.sentence,
        advice=why.advice,
        command=why.command,
        verdict=str(why.verdict),
        facts=[
            (name, _fact(name, facts[name])) for name in _FACTS if facts.get(name) or name in _ALWAYS & facts.keys()
        ],
        detail=words_of(facts) if content else None,
        helps=_PAGES.get(why.action, helps),
    )


def _fact(name: str, value: Any) -> Any:
    if name in _TIMES and isinstance(value, str):
        return datetime.fromisoformat(value)
    return span(value) if name == "oldest_seconds" else value


# — what happened —


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the timeline; *kind* and *state* choose its look."""

    seq: int
    at: datetime
    kind: str
    state: str
    text: str
    by: str


def lines_of(events: Sequence[Event], say: Say, *, content: bool) -> list[Line]:
    """*events* as lines, the newest first."""
    return [line for event in reversed(events) for line in _lines(event, say, content=content)]


def _lines(event: Event, say: Say, *, content: bool) -> list[Line]:
    by = str(event.data.get("by") or "")
    by = "" if by in _NOBODY else by
    if event.kind != "jobs":
        return [Line(event.seq, event.at, "batch", event.kind, _told(event, say, content=content), by)]
    states: dict[str, list[int]] = {}
    for id, state in event.data["jobs"]:
        states.setdefault(state, []).append(id)
    lines = []
    for state, ids in states.items():
        named = ", ".join(f"#{id}" for id in ids[:_NAMED]) + ("…" if len(ids) > _NAMED else "")
        text = say(f"console.batch.event.jobs_{state}", n=len(ids), names=named)
        lines.append(Line(event.seq, event.at, "job", state, text, by))
    return lines


def _told(event: Event, say: Say, *, content: bool) -> str:
    data: Mapping[str, Any] = event.data
    if event.kind == "stalled":
        cause = cause_of(data.get("why"), data.get("cause") or {}, say)
        words = words_of(data.get("cause") or {}) if content else None
        return say("console.batch.event.stalled", cause=cause) + (f" ({words})" if words else "")
    why = data.get("why") or ("queued" if data.get("before") == "queued" else "")
    for key in (f"console.batch.event.{event.kind}_{why}", f"console.batch.event.{event.kind}"):
        if key in phrases("en"):
            return say(key, total=data.get("total", 0), why=why, cohort=data.get("cohort", ""))
    return event.kind
