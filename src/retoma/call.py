"""The nouns of calls: one request to a provider, what it cost, what is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a provider, written down before it was made and when it was answered."""

    id: int
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
    """"open", "answered", "failed" (nothing was billed) or "doubtful" (nobody knows)."""
    request: str
    answer: str | None
    text: str | None
    finish: str | None
    request_id: str | None
    status: int | None
    error: str | None
    reserved: Decimal
    cost: Decimal | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    units: int
    reused: int
    asked_at: datetime
    answered_at: datetime | None


class Opened(NamedTuple):
    """What became of an intent: an equal call that was answered, a call that was opened, or neither."""

    mine: bool
    known: int | None
    opened: int | None
    doubts: int
    budget: Decimal | None
    spent: Decimal | None


@dataclass(frozen=True, slots=True)
class Spend:
    """What was paid under a name: a provider, a model, a day, a step, a batch or a job."""

    name: str
    calls: int
    answered: int
    reused: int
    """How often an answer was given again for nothing."""
    useful: Decimal
    again: Decimal
    """Repairs, and requests that were made again because the first answer was lost."""
    doubtful: Decimal
    """What was reserved for requests of which nobody knows whether they were billed."""
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs from a day on, in US dollars: per million tokens, and per unit (page, search, image)."""

    provider: str
    model: str
    since: date
    input: Decimal
    cached: Decimal
    output: Decimal
    unit: Decimal
    source: str

    def cost(self, *, input_tokens: int, output_tokens: int, cached_tokens: int = 0, units: int = 0) -> Decimal:
        """What so much costs. Cached tokens are part of the input tokens."""
        fresh = max(0, input_tokens - cached_tokens)
        tokens = fresh * self.input + cached_tokens * self.cached + output_tokens * self.output
        return tokens / _MILLION + units * self.unit


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


class Slice(NamedTuple):
    """What an executor was given of a limit, or how long it must wait for some."""

    requests: float
    tokens: float
    places: int
    wait: float
    reason: str | None
    probe: bool
    seated: bool
    """Whether its places count, because there may be only so many at once."""
