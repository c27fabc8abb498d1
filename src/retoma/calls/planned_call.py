"""A call that is about to be made: its request, its job, its key, and its price."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from retoma.calls.prices import Tariff
from retoma.model.job import Claim
from retoma.providers.request import DeferredRequest, Request
from retoma.store.calls import Intent

_SLACK = 10.0  # seconds that a call may take beside the request itself: waiting for the limit, and recording


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """A request on its way through the caller."""

    claim: Claim | None
    """None for a call outside a job."""
    step: str
    request: Request[Any]
    kind: str
    """"first", "again" or "repair", as Call.kind."""
    key: str
    price: Tariff

    @property
    def tokens(self) -> int:
        """The tokens to reserve from the limits; at least one."""
        estimate = self.request.estimate
        return max(1, estimate.input_tokens + estimate.output_tokens)

    def intent(self) -> Intent:
        """The intent to record for this call."""
        claim, request = self.claim, self.request
        return Intent(
            key=self.key,
            provider=request.provider,
            model=request.model,
            job_id=claim.id if claim else None,
            fence=claim.fence if claim else None,
            step=self.step,
            kind=self.kind,
            request=orjson.dumps(request.body).decode(),
            reserved=self.price.cost(request.estimate).amount or Decimal(0),
            reuse=request.reuse,
            patience=request.timeout + _SLACK,
            kept=request.kept_seconds if isinstance(request, DeferredRequest) else 0.0,
            before=claim is not None and claim.fence > 1,
        )
