"""The life of a job as a chart: its attempts, its waits and its steps, as bars on one axis.

Waits may last days and attempts seconds, so a wait is drawn at most as wide as a quarter of all attempts together; what
lies inside an attempt keeps its proportions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from retoma.model.job import Attempt, Checkpoint, Job

WIDTH = 1000.0
KILLED = frozenset({"crashed", "lost", "timeout"})
_MOST_ATTEMPTS = 20
_MOST_STEPS = 60
_SHORTEST = 0.02
_LEAST_WIDTH = 4.0
_TONES = {
    "completed": "good",
    "skipped": "quiet",
    "review": "warn",
    "failed": "bad",
    "cancelled": "quiet",
    "postponed": "waiting",
    "waiting": "waiting",
    "released": "waiting",
    "timeout": "bad",
    "crashed": "bad",
    "lost": "bad",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a row: *kind* is "wait", "run", "step", "restored" or "kill"."""

    kind: str
    x: float
    width: float
    tone: str = "busy"


@dataclass(slots=True)
class Row:
    """An attempt, a wait or a step, with its bars; *note* is the word for what happened there."""

    kind: str
    title: str
    bars: list[Bar]
    seconds: float | None = None
    tone: str = "busy"
    note: str | None = None
    at: datetime | None = None
    worker: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class _Span:
    kind: str
    begin: datetime
    end: datetime
    attempt: Attempt | None = None
    fence: int = 0
    x: float = 0.0
    width: float = 0.0

    @property
    def seconds(self) -> float:
        return max(0.0, (self.end - self.begin).total_seconds())

    def place(self, moment: datetime) -> float:
        """Where *moment* lies on the axis, inside this span."""
        part = (moment - self.begin).total_seconds() / self.seconds if self.seconds else 0.0
        return self.x + self.width * min(1.0, max(0.0, part))


@dataclass(slots=True)
class Timeline:
    """All rows, in the order of time, and how many earlier attempts are left out."""

    rows: list[Row] = field(default_factory=list)
    left_out: int = 0


def timeline_of(job: Job, attempts: Sequence[Attempt], checkpoints: Sequence[Checkpoint], now: datetime) -> Timeline:
    """The chart of *job*; the one that runs now goes on until *now*."""
    shown = sorted(attempts, key=lambda each: each.fence)[-_MOST_ATTEMPTS:]
    spans = _spans(job, shown, now)
    _scale(spans)
    made = Timeline(left_out=len(attempts) - len(shown))
    for span in spans:
        if span.kind == "wait":
            made.rows.append(Row("wait", "", [Bar("wait", span.x, span.width)], span.seconds, "waiting", at=span.begin))
        else:
            made.rows.append(_attempt_row(span))
            made.rows += _step_rows(span, checkpoints)
    return made


def _spans(job: Job, attempts: Sequence[Attempt], now: datetime) -> list[_Span]:
    spans: list[_Span] = []
    last = job.created_at
    for each in attempts:
        spans += _wait(last, each.claimed_at)
        spans.append(_Span("run", each.claimed_at, max(each.ended_at, each.claimed_at), each, each.fence))
        last = spans[-1].end
    if job.state == "running" and job.claimed_at is not None:
        spans += _wait(last, job.claimed_at)
        spans.append(_Span("run", job.claimed_at, max(now, job.claimed_at), None, job.fence))
    elif not job.state.ended:
        spans += _wait(last, now)
    return spans


def _wait(begin: datetime, end: datetime) -> list[_Span]:
    return [_Span("wait", begin, end)] if (end - begin).total_seconds() > _SHORTEST else []


def _scale(spans: Sequence[_Span]) -> None:
    worked = sum(each.seconds for each in spans if each.kind == "run")
    longest = worked / 4 if worked else float("inf")
    weights = [max(_SHORTEST, each.seconds if each.kind == "run" else min(each.seconds, longest)) for each in spans]
    whole, x = sum(weights), 0.0
    for span, weight in zip(spans, weights, strict=True):
        span.x, span.width = x, WIDTH * weight / whole
        x += span.width


def _attempt_row(span: _Span) -> Row:
    attempt = span.attempt
    ending = "running" if attempt is None else str(attempt.ending)
    tone = _TONES.get(ending, "busy")
    bars = [Bar("run", span.x, max(span.width, _LEAST_WIDTH), tone)]
    if ending in KILLED:
        bars.append(Bar("kill", max(0.0, span.x + span.width - 6), 6.0, "bad"))
    return Row(
        "attempt",
        str(attempt.attempt if attempt else ""),
        bars,
        span.seconds,
        tone,
        ending,
        span.begin,
        attempt.worker if attempt else None,
        attempt.reason if attempt else None,
    )


def _step_rows(span: _Span, checkpoints: Sequence[Checkpoint]) -> list[Row]:
    rows: list[Row] = []
    for each in checkpoints:
        if each.fence == span.fence:
            end = span.place(each.saved_at)
            begin = max(span.x, end - (span.width * (each.seconds or 0.0) / span.seconds if span.seconds else 0.0))
            note = "set_aside" if each.set_aside_at else "saved"
            bars = [Bar("step", begin, max(end - begin, _LEAST_WIDTH), "quiet" if each.set_aside_at else "good")]
            rows.append(Row("step", each.step, bars, each.seconds, note=note, at=each.saved_at))
        elif each.fence < span.fence and (each.set_aside_at is None or each.set_aside_at > span.end):
            rows.append(Row("step", each.step, [Bar("restored", span.x, _LEAST_WIDTH * 2)], None, note="restored"))
    failed = span.attempt.step if span.attempt and span.attempt.step else None
    if failed and not any(row.title == failed and row.note == "saved" for row in rows):
        began = max((bar.x + bar.width for row in rows for bar in row.bars), default=span.x)
        bars = [Bar("step", began, max(span.x + span.width - began, _LEAST_WIDTH), "bad")]
        rows.append(Row("step", failed, bars, None, "bad", "broke"))
    return rows[:_MOST_STEPS]
