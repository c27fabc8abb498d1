"""What a log line carries: the names that the worker scale-out document asks for."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from decimal import Decimal

import pytest

from retoma.telemetry import Event, emit, heard, listen
from retoma.telemetry.events import AttemptEnded, AttemptStarted, CallAnswered, JobRecovered, JobsExpired
from retoma.telemetry.logs import write_to

ENDED = AttemptEnded(
    worker=3,
    job=7,
    pipeline="classify-document",
    attempt=2,
    correlation="abc",
    state="completed",
    ending="completed",
    duration_ms=12.3456,
)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    stop = write_to(stream, level="info", format="json", label="worker-1")
    yield stream
    stop()


def test_the_end_of_an_attempt_says_worker_job_type_attempts_status_and_duration(lines: io.StringIO) -> None:
    emit(ENDED)

    said = json.loads(lines.getvalue())
    assert (said["workerId"], said["workerLabel"]) == (3, "worker-1")
    assert said["jobId"] == 7
    assert said["jobType"] == "classify-document"
    assert said["attempts"] == 2
    assert said["status"] == "completed"
    assert said["durationMs"] == pytest.approx(12.346)
    assert said["correlationId"] == "abc"
    assert said["event"] == "attempt.ended"


def test_a_recovered_job_is_a_warning_with_the_same_names(lines: io.StringIO) -> None:
    emit(
        JobRecovered(
            worker=3,
            job=7,
            pipeline="quote-price",
            attempt=1,
            state="queued",
            ending="crashed",
            crashes=1,
            step="search",
            correlation="abc",
        )
    )

    said = json.loads(lines.getvalue())
    assert (said["level"], said["jobId"], said["jobType"], said["status"]) == ("warning", 7, "quote-price", "queued")
    assert (said["step"], said["workerId"], said["correlationId"]) == ("search", 3, "abc")


def test_what_weighs_less_than_the_level_is_not_written(lines: io.StringIO) -> None:
    emit(AttemptStarted(worker=3, job=7, pipeline="p", attempt=1))

    assert lines.getvalue() == ""


def test_the_cost_of_a_call_keeps_all_its_digits(lines: io.StringIO) -> None:
    emit(
        CallAnswered(call=3, provider="openai", model="small", operation="ask", step="ask", cost_usd=Decimal("0.00012"))
    )

    assert json.loads(lines.getvalue())["cost_usd"] == 0.00012


def test_an_event_that_nobody_wants_need_not_be_made() -> None:
    told: list[Event] = []
    stop = listen(told.append, wants=lambda kind: kind is AttemptEnded)
    try:
        assert heard(AttemptEnded)
        assert not heard(AttemptStarted)
        emit(AttemptStarted(worker=3, job=7, pipeline="read", attempt=1))
        emit(ENDED)
    finally:
        stop()

    assert told == [ENDED]
    assert not heard(AttemptEnded)


def test_in_a_terminal_a_line_is_text() -> None:
    stream = io.StringIO()
    stop = write_to(stream, level="info", format="text")
    emit(ENDED)
    stop()

    assert "attempt.ended workerId=3 jobId=7 jobType=classify-document attempts=2" in stream.getvalue()


def test_a_listener_that_fails_harms_neither_the_speaker_nor_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Event] = []

    def broken(_event: Event) -> None:
        raise OSError("no space left on device")

    ends = [listen(broken), listen(heard.append)]
    for _ in range(3):
        emit(JobsExpired(jobs=1))
    for end in ends:
        end()

    assert len(heard) == 3
    assert capsys.readouterr().err.count("A listener to events failed") == 1, "told once"


def test_not_even_when_there_is_nowhere_to_complain(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_event: Event) -> None:
        raise OSError("gone")

    monkeypatch.setattr("sys.stderr", None)
    end = listen(broken)
    emit(JobsExpired(jobs=1))
    end()


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("sign", ["\x1b[31m", "\r", "\x9b2J", "\x07", "\u202e", "\x7f"])
def test_a_line_steers_no_terminal(format: str, sign: str) -> None:
    stream = io.StringIO()
    stop = write_to(stream, level="info", format=format)
    emit(dataclasses.replace(ENDED, correlation=f"a{sign}b"))
    stop()

    (line,) = stream.getvalue().split("\n")[:-1]
    assert sign not in line
    assert f"{ord(sign[0]):02x}" in line or "\\r" in line
