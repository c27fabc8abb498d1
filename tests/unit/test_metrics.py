"""Metrics: what is counted, that nothing is lost with a process, and that the number of series is bounded."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from retoma.model.job import AttemptEnding, Claim, Ended
from retoma.telemetry import emit, emit_all, events
from retoma.telemetry.catalogue import BY_NAME, METRICS
from retoma.telemetry.exposition import build, text_of
from retoma.telemetry.metrics import measure
from retoma.telemetry.sheet import Figure, Sheet, added

JOB: dict[str, Any] = {"worker": 1, "job": 7, "pipeline": "read", "attempt": 1, "queue": "default"}
CALL: dict[str, Any] = {**JOB, "call": 3, "provider": "openai", "model": "small", "operation": "ask", "step": "ask"}

EVERY = (
    events.JobsEnqueued(queue="default", pipeline="read", jobs=3),
    events.JobsClaimed(worker=1, queue="default", jobs=2, waited=(0.02, 4.0)),
    events.AttemptEnded(**JOB, state="completed", ending="completed", duration_ms=45_000.0),
    events.AttemptEnded(**JOB, state="queued", ending="failed", duration_ms=10.0),
    events.AttemptEnded(**JOB, state="queued", ending="postponed", duration_ms=10.0),
    events.JobLost(**JOB),
    events.StepCompleted(**JOB, step="page/3", duration_ms=100.0, size=2),
    events.StepFailed(**JOB, step="page/4", duration_ms=100.0, error="ValueError"),
    events.StepRestored(**JOB, step="page/3"),
    events.CheckpointSetAside(**JOB, step="page/3", generation=1, reason="it does not fit", kind="damaged"),
    events.CallAnswered(**CALL, duration_ms=900.0, input_tokens=120, output_tokens=30, cost_usd=Decimal("0.25")),
    events.CallAnswered(**CALL, kind="repair", duration_ms=900.0, input_tokens=1, cost_usd=Decimal("0.5")),
    events.CallFailed(**CALL, duration_ms=900.0, error="ProviderTimeout", cost_usd=Decimal("0.125")),
    events.CallFailed(**CALL, duration_ms=900.0, error="RateLimited"),
    events.AnswerMisfit(provider="openai", model="small", step="ask", repaired=True),
    events.LimitWaited(limit="openai/small", seconds=0.3),
    events.PoolWaited(seconds=0.2, given=True),
    events.DutyDone(duty="sweep", done=True, duration_ms=3.0),
    events.StreamReset(why="slow"),
    events.WebhookDelivered(endpoint="e", message="m", kind="batch.completed", attempt=1, status=200),
    events.JobRecovered(
        worker=1, job=7, pipeline="read", attempt=1, state="failed", ending="lost", crashes=3, queue="default",
        cause="lease_expired",
    ),
)  # fmt: skip


@pytest.fixture
def sheet() -> Iterator[Sheet]:
    made = Sheet()
    stop = measure(made)
    yield made
    stop()
    made.close()


def value(sheet: Sheet, name: str, *labels: str) -> float:
    """The value of a series; of a histogram, its sum."""
    (found,) = [each for each in sheet.figures() if (each.name, each.labels) == (name, labels)]
    return found.cells[-1]


def test_events_become_figures(sheet: Sheet) -> None:
    for each in EVERY:
        emit(each)

    assert value(sheet, "retoma_jobs_enqueued_total", "default", "read") == 3
    assert value(sheet, "retoma_jobs_claimed_total", "default") == 2
    assert value(sheet, "retoma_job_wait_seconds", "default") == pytest.approx(4.02)
    assert value(sheet, "retoma_jobs_finished_total", "default", "read", "completed") == 1
    assert value(sheet, "retoma_jobs_finished_total", "default", "read", "retried") == 1
    assert value(sheet, "retoma_jobs_finished_total", "default", "read", "failed") == 1, "the recovered job"
    assert value(sheet, "retoma_jobs_recovered_total", "default", "lease_expired") == 1
    assert value(sheet, "retoma_job_duration_seconds", "read", "completed") == 45
    assert value(sheet, "retoma_step_duration_seconds", "read", "page/*", "completed") == pytest.approx(0.1)
    assert value(sheet, "retoma_steps_replayed_total", "read", "page/*") == 1
    assert value(sheet, "retoma_checkpoints_invalid_total", "read", "damaged") == 1
    assert value(sheet, "gen_ai_client_token_usage", "chat", "openai", "small", "input") == 121
    costs = {kind: value(sheet, "retoma_llm_cost_usd_total", "openai", "small", "read", kind) for kind in COSTS}
    assert costs == COSTS
    assert value(sheet, "retoma_llm_retries_total", "openai", "429") == 1
    assert value(sheet, "retoma_llm_retries_total", "openai", "invalid_output") == 1
    assert value(sheet, "retoma_watchdog_runs_total", "done") == 1


COSTS = {"useful": 0.25, "retried": 0.5, "lost": 0.125}


def test_many_attempts_together_are_counted_as_each_is(sheet: Sheet) -> None:
    claim = Claim(
        id=7, batch_id=None, queue="default", lane_id=None, pipeline="read", key=None, attempt=1, max_attempts=3,
        crashes=0, fence=1, signals=0, timeout_seconds=120.0, correlation_id=None, traceparent=None, input="1",
    )  # fmt: skip
    endings = [("completed", "completed"), ("failed", "queued"), ("postponed", "queued"), ("failed", "failed")] * 3
    facts = [(1, Ended(claim, AttemptEnding(how), seconds=0.3 * n), state) for n, (how, state) in enumerate(endings)]
    other = Sheet()

    emit_all(events.AttemptStarted, [(1, claim, None)] * len(facts))
    emit_all(events.AttemptEnded, facts)
    together = sheet.figures()
    stop = measure(other)
    try:
        for each in facts:
            emit(events.AttemptStarted.of((1, claim, None)))
            emit(events.AttemptEnded.of(each))
    finally:
        stop()

    assert _rounded(together) == _rounded(other.figures())
    other.close()


def _rounded(figures: list[Figure]) -> dict[tuple[str, ...], list[float]]:
    return {(each.name, *each.labels): [round(cell, 6) for cell in each.cells] for each in figures}


def test_an_attempt_that_has_begun_is_counted_although_none_has_ended(sheet: Sheet) -> None:
    read = Sheet(os.dup(sheet.file))
    emit_all(events.AttemptStarted, [(1, object(), None)])

    sheet.settle()

    assert value(read, "retoma_events_total", "attempt.started") == 1, "another process reads it"
    read.close()


def test_a_sheet_that_is_counted_on_twice_counts_once(sheet: Sheet) -> None:
    again = measure(sheet)
    emit(events.JobsExpired(jobs=1))
    again()
    emit(events.JobsExpired(jobs=1))

    assert value(sheet, "retoma_events_total", "jobs.expired") == 2


def test_ten_thousand_documents_add_no_series(sheet: Sheet) -> None:
    def tell(document: int) -> None:
        job = {**JOB, "job": document, "correlation": f"request-{document}", "batch": document // 100}
        emit(events.StepCompleted(**job, step=f"page/{document}", duration_ms=1.0, size=1))
        emit(events.StepRestored(**job, step=f"file/{document}/text"))
        emit(events.AttemptEnded(**job, state="failed", ending="failed", duration_ms=1.0, error=f"no {document}.pdf"))

    tell(0)
    before = len(sheet.figures())
    for document in range(1, 10_000):
        tell(document)

    assert len(sheet.figures()) == before


def test_names_beyond_the_limit_of_a_metric_collapse_and_none_is_lost(sheet: Sheet) -> None:
    most = BY_NAME["retoma_jobs_claimed_total"].most
    for number in range(3 * most):
        emit(events.JobsClaimed(worker=1, queue=f"queue-{number}", jobs=1, waited=()))

    told = [each for each in sheet.figures() if each.name == "retoma_jobs_claimed_total"]
    assert len(told) == most + 1
    assert sum(each.cells[0] for each in told) == 3 * most
    assert value(sheet, "retoma_jobs_claimed_total", "other") == 2 * most


def test_a_full_sheet_counts_what_it_knows_and_raises_nothing(sheet: Sheet) -> None:
    for metric in METRICS:
        for number in range(metric.most):
            key = (metric.name, *(f"{'x' * 110}{number}" for _ in metric.labels))
            sheet.observe(key, 1.0) if metric.buckets else sheet.add(key)
    emit(events.JobsExpired(jobs=1))

    assert len(sheet.figures()) > 100


_COUNTS = """
import os, sys
from retoma.telemetry.sheet import Sheet
sheet = Sheet(int(sys.argv[1]))
for _ in range(1000):
    sheet.add(("retoma_jobs_claimed_total", "default"))
    sheet.observe(("retoma_job_wait_seconds", "default"), 0.5)
os.kill(os.getpid(), 9)
"""


def test_a_process_that_is_killed_loses_nothing_and_the_next_one_goes_on() -> None:
    sheet = Sheet()

    ended = [
        subprocess.run([sys.executable, "-c", _COUNTS, str(sheet.file)], pass_fds=[sheet.file], check=False).returncode
        for _ in range(2)
    ]

    assert ended == [-signal.SIGKILL] * 2
    assert value(sheet, "retoma_jobs_claimed_total", "default") == 2000
    (waits,) = [each for each in sheet.figures() if each.name == "retoma_job_wait_seconds"]
    assert (sum(waits.cells[:-1]), waits.cells[-1]) == (2000, 1000.0)
    sheet.close()


def test_sheets_are_added_and_of_times_the_last_counts() -> None:
    one, two = Sheet(), Sheet()
    for sheet, at in ((one, 100.0), (two, 90.0)):
        sheet.add(("retoma_jobs_claimed_total", "default"), 2)
        sheet.set(("retoma_watchdog_last_run_timestamp_seconds",), at)

    assert added([one, two]) == [
        Figure("retoma_jobs_claimed_total", ("default",), (4.0,)),
        Figure("retoma_watchdog_last_run_timestamp_seconds", (), (100.0,)),
    ]
    one.clear_gauges()
    assert value(one, "retoma_watchdog_last_run_timestamp_seconds") == 0
    assert value(one, "retoma_jobs_claimed_total", "default") == 2, "a counter stays"
    for sheet in (one, two):
        sheet.close()


def test_promtool_finds_no_fault_with_any_metric() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    figures = [build("0001")]
    for metric in METRICS:
        labels = tuple(f"a {label}" for label in metric.labels)
        figures.append(Figure(metric.name, labels, (1.0,) * (len(metric.buckets) + 2 if metric.buckets else 1)))

    told = subprocess.run(
        [promtool, "check", "metrics"], input=text_of(figures), capture_output=True, check=False, env=dict(os.environ)
    )

    assert (told.returncode, told.stdout + told.stderr) == (0, b"")
