"""How many traces a process begins when nobody says it."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from retoma.telemetry import sampling
from retoma.telemetry.sampling import Pace, Paced
from retoma.telemetry.tracing import NOBODY, Spans, attempt_context, traceparent_of


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(sampling.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_of_a_flood_so_many_are_taken_as_the_pace_says(clock: Clock) -> None:
    pace = Pace(10)
    taken = 0
    for _ in range(3000):
        taken += pace.takes()
        clock.now += 0.001

    assert 10 + 29 <= taken <= 10 + 30


def test_slow_work_is_taken_whole(clock: Clock) -> None:
    pace = Pace(10)

    def next_one() -> bool:
        clock.now += 0.11
        return pace.takes()

    assert all(next_one() for _ in range(500))


def test_it_says_how_long_nothing_more_is_taken(clock: Clock) -> None:
    pace = Pace(10)
    assert pace.rests() == 0
    while pace.takes():
        pass

    seconds = pace.rests()
    clock.now += seconds

    assert 0 < seconds <= 0.1
    assert pace.takes()


def test_what_has_a_parent_is_recorded_as_its_parent(clock: Clock) -> None:
    sampler = Paced(each_second=1)
    while sampler.pace.takes():
        pass

    def sampled(flags: int) -> bool:
        parent = SpanContext(7, 7, is_remote=True, trace_flags=TraceFlags(flags))
        context = trace.set_span_in_context(NonRecordingSpan(parent), Context())
        return sampler.should_sample(context, 7, "inside").decision.is_sampled()

    assert sampled(TraceFlags.SAMPLED)
    assert not sampled(TraceFlags.DEFAULT)
    assert not sampler.should_sample(Context(), 8, "a root").decision.is_sampled()
    clock.now += 1.0
    assert sampler.should_sample(Context(), 9, "a root").decision.is_sampled()


def test_what_is_not_sampled_is_never_linked_to() -> None:
    assert traceparent_of(NOBODY) is None


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_share_of_the_attempts_is_the_share_that_the_sampler_would_take(wrapped: bool) -> None:
    ratio: Sampler = TraceIdRatioBased(0.3)
    sampler = ParentBased(ratio) if wrapped else ratio
    spans = _spans(sampler)

    found = [spans.samples(job, 1, None, "home") for job in range(300)]

    ids = [attempt_context(job, 1, None, "home").trace_id for job in range(300)]
    assert found == [sampler.should_sample(Context(), id, "process").decision.is_sampled() for id in ids]
    assert 50 < sum(found) < 130


@pytest.mark.parametrize(("sampler", "taken"), [(ALWAYS_ON, 5), (ALWAYS_OFF, 0), (ParentBased(ALWAYS_ON), 5)])
def test_samplers_without_a_share_decide_themselves(sampler: Sampler, taken: int) -> None:
    spans = _spans(sampler)

    assert sum(spans.samples(job, 1, None, "home") for job in range(5)) == taken


def _spans(sampler: Sampler) -> Spans:
    return Spans(TracerProvider(sampler=sampler, shutdown_on_exit=False))
