"""What a log line carries: the names that the worker scale-out document asks for."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from retoma.model.job import AttemptEnding, Claim, Ended
from retoma.telemetry import Event, emit, emit_all, heard, listen, redaction
from retoma.telemetry.events import AttemptEnded, AttemptStarted, CallAnswered, JobRecovered, JobsExpired
from retoma.telemetry.forms import in_pieces, piece_of
from retoma.telemetry.logs import write_to
from retoma.telemetry.redaction import hide

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


# — many lines at once —


def ended(number: int, **more: object) -> tuple[int, Ended, str]:
    """The facts of an attempt; what is not said is as plain as can be."""
    told: dict[str, object] = {
        "id": number, "batch_id": None, "queue": "work", "lane_id": None, "pipeline": "read", "key": None, "attempt": 1,
        "max_attempts": 3, "crashes": 0, "fence": 1, "signals": 0, "timeout_seconds": 120.0, "correlation_id": None,
        "traceparent": None, "input": "1",
    }  # fmt: skip
    state = str(more.pop("state", "completed"))
    of_ending = {name: more.pop(name) for name in ("ending", "reason", "error") if name in more}
    ending = AttemptEnding(of_ending.pop("ending", "completed"))
    claim = Claim(**told | more)  # type: ignore[arg-type]
    return 3, Ended(claim, ending, seconds=0.0123456 * number, **of_ending), state  # type: ignore[arg-type]


UNLIKE = [
    ended(1),
    ended(2, batch_id=9),
    ended(3, correlation_id="0190e5a2-7c8e-7000-8000-0123456789ab"),
    ended(4, correlation_id="0190e5a2-7c8e-7000-8000-0123456789ab", batch_id=9, attempt=2, fence=5),
    ended(5, correlation_id="request-4711"),
    ended(6, pipeline='100 % "ação"\n', queue="fila ç", batch_id=1),
    ended(7, ending="failed", state="queued", reason="ValueError", error="broken: password=hunter2secret"),
    ended(8, state="skipped", ending="skipped", reason="seen before"),
    ended(9, state="review"),
    ended(10, correlation_id="0" * 200),
]


def test_lines_of_many_attempts_say_what_the_line_of_each_says(lines: io.StringIO) -> None:
    emit_all(AttemptEnded, UNLIKE)
    together = [json.loads(line) for line in lines.getvalue().splitlines()]
    lines.truncate(lines.seek(0))
    for each in UNLIKE:
        emit(AttemptEnded.of(each))
    one_by_one = [json.loads(line) for line in lines.getvalue().splitlines()]

    for line in (*together, *one_by_one):
        del line["at"]
    assert [list(line) for line in together] == [list(line) for line in one_by_one]
    assert together == one_by_one
    assert "hunter2secret" not in str(together)


def test_a_secret_that_is_known_by_its_value_is_in_none_of_many_lines(lines: io.StringIO) -> None:
    secret = "5ec2e7005ec2e7005ec2e700"
    hide(secret)

    emit_all(AttemptEnded, [ended(1, correlation_id=secret), ended(2, correlation_id=f"{secret}-1")])

    assert secret not in lines.getvalue()
    assert lines.getvalue().count("[redacted]") == 2


def test_no_sign_of_a_secret_fits_into_an_id_that_is_not_looked_at() -> None:
    assert not [sign for sign in redaction._SIGNS if redaction._ID.fullmatch(sign)]
    assert redaction.harmless("0190e5a2-7c8e")
    assert not redaction.harmless("sk-0190e5a2")


def test_lines_are_written_in_pieces_that_a_pipe_takes_as_a_whole() -> None:
    lines = [f"{number} " + "é" * 300 for number in range(40)]

    pieces = list(in_pieces(lines))

    assert "".join(pieces) == "".join(f"{line}\n" for line in lines)
    assert 1 < len(pieces) < len(lines)
    assert all(len(piece.encode()) <= 4096 for piece in pieces)
    assert list(in_pieces(["x" * 5000])) == ["x" * 5000 + "\n"]
    assert list(in_pieces([])) == []


def test_a_file_gets_the_lines_of_a_group_at_once_and_a_pipe_in_pieces(tmp_path: Path) -> None:
    read, write = os.pipe()
    with (tmp_path / "log").open("w") as file, os.fdopen(read), os.fdopen(write, "w") as pipe:
        lines = ["x" * 80] * 400

        assert len(list(in_pieces(lines, piece_of(file)))) == 1
        assert len(list(in_pieces(lines, piece_of(pipe)))) > 1
        assert len(list(in_pieces(lines, piece_of(io.StringIO())))) > 1


def test_a_listener_that_reads_no_facts_hears_every_event_of_them() -> None:
    told: list[Event] = []
    read: list[object] = []
    ends = [listen(told.append), listen(told.append, readers={AttemptEnded: read.extend})]
    try:
        emit_all(AttemptEnded, UNLIKE[:2])
    finally:
        for end in ends:
            end()

    assert told == [AttemptEnded.of(each) for each in UNLIKE[:2]]
    assert read == UNLIKE[:2]
