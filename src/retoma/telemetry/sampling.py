"""How many traces are recorded, unless OTEL_TRACES_SAMPLER says it. It needs OpenTelemetry's SDK."""

from __future__ import annotations

import threading
import time
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, SamplingResult

from retoma.telemetry.tracing import GIVEN

EACH_SECOND = 10.0
"""Traces that a process begins in a second, at most. A trace of one span costs as much as a job that does nothing."""


_WHOLE = 0.999  # sums of fractions of a second are not exact


class Pace:
    """So many in a second and no more; what a second did not use is there in the next. Work that takes its time is
    traced whole, and of a flood there are examples.
    """

    def __init__(self, each_second: float) -> None:
        self._each_second = each_second
        self._left = each_second
        self._at = time.monotonic()
        self._next = 0.0  # before this moment there is none
        self._lock = threading.Lock()

    def rests(self) -> float:
        """Seconds until one more may begin; 0 when it may now."""
        return max(0.0, self._next - time.monotonic())

    def takes(self) -> bool:
        """Whether one more may begin now."""
        now = time.monotonic()
        if now < self._next:
            return False  # most of a flood ends here
        with self._lock:
            self._left = min(self._each_second, self._left + (now - self._at) * self._each_second)
            self._at = now
            taken = self._left >= _WHOLE
            self._left -= taken
            if self._left < _WHOLE:
                self._next = now + (1 - self._left) / self._each_second
            return taken


class Paced(Sampler):
    """Roots at a pace, and whatever has a parent as its parent."""

    def __init__(self, each_second: float = EACH_SECOND) -> None:
        self.pace = Pace(each_second)
        self._as_parent = ParentBased(ALWAYS_ON)

    def should_sample(
        self, parent_context: Any, trace_id: int, name: str, *more: Any, **options: Any
    ) -> SamplingResult:
        parent = trace.get_current_span(parent_context).get_span_context()
        decided = parent.is_valid or getattr(GIVEN, "ids", None) is not None
        sampler = self._as_parent if decided or self.pace.takes() else ALWAYS_OFF
        return sampler.should_sample(parent_context, trace_id, name, *more, **options)

    def get_description(self) -> str:
        return f"Paced({EACH_SECOND:g}/s)"
