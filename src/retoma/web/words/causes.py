"""Why a batch does not move and what to do about it, in the language of whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from retoma.model.call import BY_UNIT, PRICE_UNKNOWN
from retoma.model.diagnosis import without_words
from retoma.model.evidence import Explanation
from retoma.web.words import phrase, phrases

Say = Callable[..., str]

_HOUR, _TWO_MINUTES = 3600, 120
_NAMES = ("queue", "queue_paused", "lost_worker", "suspect_key", "suspect_crashes", "oldest_key", "spent", "budget",
          "resumes", "max_resumes", "finish_pipeline")  # fmt: skip
_UNKNOWN = "?"
_WITH_WORDS = frozenset({"failing", "provider_down", "rate_limited", "refused"})


def span(seconds: float) -> str:
    """A stretch of time as people say it; the same in both languages."""
    whole = round(seconds)
    if whole < _TWO_MINUTES:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // _HOUR} h" + (f" {whole % _HOUR // 60} min" if whole % _HOUR // 60 else "")


def cause_of(verdict: str | None, facts: Mapping[str, Any], say: Say) -> str:
    """Why nothing moves, as a clause."""
    key = f"cause.{_key(verdict, facts)}"
    return say(key if key in phrases("en") else "cause.unknown", **_filled(facts, say))


def help_of(verdict: str | None, facts: Mapping[str, Any], say: Say) -> str | None:
    """What to do about it; None when it is to wait."""
    key = f"cause_next.{_key(verdict, facts)}"
    return say(key, **_filled(facts, say)) if key in phrases("en") else None


def words_of(facts: Mapping[str, Any]) -> str | None:
    """What the error itself says."""
    found = facts.get("finish_error") or facts.get("bad_error") or facts.get("call_error")
    worst = facts.get("worst") or ()
    return str(found) if found else "\n".join(f"{each['jobs']} × {each['error']}" for each in worst) or None


def cause_shown(cause: Mapping[str, Any] | None, *, content: bool) -> dict[str, Any] | None:
    """A cause as it goes over the wire: the words of errors only with *content*."""
    if cause is None or not content:
        return without_words(cause)
    return {name: value for name, value in cause.items() if name != "plain"}


def data_shown(data: Mapping[str, Any], *, content: bool) -> dict[str, Any]:
    """What an event says, in the same way."""
    return {**data, "cause": cause_shown(data["cause"], content=content)} if data.get("cause") else dict(data)


def sentence_of(verdict: str | None, facts: Mapping[str, Any], say: Say) -> str:
    """The cause and the words of the error, as a sentence of its own."""
    told, words = cause_of(verdict, facts, say), words_of(facts)
    # Only where something went wrong just now: elsewhere an old error is not the reason.
    if words and (verdict in _WITH_WORDS or facts.get("finish_error")):
        told += f": {words.rstrip('.')}"
    return told[:1].upper() + told[1:].rstrip(".") + "."


def translated(why: Explanation, language: str) -> Explanation:
    """An explanation with its sentences in *language*; English is what the engine itself speaks."""
    if language == "en":
        return why
    say = partial(phrase, language)
    facts = why.evidence | {"state": why.verdict}
    advice = help_of(why.verdict, facts, say) or ""
    return replace(
        why,
        sentence=sentence_of(why.verdict, facts, say),
        advice=advice[:1].upper() + advice[1:] if why.action != "none" else "",
    )


def rest_of(reason: str) -> str:
    """The verdict of a batch that rests for *reason*."""
    if reason.startswith("refused by "):
        return "refused"
    if reason.startswith(PRICE_UNKNOWN):
        return "price_unknown"
    return "budget" if reason == "budget" else "paused"


def _key(verdict: str | None, facts: Mapping[str, Any]) -> str:
    """Which phrase says it: some verdicts are told in two ways."""
    if verdict == "failed":
        return f"failed_{reason}" if (reason := facts.get("reason")) in ("resumes", "finish") else "failed_failures"
    waits_for = str(facts.get("next_reason") or "")
    if verdict == "waiting" and (facts.get("shut_limit") or "imited" in waits_for):
        return "waiting_provider"
    return str(verdict)


def _filled(facts: Mapping[str, Any], say: Say) -> dict[str, Any]:
    """Facts for a phrase: what is not known reads as a question mark, and no fact chooses another phrase."""
    reason = str(facts.get("reason") or "")
    status = facts.get("call_status")
    return {name: facts.get(name, _UNKNOWN) for name in _NAMES} | {
        "silence": span(float(facts.get("silent_seconds") or 0)),
        "lost_time": _clock(facts.get("lost_at")),
        "next_time": _clock(facts.get("next_run_at") or facts.get("shut_until")),
        "oldest": span(float(facts.get("oldest_seconds") or 0)),
        "provider": reason.removeprefix("refused by ") or say("cause.unnamed"),
        "priced": reason.removeprefix(f"{PRICE_UNKNOWN}: ").removesuffix(BY_UNIT) or _UNKNOWN,
        "status": f" (HTTP {status})" if status else "",
        "failures": facts.get("failures", 0),
        "bad_endings": facts.get("bad_endings", 0),
    }


def _clock(at: object) -> str:
    return datetime.fromisoformat(at).strftime("%H:%M:%S UTC") if isinstance(at, str) else _UNKNOWN
