"""Turns events into spans: an attempt, its steps, and its calls. What a span says, an event has said before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanKind, StatusCode

from retoma.model.job import Claim, Ended
from retoma.telemetry import events, genai, listen
from retoma.telemetry.events import Event
from retoma.telemetry.metrics import step_of
from retoma.telemetry.tracing import NOBODY, SYSTEM, Spans, attempt_context, links_of, live

_OPEN: dict[tuple[int, int], Span] = {}
"""The spans of attempts under way in this process, by job and fence."""


_STARTING: frozenset[type[Event]] = frozenset({events.AttemptStarted})
_NOT_SAMPLED = trace.set_span_in_context(NonRecordingSpan(NOBODY), contexts.Context())
"""Where an attempt runs that is not sampled: the spans of its handler are not, either."""


def follow(home: str) -> Callable[[], None]:
    """Make spans of every event, when an SDK records them; the returned function ends it. *home* is the database."""
    if not live():
        return lambda: None
    follower = _Follower(home)
    ends = [
        listen(follower, wants=follower.wants, readers={events.AttemptEnded: follower.read_ended}),
        follower.attend(),
    ]

    def end() -> None:
        for each in ends:
            each()

    return end


def begin_unsampled() -> None:
    """Sample nothing in the current context and in those that are copied from it, until an attempt that is sampled
    starts in one of them: to say so for each attempt would cost more than all else about one that is not sampled.
    """
    if live():
        contexts.attach(_NOT_SAMPLED)


def tracing_anything() -> bool:
    """Whether an attempt that is traced runs in this process."""
    return bool(_OPEN)


def trace_of(job: int | None, fence: int | None) -> str | None:
    """The trace of an attempt that runs in this process."""
    span = _OPEN.get((job or 0, fence or 0))
    return None if span is None else f"{span.get_span_context().trace_id:032x}"


class _Follower:
    def __init__(self, home: str) -> None:
        self._home = home
        self._spans = Spans()
        self._steps: dict[tuple[int, int, str], tuple[Span, Any]] = {}
        self._calls: dict[int, Span] = {}
        self._tells: dict[type[Event], Callable[[Any], None]] = {
            events.AttemptStarted: self._attempt_started,
            events.AttemptEnded: self._attempt_ended,
            events.JobLost: self._attempt_lost,
            events.JobRecovered: self._recovered,
            events.StepStarted: self._step_started,
            events.StepCompleted: self._step_completed,
            events.StepFailed: self._step_failed,
            events.StepRestored: self._step_restored,
            events.CallStarted: self._call_started,
            events.CallSubmitted: self._call_submitted,
            events.CallAnswered: self._call_answered,
            events.CallFailed: self._call_failed,
        }

    def wants(self, kind: type[Event]) -> bool:
        return kind in self._tells and kind not in _STARTING

    def attend(self) -> Callable[[], None]:
        """Listen to attempts that start; the returned function ends it. While no more of them may be traced nobody
        listens, so that the others of a flood cost nothing.
        """
        over: list[Callable[[], None]] = []
        later: list[asyncio.TimerHandle] = []

        def read(facts: Sequence[tuple[int, Claim, str | None]]) -> None:
            self.read_started(facts)
            seconds = self._spans.rests()
            if seconds and over:
                over.pop()()
                later[:] = [asyncio.get_running_loop().call_later(seconds, begin)]

        def begin() -> None:
            over.append(listen(self, wants=_STARTING.__contains__, readers=dict.fromkeys(_STARTING, read)))

        def end() -> None:
            for timer in later:
                timer.cancel()
            while over:
                over.pop()()

        begin()
        return end

    def __call__(self, event: Event) -> None:
        self._tells[type(event)](event)

    # — attempts —

    def read_started(self, facts: Sequence[tuple[int, Claim, str | None]]) -> None:
        for each in facts:
            if self._spans.samples(each[1].id, each[1].fence, each[1].traceparent, self._home):
                self._attempt_started(events.AttemptStarted.of(each))

    def read_ended(self, facts: Sequence[tuple[int, Ended, str]]) -> None:
        if _OPEN:
            for each in facts:
                if (each[1].claim.id, each[1].claim.fence) in _OPEN:
                    self._attempt_ended(events.AttemptEnded.of(each))

    def _attempt_started(self, event: events.AttemptStarted) -> None:
        job, fence = event.job, event.fence or 0
        ids = attempt_context(job, fence, event.traceparent, self._home)
        links = links_of(event.traceparent, job, fence, self._home, run=event.run)
        span = self._spans.start(
            f"process {event.queue}", ids, kind=SpanKind.CONSUMER, links=links, attributes=_of_attempt(event)
        )
        _OPEN[job, fence] = span
        # The task is the job's own, and its context ends with it.
        contexts.attach(trace.set_span_in_context(span, contexts.Context()))

    def _attempt_ended(self, event: events.AttemptEnded) -> None:
        span = _OPEN.pop((event.job, event.fence or 0), None)
        if span is None:
            return
        span.set_attribute("retoma.state", event.state)
        span.set_attribute("retoma.ending", event.ending)
        if event.ending == "failed":
            span.set_attribute(genai.ERROR_TYPE, event.reason or event.ending)
            span.set_status(StatusCode.ERROR, event.reason)
        span.end()

    def _attempt_lost(self, event: events.JobLost) -> None:
        if (span := _OPEN.pop((event.job, event.fence or 0), None)) is not None:
            span.set_status(StatusCode.ERROR, "lost")
            span.end()

    def _recovered(self, event: events.JobRecovered) -> None:
        """The attempt could not end its span, so whoever recovers the job does. The steps that it had ended name this
        span as their parent.
        """
        if event.fence is None:
            return
        if not self._spans.samples(event.job, event.fence, event.traceparent, self._home):
            return
        now = time.time_ns()
        ids = attempt_context(event.job, event.fence, event.traceparent, self._home)
        span = self._spans.start(
            f"process {event.queue}",
            ids,
            kind=SpanKind.CONSUMER,
            links=links_of(event.traceparent, event.job, event.fence, self._home),
            start_time=now - int(event.duration_ms * 1e6),
            attributes=_of_attempt(event),
        )
        span.set_attribute("retoma.state", event.state)
        span.set_attribute("retoma.ending", event.ending)
        span.set_attribute(genai.ERROR_TYPE, event.ending)
        span.set_status(StatusCode.ERROR, event.cause)
        span.end(now)

    # — steps —

    def _step_started(self, event: events.StepStarted) -> None:
        if (event.job, event.fence or 0) not in _OPEN:
            return
        span = self._spans.start(f"step {step_of(event.step)}", attributes=_of_job(event) | {"retoma.step": event.step})
        token = contexts.attach(trace.set_span_in_context(span))
        self._steps[event.job, event.fence or 0, event.step] = span, token

    def _step_over(self, event: events.StepCompleted | events.StepFailed) -> Span | None:
        found = self._steps.pop((event.job, event.fence or 0, event.step), None)
        if found is None:
            return None
        span, token = found
        contexts.detach(token)
        return span

    def _step_completed(self, event: events.StepCompleted) -> None:
        if (span := self._step_over(event)) is not None:
            span.set_attribute("retoma.checkpoint.size", event.size)
            span.end()

    def _step_failed(self, event: events.StepFailed) -> None:
        if (span := self._step_over(event)) is not None:
            if event.error is not None:
                span.set_attribute(genai.ERROR_TYPE, event.error)
                span.set_status(StatusCode.ERROR, event.error)
            span.end()

    def _step_restored(self, event: events.StepRestored) -> None:
        if (span := _OPEN.get((event.job, event.fence or 0))) is not None:
            span.add_event("step restored", {"retoma.step": event.step})

    # — calls —

    def _call_started(self, event: events.CallStarted) -> None:
        operation = genai.operation(event.operation)
        self._calls[event.call] = self._spans.start(
            f"{operation} {event.model}",
            kind=SpanKind.CLIENT,
            attributes=_of_job(event)
            | {
                genai.OPERATION: operation,
                genai.PROVIDER: event.provider,
                genai.REQUEST_MODEL: event.model,
                "retoma.call.id": event.call,
                "retoma.call.kind": event.kind,
                "retoma.step": event.step,
            },
        )

    def _call_submitted(self, event: events.CallSubmitted) -> None:
        if (span := self._calls.pop(event.call, None)) is not None:
            span.add_event("submitted")
            span.end()

    def _call_answered(self, event: events.CallAnswered) -> None:
        if (span := self._calls.pop(event.call, None)) is None:
            return
        told: dict[str, Any] = {
            genai.RESPONSE_MODEL: event.answered_by,
            genai.RESPONSE_ID: event.request_id,
            genai.INPUT_TOKENS: event.input_tokens,
            genai.OUTPUT_TOKENS: event.output_tokens,
            genai.CACHE_READ_TOKENS: event.cached_tokens or None,
            genai.CACHE_WRITE_TOKENS: event.cache_write_tokens or None,
            genai.REASONING_TOKENS: event.reasoning_tokens or None,
            genai.FINISH_REASONS: None if event.finish is None else [event.finish],
            genai.COST: None if event.cost_usd is None else float(event.cost_usd),
        }
        span.set_attributes({name: value for name, value in told.items() if value is not None})
        span.end()

    def _call_failed(self, event: events.CallFailed) -> None:
        if (span := self._calls.pop(event.call, None)) is not None:
            span.set_attribute(genai.ERROR_TYPE, event.error)
            span.set_status(StatusCode.ERROR, event.error)
            span.end()


def _of_job(event: events.JobEvent | events.CallEvent | events.JobRecovered) -> dict[str, Any]:
    """What every span of a job says."""
    told = {
        "retoma.job.id": event.job,
        "retoma.pipeline": event.pipeline,
        "retoma.attempt": event.attempt,
        "retoma.batch.id": getattr(event, "batch", None),
        "retoma.correlation_id": event.correlation,
        genai.WORKFLOW: event.pipeline,
    }
    return {name: value for name, value in told.items() if value is not None}


def _of_attempt(event: events.JobEvent | events.JobRecovered) -> dict[str, Any]:
    return _of_job(event) | {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "process",
        "messaging.destination.name": event.queue or "",
        "messaging.message.id": str(event.job),
    }
