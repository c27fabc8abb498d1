"""The nouns of calls: one request to a provider, what it cost, what is allowed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import orjson

from retoma.errors import Unstorable

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a provider, as far as the desk cares."""

    provider: str
    model: str
    body: Mapping[str, Any]
    """What makes it equal to another: plain JSON."""
    input_tokens: int
    output_tokens: int
    """At most."""
    timeout: float
    account: str = ""
    """Whose key it is, where the provider says so; never the key."""
    units: int = 0
    kind: str = "first"
    reuse: bool = True
    in_doubt: str = "retry"
    """What to do when an earlier attempt asked and nobody knows the answer: "retry" or "hold"."""
    kept: float = 0.0
    """Seconds for which its result can be looked for, when it is handed in and answered later."""

    @property
    def limit(self) -> str:
        """Who is asked, in the words of limits and prices."""
        return f"{self.provider}/{self.model}"

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits that it may count against, the narrowest first."""
        narrow = (f"{self.limit}/{self.account}",) if self.account else ()
        return (*narrow, self.limit, self.provider)

    @property
    def looks(self) -> tuple[str, ...]:
        """The same for looks at what was handed in: services allow more of them, and count them apart."""
        return tuple(f"{name}/results" for name in self.limits)

    @property
    def bills(self) -> bool:
        """Whether it may cost something."""
        return bool(self.input_tokens or self.output_tokens or self.units)

    def key(self) -> str:
        """The same for equal requests, whoever makes them."""
        said = {"provider": self.provider, "model": self.model, "body": self.body}
        try:
            return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()
        except TypeError as error:  # half of a character, or a parameter that is no JSON
            raise Unstorable(
                f"What {self.limit} was to be asked cannot be written down: {error}.",
                next="Ask for text and JSON alone; text.encode('utf-8', 'replace').decode() mends broken text.",
            ) from None


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
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    units: int
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
    """What was paid under a name: a provider, a model, a day, a step, a batch or a job."""

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
    name: str
    """Of the limit that counts."""
