"""The events of a call: that its request was sent, and what became of it."""

from __future__ import annotations

import time
from typing import Any

from retoma.calls.planned_call import PlannedCall
from retoma.providers import Answer, ProviderError
from retoma.telemetry import emit, heard
from retoma.telemetry.context import who
from retoma.telemetry.events import CallAnswered, CallFailed, CallStarted, CallSubmitted


class CallEvents:
    """Emits the events of one executor's calls, or of those of a program outside a job."""

    def __init__(self, worker_id: int | None) -> None:
        self._worker_id = worker_id

    def started(self, call: PlannedCall, id: int) -> SentRequest:
        """Call this when the request is sent."""
        sent = SentRequest(call, self._names(call, id))
        if heard(CallStarted):
            emit(CallStarted(**sent.names))
        return sent

    def _names(self, call: PlannedCall, id: int) -> dict[str, Any]:
        """What every event of the call says."""
        request, claim = call.request, call.claim
        job = who(self._worker_id or 0, claim) if claim is not None else {}
        return {
            **job,
            "call": id,
            "provider": request.provider,
            "model": request.model,
            "operation": request.verb,
            "step": call.step,
            "kind": call.kind,
        }


class SentRequest:
    """A request that was sent, and whose end is one event."""

    def __init__(self, call: PlannedCall, names: dict[str, Any]) -> None:
        self.names = names
        self._call = call
        self._began = time.monotonic()

    def answered(self, got: object) -> None:
        """The answer is written; *got* is the operation when the answer comes later."""
        if not isinstance(got, Answer):
            self.submitted()
            return
        if not heard(CallAnswered):
            return
        usage = got.usage
        emit(
            CallAnswered(
                **self.names,
                duration_ms=self._lasted(),
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                cost_usd=self._call.price.cost(usage, model=got.model).amount,
                answered_by=got.model,
                finish=got.finish,
                request_id=got.request_id,
            )
        )

    def submitted(self) -> None:
        """The provider has it, and answers later."""
        emit(CallSubmitted(**self.names, duration_ms=self._lasted()))

    def failed(self, error: BaseException) -> None:
        """There is no answer. What the provider bills all the same is counted as it was reserved."""
        status, paid = (error.status, error.paid) if isinstance(error, ProviderError) else (None, None)
        reserved = self._call.price.cost(self._call.request.estimate).amount if paid else None
        emit(
            CallFailed(
                **self.names,
                duration_ms=self._lasted(),
                error=type(error).__name__,
                http_status=status,
                cost_usd=reserved,
            )
        )

    def _lasted(self) -> float:
        return (time.monotonic() - self._began) * 1000
