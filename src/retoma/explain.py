"""Why a batch moves, or does not: a judgement over evidence, and nothing else.

Slow is not stuck. A batch that was silent for longer than it allows is called stuck only when no innocent reason can
be seen: a pause, a time that has not come, workers busy elsewhere, or handlers that are within what such jobs took
before.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from retoma.evidence import Evidence, Explanation, Verdict

STALLING = frozenset(
    {
        Verdict.NO_WORKERS,
        Verdict.WORKER_LOST,
        Verdict.POISON,
        Verdict.FAILING,
        Verdict.PROVIDER_DOWN,
        Verdict.HANGING,
        Verdict.SILENT,
    }
)
"""The verdicts for which a silent batch is called stalled."""

_RESTING = frozenset({Verdict.QUEUE_PAUSED, Verdict.PAUSED, Verdict.BUDGET, Verdict.UNSEALED, Verdict.FAILED})
"""Not stalled, and yet nothing will move until somebody does something."""

_FAR_LONGER = 5.0  # times the slowest that ended well
_PROVIDER = ("Provider", "RateLimited", "Timeout", "timeout", "Connect", "APIStatus", "ServiceUnavailable", "HTTP")
_ENDED = {"completed": Verdict.COMPLETED, "failed": Verdict.FAILED, "cancelled": Verdict.CANCELLED}


def judge(seen: Evidence) -> Verdict:  # noqa: PLR0911 - one question after the other
    """The verdict alone."""
    if ended := _ENDED.get(seen.state):
        return ended
    if seen.state == "paused":
        return Verdict.BUDGET if seen.reason == "budget" else Verdict.PAUSED
    if seen.sealed_at is None:
        return Verdict.UNSEALED
    if seen.queue_paused is not None:
        return Verdict.QUEUE_PAUSED
    if seen.running == 0 and seen.due == 0 and seen.next_run_at is not None:
        return Verdict.WAITING
    if seen.workers == 0 and seen.running == seen.orphaned:
        return Verdict.NO_WORKERS
    if seen.started_at is None:
        return Verdict.READY if seen.idle_workers else Verdict.SATURATED
    if not seen.silent:
        return Verdict.MOVING
    return _silent(seen)


def _silent(seen: Evidence) -> Verdict:
    """Workers serve it, it has something to do, and nothing moved for longer than it allows."""
    if seen.orphaned and seen.orphaned == seen.running:
        return Verdict.WORKER_LOST
    # Once may be a machine that went away; a document is suspected the second time.
    if (seen.suspect_crashes or 0) > 1 and seen.bad_ending in {"crashed", "lost"}:
        return Verdict.POISON
    if seen.shut_limit:
        return Verdict.PROVIDER_DOWN if seen.shut_broken else Verdict.WAITING
    if seen.bad_endings >= max(2, seen.running):
        from_outside = (seen.bad_reason or "").startswith(_PROVIDER) or "Timeout" in (seen.bad_reason or "")
        return Verdict.PROVIDER_DOWN if from_outside else Verdict.FAILING
    if seen.running:
        # Without one that ended well nobody can say what is long: the job's own time-out does.
        usual = seen.slowest_seconds
        longest = None if usual is None else max(seen.stall_seconds, _FAR_LONGER * usual)
        return Verdict.SLOW if longest is None or (seen.youngest_seconds or 0) <= longest else Verdict.HANGING
    return Verdict.SILENT if seen.idle_workers else Verdict.SATURATED


def explain(id: int, seen: Evidence) -> Explanation:
    """The verdict, what it rests on, and what to do about it."""
    verdict = judge(seen)
    action = _HELPS.get(verdict, "wait")
    if verdict is Verdict.COMPLETED and not seen.failures:
        action = "none"
    elif verdict is Verdict.FAILED and seen.reason == "resumes":
        action = "resume_past_the_limit"
    said = _said(id, seen)
    needs_help = verdict in _RESTING or (
        verdict in STALLING and (seen.silent or seen.state != "running" or verdict is Verdict.NO_WORKERS)
    )
    return Explanation(
        batch_id=id,
        verdict=verdict,
        needs_help=needs_help,
        sentence=_SAYS[verdict].format_map(said),
        evidence=_facts(seen),
        action="resume" if action == "resume_past_the_limit" else action,
        command=_COMMANDS[action].format_map(said) or None,
    )


_SAYS = {
    Verdict.MOVING: "Jobs end; something moved {silence} ago.{shut}",
    Verdict.SLOW: "Nothing ended for {silence}, but live workers are at work on {running} jobs{usually}.{shut}",
    Verdict.READY: "{due} jobs are due and workers have room: they are about to be taken.",
    Verdict.WAITING: "Every job waits until {next_at} ({next_why}).{shut}",
    Verdict.SATURATED: "{due} jobs are due, and all {workers} workers of queue {queue} are busy; its turn comes.",
    Verdict.PAUSED: "It is paused ({why}).",
    Verdict.BUDGET: "It has spent {spent} of {budget}, and rests.",
    Verdict.QUEUE_PAUSED: "Queue {queue} is paused ({queue_paused}).",
    Verdict.UNSEALED: "It is still being filled: it was never sealed.",
    Verdict.NO_WORKERS: "No live worker serves queue {queue} with pipeline {pipeline}; {unfinished} jobs wait.{last}",
    Verdict.WORKER_LOST: "Worker {lost_worker} fell silent at {lost_time} with {orphaned} jobs in hand.{last}",
    Verdict.POISON: "Document {suspect_key} brought down {suspect_crashes} executors in a row.{last}",
    Verdict.FAILING: "{bad_endings} attempts ended badly in {silence}{words}{last}",
    Verdict.PROVIDER_DOWN: "The provider fails: {bad_endings} attempts ended badly in {silence}{words}{shut}{last}",
    Verdict.HANGING: "{running} jobs hang: the one with key {oldest_key} has been running for {oldest}{usually}.{last}",
    Verdict.SILENT: "{due} jobs are due, workers have room, and nobody takes them.{last}",
    Verdict.COMPLETED: "It is completed; {failures} jobs failed.",
    Verdict.FAILED: "It failed: {why_failed}.{last}",
    Verdict.CANCELLED: "It was cancelled ({why}).",
}

_HELPS = {
    Verdict.PAUSED: "resume",
    Verdict.BUDGET: "raise_budget",
    Verdict.QUEUE_PAUSED: "resume_queue",
    Verdict.UNSEALED: "seal",
    Verdict.NO_WORKERS: "start_worker",
    Verdict.POISON: "resume",
    Verdict.FAILING: "resume",
    Verdict.PROVIDER_DOWN: "resume",
    Verdict.HANGING: "resume",
    Verdict.SILENT: "resume",
    Verdict.COMPLETED: "retry_failed",
    Verdict.FAILED: "resume",
    Verdict.CANCELLED: "none",
}
"""What helps, where it is not to wait."""

_COMMANDS = {
    "wait": "retoma batch watch {id}",
    "resume": "retoma batch resume {id}",
    "resume_past_the_limit": "retoma batch resume {id} --max-resumes {one_more}",
    "retry_failed": "retoma batch retry-failed {id}",
    "raise_budget": "retoma batch change {id} --budget …",
    "resume_queue": "retoma queue resume {queue}",
    "seal": "retoma batch seal {id}",
    "start_worker": "retoma worker --queues {queue}",
    "none": "",
}


def _said(id: int, seen: Evidence) -> dict[str, Any]:
    """The evidence in words."""
    past_resumes = f"it stalled again after {seen.resumes} of {seen.max_resumes} resumes"
    return asdict(seen) | {
        "id": id,
        "one_more": seen.resumes + 1,
        "silence": _span(seen.silent_seconds),
        "oldest": _span(seen.oldest_seconds or 0),
        "usually": f"; the slowest so far took {_span(seen.slowest_seconds)}" if seen.slowest_seconds else "",
        "next_at": _hour(seen.next_run_at or seen.shut_until),
        "next_why": seen.next_reason or ("its provider" if seen.shut_limit else "its time"),
        "shut": _shut(seen),
        "lost_time": _hour(seen.lost_at),
        "why": seen.reason or "person",
        "why_failed": past_resumes if seen.reason == "resumes" else f"{seen.failures} jobs failed, more than it allows",
        "words": f": {seen.bad_error.rstrip('.')}." if seen.bad_error else ".",
        "last": f" The last that ended was {seen.last_key}." if seen.last_key else "",
    }


def _shut(seen: Evidence) -> str:
    if seen.shut_limit is None:
        return ""
    how = "failed too often: its breaker is open" if seen.shut_broken else "limits requests"
    return f" Provider {seen.shut_limit} {how} until {_hour(seen.shut_until)}."


def _hour(at: datetime | None) -> str:
    return at.strftime("%H:%M:%S UTC") if at else "an unknown time"


def _span(seconds: float) -> str:
    if seconds < 120:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"  # noqa: PLR2004


def _facts(seen: Evidence) -> dict[str, Any]:
    """The evidence as it can be stored: times as text, what is not known left out."""
    facts = {name: value for name, value in asdict(seen).items() if value is not None}
    return {name: value if isinstance(value, int | float | str) else _text(value) for name, value in facts.items()}


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
