"""The values of calls: one request to a provider, its cost, and the limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from retoma.model.ids import CallId
from retoma.model.rates import Rates

PRICE_UNKNOWN = "price_unknown"
"""The reason of a batch that is paused because its budget cannot be enforced: the price of a call is
unknown. The model follows.
"""
BY_UNIT = " by unit"
"""The suffix after the model when it is billed by the unit, and not by tokens."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a provider, recorded before it was sent and again when it was answered."""

    id: CallId
    tenant: str
    key: str
    provider: str
    model: str
    job_id: int | None
    batch_id: int | None
    step: str | None
    kind: str
    """"first", "again" after one whose answer is in doubt, or "repair" of an answer that did not fit."""
    state: str
    """"open", "answered", "failed" (no answer; billed only if it has a cost) or "doubtful" (unknown)."""
    request: str
    answer: str | None
    text: str | None
    finish: str | None
    request_id: str | None
    status: int | None
    error: str | None
    reserved: Decimal
    cost: Decimal | None
    """In US dollars; None when it was not billed or the cost is unknown: *cost_basis* says why."""
    cost_basis: str | None
    """How the cost is known: "provider" (it said so), "own" or "public" (by price), "free"; or why it is not:
    "unpriced" (no price is known), "unreported" (the provider did not report the usage). None while nothing is billed.
    """
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cache_write_1h_tokens: int
    reasoning_tokens: int
    audio_input_tokens: int
    audio_output_tokens: int
    units: int
    tier: str
    pipeline: str | None
    reused: int
    asked_at: datetime
    answered_at: datetime | None


class Opened(NamedTuple):
    """The outcome of an intent: an equal call that was answered or is in flight, a call that was opened
    or taken over, or none.
    """

    mine: bool
    known: int | None
    opened: int | None
    doubts: int
    budget: Decimal | None
    asked: int | None
    here: bool
    """Whether this executor makes that call."""
    ours: bool
    """Whether this attempt makes that call."""
    operation: str | None
    """The operation of a call that was taken over: it was submitted before."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What was paid under a name: a provider, a model, a day, a pipeline, a step, a batch or a job. The amounts are the
    known costs; *unpriced* counts the calls that were billed at an unknown cost beside them.
    """

    name: str
    calls: int
    answered: int
    reused: int
    """How often an answer was reused at no cost."""
    useful: Decimal
    again: Decimal
    """Repairs, and requests that were sent again because the first answer was lost."""
    lost: Decimal
    """What was billed for requests without an answer."""
    doubtful: Decimal
    """The reservations of requests that may have been billed."""
    unpriced: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    units: int

    @property
    def paid(self) -> Decimal:
        """All that was paid, useful or not."""
        return self.useful + self.again + self.lost


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs from a day on, in US dollars: per million tokens of each kind, and per unit (page, search,
    image). A kind whose price is None costs as much as the kind that it is part of.
    """

    provider: str
    model: str
    tier: str
    """Its service tier; the standard one has no name."""
    since: date
    input: Decimal
    cached: Decimal
    cache_write: Decimal | None
    cache_write_1h: Decimal | None
    output: Decimal
    reasoning: Decimal | None
    audio_input: Decimal | None
    audio_output: Decimal | None
    unit: Decimal
    source: str

    @property
    def rates(self) -> Rates:
        """The same for computing costs."""
        return Rates(
            input=self.input,
            cached=self.cached,
            cache_write=self.cache_write,
            cache_write_1h=self.cache_write_1h if self.cache_write_1h is not None else self.cache_write,
            output=self.output,
            reasoning=self.reasoning,
            audio_input=self.audio_input,
            audio_output=self.audio_output,
            unit=self.unit,
        )


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a provider under a name, and its current state."""

    name: str
    requests: int | None
    tokens: int | None
    at_once: int | None
    cooled_until: datetime | None
    reason: str | None
    failures: int
    opened_until: datetime | None
    under_way: int


class Grant(NamedTuple):
    """What an executor was granted of a limit, or how long it must wait."""

    requests: float
    tokens: float
    places: int
    wait: float
    reason: str | None
    probe: bool
    seated: bool
    """Whether its slots are counted, because concurrency is limited."""
    counted: bool
    """Whether its requests or tokens are counted, because the rate is limited."""
    name: str
    """The name of the limit that applies."""
