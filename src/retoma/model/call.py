"""The nouns of calls: one request to a provider, what it cost, what is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from retoma.model.ids import CallId
from retoma.model.rates import Rates

PRICE_UNKNOWN = "price_unknown"
"""Why a batch rests whose budget cannot be held, for nobody knows what a call of it costs; the model follows."""
BY_UNIT = " by unit"
"""What then follows the model when it is billed by the unit, and not by tokens."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a provider, written down before it was made and when it was answered."""

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
    """"open", "answered", "failed" (no answer; billed only if it has a cost) or "doubtful" (nobody knows)."""
    request: str
    answer: str | None
    text: str | None
    finish: str | None
    request_id: str | None
    status: int | None
    error: str | None
    reserved: Decimal
    cost: Decimal | None
    """In US dollars; None when it was not billed, or when nobody knows: then *cost_basis* says why."""
    cost_basis: str | None
    """How the cost is known: "provider" (it said so), "own" or "public" (by price), "free"; or why it is not:
    "unpriced" (no price is known), "unreported" (the provider did not say what was used). None while nothing is billed.
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
    """What became of an intent: an equal call that was answered or is asked now, a call that was opened or taken over,
    or none.
    """

    mine: bool
    known: int | None
    opened: int | None
    doubts: int
    budget: Decimal | None
    asked: int | None
    here: bool
    """Whether that one is asked by this very executor."""
    ours: bool
    """Whether it is asked by this very attempt."""
    operation: str | None
    """Where the result will be of the one that was taken over: it was handed in before."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What was paid under a name: a provider, a model, a day, a pipeline, a step, a batch or a job. Amounts are what is
    known; *unpriced* says how many calls were billed beside them at a cost that nobody knows.
    """

    name: str
    calls: int
    answered: int
    reused: int
    """How often an answer was given again for nothing."""
    useful: Decimal
    again: Decimal
    """Repairs, and requests that were made again because the first answer was lost."""
    lost: Decimal
    """What was billed for requests that gave no answer."""
    doubtful: Decimal
    """What was reserved for requests of which nobody knows whether they were billed."""
    unpriced: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    units: int

    @property
    def paid(self) -> Decimal:
        """All that was paid, whatever came of it."""
        return self.useful + self.again + self.lost


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs from a day on, in US dollars: per million tokens of each kind, and per unit (page, search,
    image). A kind whose price is None costs what the kind costs that it is part of.
    """

    provider: str
    model: str
    tier: str
    """The service tier it is for; the standard one has no name."""
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
        """The same, as it is reckoned with."""
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
    """What a provider allows under a name, and how it stands."""

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
    """What an executor was given of a limit, or how long it must wait for some."""

    requests: float
    tokens: float
    places: int
    wait: float
    reason: str | None
    probe: bool
    seated: bool
    """Whether its places count, because there may be only so many at once."""
    counted: bool
    """Whether its requests or tokens count, because there may be only so many in a minute."""
    name: str
    """Of the limit that counts."""
