"""Why a batch progresses or does not: a judgement over evidence, and nothing else.

Slow is not stuck. A batch that was silent for longer than it allows is called stuck only when no innocent
reason is visible: a pause, a time that has not come, workers busy elsewhere, or handlers within the time that
such jobs took before. A provider that is down is not an innocent reason, and neither is one that rejects every
request again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from retoma.model.call import BY_UNIT, PRICE_UNKNOWN
from retoma.model.evidence import Evidence, Explanation, Verdict

STALLING = frozenset(
    {
        Verdict.NO_WORKERS,
        Verdict.WORKER_LOST,
        Verdict.POISON,
        Verdict.FAILING,
        Verdict.PROVIDER_DOWN,
        Verdict.RATE_LIMITED,
        Verdict.HANGING,
        Verdict.SILENT,
    }
)
"""The verdicts for which a silent batch is marked as stalled."""

_RESTING = frozenset(
    {
        Verdict.QUEUE_PAUSED,
        Verdict.PAUSED,
        Verdict.REFUSED,
        Verdict.BUDGET,
        Verdict.PRICE_UNKNOWN,
        Verdict.UNSEALED,
        Verdict.PILOTED,
        Verdict.FAILED,
    }
)
"""Not stalled, and yet nothing will progress without a person."""

_FAR_LONGER = 5.0  # times the slowest successful attempt
_SEVERAL = 2  # a single bad ending may be chance
_PROVIDER = ("Provider", "RateLimited", "Timeout", "timeout", "Connect", "APIStatus", "ServiceUnavailable", "HTTP")
_WORDS = ("bad_error", "call_error", "finish_error", "worst", "sentence", "plain", "cause")
_ENDED = {"completed": Verdict.COMPLETED, "failed": Verdict.FAILED, "cancelled": Verdict.CANCELLED}
_REFUSED = "refused by "
_TO_COME = frozenset({"waiting", "open"})


def judge(seen: Evidence) -> Verdict:
    """Only the verdict."""
    verdict = _judged(seen)
    # It was stuck, and nothing has progressed since: that a job is being tried just now does not make it slow instead.
    if seen.state == "stalled" and verdict in {Verdict.SLOW, Verdict.WAITING, Verdict.SATURATED}:
        before = str((seen.cause or {}).get("verdict"))
        return Verdict(before) if before in STALLING else verdict
    return verdict


def _judged(seen: Evidence) -> Verdict:  # noqa: PLR0911 - one check after the other
    if ended := _ENDED.get(seen.state):
        return ended
    if seen.state == "paused":
        return _paused(seen)
    if seen.sealed_at is None:
        return Verdict.UNSEALED
    if seen.held and not seen.queued and not seen.running:
        return Verdict.PILOTED
    if seen.queue_paused is not None:
        return Verdict.QUEUE_PAUSED
    resting = seen.running == 0 and seen.due == 0 and seen.next_run_at is not None
    if resting and not seen.troubled:
        return Verdict.WAITING
    if seen.workers == 0 and seen.running == seen.orphaned:
        return Verdict.NO_WORKERS
    if seen.started_at is None:
        return Verdict.READY if seen.idle_workers else Verdict.SATURATED
    if not seen.silent:
        return Verdict.WAITING if resting else Verdict.MOVING
    return _silent(seen, resting=resting)


def _paused(seen: Evidence) -> Verdict:
    if seen.reason == "budget":
        return Verdict.BUDGET
    if (seen.reason or "").startswith(PRICE_UNKNOWN):
        return Verdict.PRICE_UNKNOWN
    return Verdict.REFUSED if (seen.reason or "").startswith(_REFUSED) else Verdict.PAUSED


def _silent(seen: Evidence, *, resting: bool) -> Verdict:  # noqa: PLR0911 - one check after the other
    """The verdict when workers serve the batch, it has work, and nothing progressed for longer than it allows."""
    if seen.orphaned and seen.orphaned == seen.running:
        return Verdict.WORKER_LOST
    # Without a successful attempt there is no usual duration: the job's own time-out decides.
    usual, age = seen.slowest_seconds, seen.outlived_seconds
    if age is not None and (usual is None or age <= max(seen.stall_seconds, _FAR_LONGER * usual)):
        return Verdict.SLOW
    if (blamed := _blamed(seen)) is not None:
        return blamed
    if age is not None:
        return Verdict.HANGING
    if seen.running:
        return Verdict.SLOW
    if resting:
        return Verdict.WAITING
    return Verdict.SILENT if seen.idle_workers else Verdict.SATURATED


def _blamed(seen: Evidence) -> Verdict | None:
    """The verdict from bad endings, or from its provider."""
    # A first crash may come from a machine that failed; the second time the document is suspected.
    if (seen.suspect_crashes or 0) > 1 and seen.bad_ending in {"crashed", "lost"}:
        return Verdict.POISON
    several, reason = seen.bad_endings >= _SEVERAL, seen.bad_reason or ""
    if seen.shut_broken:
        return Verdict.PROVIDER_DOWN
    # A single wait that the provider asked for is a wait; being rejected again after as long as the
    # batch allows is not.
    if (several and reason == "RateLimited") or (seen.limited_seconds or 0) >= seen.stall_seconds:
        return Verdict.RATE_LIMITED
    if seen.shut_limit:
        return Verdict.WAITING
    if not several:
        return None
    return Verdict.PROVIDER_DOWN if reason.startswith(_PROVIDER) or "Timeout" in reason else Verdict.FAILING


def explain(id: int, seen: Evidence) -> Explanation:
    """The verdict, its evidence, and what to do."""
    verdict = judge(seen)
    action = _HELPS.get(verdict, "wait")
    command = action
    if verdict is Verdict.COMPLETED and not seen.failures:
        action = command = "none"
    elif verdict is Verdict.FAILED and seen.reason == "resumes":
        command = "resume_past_the_limit"
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
        action=action,
        advice="" if action == "none" else _ADVICE.get(verdict, "").format_map(said),
        command=_COMMANDS[command].format_map(said) or None,
    )


def cause_of(id: int, seen: Evidence) -> dict[str, Any]:
    """What is stored with a batch that is marked as stalled; *plain* is its sentence without the text of errors."""
    why = explain(id, seen)
    kept = {name: value for name, value in why.evidence.items() if name != "cause"}
    told = {"verdict": str(why.verdict), "sentence": why.sentence, "plain": explain(id, plain(seen)).sentence}
    return {**told, "advice": why.advice, "action": why.action, **kept}


def plain(seen: Evidence) -> Evidence:
    """The same evidence without the text of errors, which may quote documents: kinds and numbers stay."""
    worst = [{**each, "error": _kind(str(each["error"]))} for each in seen.worst] if seen.worst else seen.worst
    return replace(
        seen, bad_error=None, call_error=None, finish_error=None, worst=worst, cause=without_words(seen.cause)
    )


def without_words(cause: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A stored cause without the text of errors."""
    if cause is None:
        return None
    told = {name: value for name, value in cause.items() if name not in _WORDS}
    return told | ({"sentence": cause["plain"]} if "plain" in cause else {})


def _kind(error: str) -> str:
    """The name of the error, when the text begins with one."""
    name, colon, _ = error.partition(":")
    return name if colon and name.replace("_", "").replace(".", "").isalnum() else "error"


_SAYS = {
    Verdict.MOVING: "It is moving: something was done {silence} ago.{finishing}{shut}",
    Verdict.SLOW: "Nothing has ended for {silence}, but live workers are at work on {running_jobs}{usually}."
    "{finishing}{shut}",
    Verdict.READY: "{due_jobs} due and workers have room: they are about to be taken.",
    Verdict.WAITING: "Every job waits until {next_at} ({next_why}).{shut}",
    Verdict.SATURATED: "{due_jobs} due, and all {workers} workers of queue {queue} are busy; its turn comes.",
    Verdict.PAUSED: "It is paused ({why}).",
    Verdict.REFUSED: "It is paused: {refuser} does not accept our key or account{refusal}.",
    Verdict.BUDGET: "It has spent {spent} of {budget}, and rests.",
    Verdict.PRICE_UNKNOWN: "It has a budget, and nobody knows what {priced} costs: it rests until somebody says so.",
    Verdict.QUEUE_PAUSED: "Queue {queue} is paused ({queue_paused}).",
    Verdict.UNSEALED: "It is still being filled: it was never sealed.",
    Verdict.PILOTED: "Its pilot is over, and {unfinished_jobs} held until somebody releases them.",
    Verdict.NO_WORKERS: "No live worker serves queue {queue} with pipeline {pipeline}; {left} left.{last}",
    Verdict.WORKER_LOST: "Worker {lost_worker} fell silent at {lost_time} with {orphaned_jobs} in hand.{last}",
    Verdict.POISON: "Document {suspect_key} brought down {suspect_crashes} executors in a row.{last}",
    Verdict.FAILING: "Nothing has ended for {silence}: {bad_attempts} ended badly{words}.{last}",
    Verdict.PROVIDER_DOWN: "The provider fails: nothing has ended for {silence}{words}.{shut}{last}",
    Verdict.RATE_LIMITED: "The provider refuses requests (429): nothing has ended for {silence}{words}.{shut}{last}",
    Verdict.HANGING: "{running_jobs} hang: the one with key {oldest_key} has been running for {oldest}{usually}.{last}",
    Verdict.SILENT: "{due_jobs} due, workers have room, and nobody takes them.{last}",
    Verdict.COMPLETED: "It is completed; {failed_jobs} failed{worst_errors}.",
    Verdict.FAILED: "It failed: {why_failed}.{last}",
    Verdict.CANCELLED: "It was cancelled ({why}).",
}

_ADVICE = {
    Verdict.REFUSED: "Fix the key or the account where the workers read it, restart the workers, then resume.",
    Verdict.BUDGET: "Raise the budget; it then goes on by itself.",
    Verdict.PRICE_UNKNOWN: "Say what it costs; it then goes on by itself.",
    Verdict.PILOTED: "Look at what the pilot says of the whole, then release it, or cancel.",
    Verdict.NO_WORKERS: "Start a worker; it then goes on by itself, and no resume is needed.",
    Verdict.WORKER_LOST: "Wait: what it held is given back when its lease is over.",
    Verdict.POISON: "Resume: that document then runs alone, and is set aside if it crashes again.",
    Verdict.FAILING: "Fix what the error says first: a resume alone fails again. Then resume.",
    Verdict.PROVIDER_DOWN: "Find out what is wrong with the provider. When it answers again it goes on by itself; a "
    "resume tries at once.",
    Verdict.RATE_LIMITED: "Let fewer jobs run at once, or ask the provider for a higher limit. When it lets requests "
    "through again the batch goes on by itself; a resume tries at once.",
    Verdict.HANGING: "Resume: what hangs is taken away and tried again, and what is done stays done.",
    Verdict.SILENT: "Resume; if that does not help, 'retoma doctor' looks at workers and queues.",
    Verdict.COMPLETED: "Find out why first: 'retoma batch errors {id}'. Then try only those again.",
    Verdict.FAILED: "{advice_failed}",
}
"""What to do, unless it is to wait."""

_HELPS = {
    Verdict.PAUSED: "resume",
    Verdict.REFUSED: "fix_key",
    Verdict.BUDGET: "raise_budget",
    Verdict.PRICE_UNKNOWN: "set_price",
    Verdict.QUEUE_PAUSED: "resume_queue",
    Verdict.UNSEALED: "seal",
    Verdict.PILOTED: "release",
    Verdict.NO_WORKERS: "start_worker",
    Verdict.POISON: "resume",
    Verdict.FAILING: "fix_and_resume",
    Verdict.PROVIDER_DOWN: "fix_and_resume",
    Verdict.RATE_LIMITED: "fix_and_resume",
    Verdict.HANGING: "resume",
    Verdict.SILENT: "resume",
    Verdict.COMPLETED: "retry_failed",
    Verdict.FAILED: "fix_and_resume",
    Verdict.CANCELLED: "none",
}
"""The same as one word."""

_COMMANDS = {
    "wait": "retoma batch watch {id}",
    "resume": "retoma batch resume {id}",
    "fix_and_resume": "retoma batch resume {id}",
    "fix_key": "retoma batch resume {id}",
    "resume_past_the_limit": "retoma batch resume {id} --max-resumes {one_more}",
    "retry_failed": "retoma batch retry-failed {id}",
    "raise_budget": "retoma batch change {id} --budget …",
    "set_price": "retoma prices set {priced_as} {priced_by}",
    "resume_queue": "retoma queue resume {queue}",
    "seal": "retoma batch seal {id}",
    "release": "retoma batch pilot {id}",
    "start_worker": "retoma worker --queues {queue}",
    "none": "",
}


def _said(id: int, seen: Evidence) -> dict[str, Any]:
    """The evidence as sentences."""
    priced, by_unit, _ = (seen.reason or "").removeprefix(f"{PRICE_UNKNOWN}: ").partition(BY_UNIT)
    return asdict(replace(seen, cause=None)) | {
        "id": id,
        "one_more": seen.resumes + 1,
        "running_jobs": _many(seen.running, "job"),
        "unfinished_jobs": f"{_many(seen.unfinished, 'job')} {'is' if seen.unfinished == 1 else 'are'}",
        "left": "its last step is"
        if seen.finishing in _TO_COME and not seen.unfinished
        else f"{_many(seen.unfinished, 'job')} {'is' if seen.unfinished == 1 else 'are'}",
        "finishing": _finishing(seen),
        "orphaned_jobs": _many(seen.orphaned, "job"),
        "failed_jobs": _many(seen.failures, "job"),
        "bad_attempts": _many(seen.bad_endings, "attempt"),
        "due_jobs": f"{_many(seen.due, 'job')} {'is' if seen.due == 1 else 'are'}",
        "silence": _span(seen.silent_seconds),
        "oldest": _span(seen.oldest_seconds or 0),
        "usually": f"; the slowest so far took {_span(seen.slowest_seconds)}" if seen.slowest_seconds else "",
        "next_at": _hour(seen.next_run_at or seen.shut_until),
        "next_why": seen.next_reason or ("its provider" if seen.shut_limit else "its time"),
        "shut": _shut(seen),
        "lost_time": _hour(seen.lost_at),
        "why": seen.reason or "person",
        "refuser": (seen.reason or "").removeprefix(_REFUSED),
        "refusal": _refusal(seen),
        "why_failed": _why_failed(seen),
        "advice_failed": _advice_after_failure(id, seen),
        "worst_errors": _worst(seen),
        "words": f": {said.rstrip('.')}" if (said := seen.bad_error or seen.call_error) else "",
        "priced": priced,
        "priced_as": priced.replace("/", " ", 1),
        "priced_by": "--unit …" if by_unit else "--input … --output …",
        "last": f" The last that ended was {seen.last_key}." if seen.last_key else "",
    }


def _why_failed(seen: Evidence) -> str:
    """Why a batch failed: its resumes are used up, its last step failed, or too many jobs did."""
    if seen.reason == "resumes":
        sentence = str((seen.cause or {}).get("sentence") or "").rstrip(".")
        stalled = f"it stalled again after {seen.resumes} of {seen.max_resumes} resumes"
        return f"{stalled}. {sentence}" if sentence else stalled
    if seen.reason == "finish":
        error = f": {seen.finish_error.rstrip('.')}" if seen.finish_error else ""
        return f"its last step ({seen.finish_pipeline}) failed{error}"
    return f"{_many(seen.failures, 'job')} failed, more than it allows{_worst(seen)}"


def _advice_after_failure(id: int, seen: Evidence) -> str:
    if seen.reason == "resumes":
        return f"{(seen.cause or {}).get('advice') or 'Fix the cause first.'} Then allow one more resume."
    if seen.reason == "finish":
        return "Fix that first. A resume then continues the last step from its saved steps, and runs no other job."
    return (
        "Fix that first: a resume alone fails again. Then resume for what is left, and "
        f"'retoma batch retry-failed {id}' for what failed."
    )


def _finishing(seen: Evidence) -> str:
    """What is to be said of its last step while the batch moves."""
    if seen.finishing == "open" and not seen.unfinished:
        return f" All its jobs have ended, and its last step ({seen.finish_pipeline}) is at work."
    return ""


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _worst(seen: Evidence) -> str:
    """The most frequent errors, each with its number."""
    return (
        ": " + "; ".join(f"{each['jobs']} × {each['error']}".rstrip(".") for each in seen.worst) if seen.worst else ""
    )


def _refusal(seen: Evidence) -> str:
    """The answer of the provider, in its own words."""
    status = f" (HTTP {seen.call_status})" if seen.call_status else ""
    return status + (f": {seen.call_error.rstrip('.')}" if seen.call_error else "")


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
    """The evidence as it is stored: times as text, unknown values left out."""
    facts = {name: value for name, value in asdict(seen).items() if value is not None}
    plain = (int, float, str, list, Mapping)
    return {name: value if isinstance(value, plain) else _text(value) for name, value in facts.items()} | {
        "silent_seconds": seen.silent_seconds
    }


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
