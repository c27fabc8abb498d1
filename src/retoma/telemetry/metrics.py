"""Turns events into figures. Nothing else counts: what a metric says, an event has said before."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from retoma.model.job import Ended
from retoma.telemetry import events, genai, listen
from retoma.telemetry.events import Event
from retoma.telemetry.sheet import Key, Sheet

E = TypeVar("E", bound=Event)

_OUTCOMES = frozenset({"completed", "failed", "skipped", "review", "cancelled"})
_UNKNOWN = "unknown"

Reading = Callable[[Sheet, Any], None]
READINGS: dict[type[Event], Reading] = {}
"""What each event adds beside retoma_events_total, which counts them all."""


def _reads(kind: type[E]) -> Callable[[Callable[[Sheet, E], None]], Callable[[Sheet, E], None]]:
    def note(reading: Callable[[Sheet, E], None]) -> Callable[[Sheet, E], None]:
        READINGS[kind] = reading
        return reading

    return note


def measure(sheet: Sheet) -> Callable[[], None]:
    """Count every event on *sheet*; the returned function ends it. A sheet on which this process counts already
    stays as it is.
    """
    if sheet.counted:
        return lambda: None
    sheet.counted = True
    counts: dict[type[Event], Key] = {}

    def note(event: Event) -> None:
        kind = type(event)
        key = counts.get(kind)
        if key is None:
            key = counts[kind] = ("retoma_events_total", kind.title())
        sheet.add(key)
        reading = READINGS.get(kind)
        if reading is not None:
            reading(sheet, event)

    begun: list[object] = []

    def note_begun() -> None:
        if begun:
            sheet.add(("retoma_events_total", events.AttemptStarted.title()), len(begun))
            begun.clear()

    def note_ended(facts: Sequence[tuple[int, Ended, str]]) -> None:
        note_begun()
        sheet.add(("retoma_events_total", events.AttemptEnded.title()), len(facts))
        _all_ended(sheet, facts)

    # Attempts end in groups and begin one by one: those that began are counted with the next group, or a second later.
    sheet.settle = note_begun
    forget = listen(note, readers={events.AttemptStarted: begun.extend, events.AttemptEnded: note_ended})

    def end() -> None:
        forget()
        note_begun()
        sheet.counted = False

    return end


def step_of(name: str) -> str:
    """The step without what distinguishes the values of a map: ``price/17`` is ``price/*``."""
    head, slash, _ = name.partition("/")
    return f"{head}/*" if slash else head


def outcome_of(state: str, ending: str) -> str | None:
    """What an attempt decided, or None when it only waits: postponed, released or waiting for a signal."""
    if state in _OUTCOMES:
        return state
    return "retried" if state == "queued" and ending not in ("postponed", "waiting", "released") else None


# — jobs —


@_reads(events.JobsEnqueued)
def _enqueued(sheet: Sheet, event: events.JobsEnqueued) -> None:
    sheet.add(("retoma_jobs_enqueued_total", event.queue, event.pipeline), event.jobs)


@_reads(events.JobsClaimed)
def _claimed(sheet: Sheet, event: events.JobsClaimed) -> None:
    sheet.add(("retoma_jobs_claimed_total", event.queue), event.jobs)
    key = ("retoma_job_wait_seconds", event.queue)
    sheet.observe_all(key, event.waited)


@_reads(events.AttemptEnded)
def _ended(sheet: Sheet, event: events.AttemptEnded) -> None:
    outcome = outcome_of(event.state, event.ending)
    if outcome is not None:
        _finished(sheet, event.queue, event.pipeline, outcome, [event.duration_ms / 1000])


def _all_ended(sheet: Sheet, facts: Sequence[tuple[int, Ended, str]]) -> None:
    """Every job ends, and endings are written in groups: what a group has in common is counted once."""
    seconds: dict[tuple[str | None, str, str], list[float]] = {}
    for _, ended, state in facts:
        outcome = state if state in _OUTCOMES else outcome_of(state, str(ended.ending))
        if outcome is not None:
            key = (ended.claim.queue, ended.claim.pipeline, outcome)
            found = seconds.get(key)
            if found is None:
                found = seconds[key] = []
            found.append(ended.seconds)
    for (queue, pipeline, outcome), each in seconds.items():
        _finished(sheet, queue, pipeline, outcome, each)


def _finished(sheet: Sheet, queue: str | None, pipeline: str, outcome: str, seconds: Sequence[float]) -> None:
    sheet.add(("retoma_jobs_finished_total", queue or _UNKNOWN, pipeline, outcome), len(seconds))
    sheet.observe_all(("retoma_job_duration_seconds", pipeline, outcome), seconds)


@_reads(events.JobRecovered)
def _recovered(sheet: Sheet, event: events.JobRecovered) -> None:
    queue = event.queue or _UNKNOWN
    sheet.add(("retoma_jobs_recovered_total", queue, event.cause or "watchdog"))
    outcome = outcome_of(event.state, event.ending)
    if outcome is not None:
        sheet.add(("retoma_jobs_finished_total", queue, event.pipeline, outcome))


@_reads(events.JobLost)
def _lost(sheet: Sheet, event: events.JobLost) -> None:
    sheet.add(("retoma_lease_lost_total", event.queue or _UNKNOWN))


# — steps —


@_reads(events.StepCompleted)
def _step(sheet: Sheet, event: events.StepCompleted) -> None:
    key = ("retoma_step_duration_seconds", event.pipeline, step_of(event.step), "completed")
    sheet.observe(key, event.duration_ms / 1000)


@_reads(events.StepFailed)
def _step_failed(sheet: Sheet, event: events.StepFailed) -> None:
    outcome = "waiting" if event.error is None else "postponed" if event.error == "Suspend" else "failed"
    key = ("retoma_step_duration_seconds", event.pipeline, step_of(event.step), outcome)
    sheet.observe(key, event.duration_ms / 1000)


@_reads(events.StepRestored)
def _replayed(sheet: Sheet, event: events.StepRestored) -> None:
    sheet.add(("retoma_steps_replayed_total", event.pipeline, step_of(event.step)))


@_reads(events.CheckpointSetAside)
def _invalid(sheet: Sheet, event: events.CheckpointSetAside) -> None:
    sheet.add(("retoma_checkpoints_invalid_total", event.pipeline, event.kind))


# — calls —


def _call_key(name: str, event: events.CallEvent, last: str) -> Key:
    return name, genai.operation(event.operation), event.provider, event.model, last


def _cost(sheet: Sheet, event: events.CallEvent, cost: Decimal | None, kind: str) -> None:
    if cost:
        key = ("retoma_llm_cost_usd_total", event.provider, event.model, event.pipeline or "", kind)
        sheet.add(key, float(cost))


@_reads(events.CallAnswered)
def _answered(sheet: Sheet, event: events.CallAnswered) -> None:
    sheet.observe(_call_key("gen_ai_client_operation_duration_seconds", event, ""), event.duration_ms / 1000)
    for kind, tokens in (("input", event.input_tokens), ("output", event.output_tokens)):
        if tokens:
            sheet.observe(_call_key("gen_ai_client_token_usage", event, kind), tokens)
    _cost(sheet, event, event.cost_usd, "useful" if event.kind == "first" else "retried")


@_reads(events.CallFailed)
def _call_failed(sheet: Sheet, event: events.CallFailed) -> None:
    sheet.observe(_call_key("gen_ai_client_operation_duration_seconds", event, event.error), event.duration_ms / 1000)
    _cost(sheet, event, event.cost_usd, "lost")
    reason = {"RateLimited": "429", "ProviderTimeout": "timeout", "ProviderDown": "5xx"}.get(event.error)
    if event.error == "AnswerUnreadable":
        reason = "invalid_output"
    sheet.add(("retoma_llm_retries_total", event.provider, reason or "refused"))


@_reads(events.AnswerMisfit)
def _misfit(sheet: Sheet, event: events.AnswerMisfit) -> None:
    sheet.add(("retoma_llm_retries_total", event.provider, "invalid_output"))


@_reads(events.LimitWaited)
def _limited(sheet: Sheet, event: events.LimitWaited) -> None:
    sheet.observe(("retoma_rate_limit_wait_seconds", event.limit), event.seconds)


# — the process —


@_reads(events.DutyDone)
def _duty(sheet: Sheet, event: events.DutyDone) -> None:
    sheet.add(("retoma_watchdog_runs_total", "done" if event.done else "failed"))
    if event.done:
        sheet.set(("retoma_watchdog_last_run_timestamp_seconds",), time.time())


@_reads(events.PoolWaited)
def _pooled(sheet: Sheet, event: events.PoolWaited) -> None:
    sheet.observe(("retoma_db_pool_wait_seconds", "given" if event.given else "refused"), event.seconds)


@_reads(events.StreamReset)
def _reset(sheet: Sheet, _event: events.StreamReset) -> None:
    sheet.add(("retoma_sse_resets_total",))


@_reads(events.WebhookDelivered)
def _arrived(sheet: Sheet, _event: events.WebhookDelivered) -> None:
    sheet.add(("retoma_webhook_deliveries_total", "delivered"))


@_reads(events.WebhookFailed)
def _not_arrived(sheet: Sheet, event: events.WebhookFailed) -> None:
    sheet.add(("retoma_webhook_deliveries_total", "given_up" if event.final else "retried"))
