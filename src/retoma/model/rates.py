"""The usage of a request, and what each kind of usage costs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

_MILLION = Decimal(1_000_000)
_NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a request used, as the provider counts it."""

    input_tokens: int = 0
    """All input tokens, cached or not."""
    output_tokens: int = 0
    """All output tokens, reasoning included."""
    cached_tokens: int = 0
    """Input tokens that were read from the provider's cache."""
    cache_write_tokens: int = 0
    """Input tokens that were written to the provider's cache."""
    cache_write_1h_tokens: int = 0
    """The part of those that is kept for an hour and not for minutes."""
    reasoning_tokens: int = 0
    """Output tokens of the model's reasoning."""
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0
    units: int = 0
    """Pages, searches, images: what is billed and is not tokens."""
    tier: str = ""
    """The service tier that was billed ("flex", "priority", "batch"…); the standard one has no name."""
    cost: Decimal | None = None
    """The cost that the provider states, in US dollars; None when it states none."""
    reported: bool = True
    """Whether the provider reported the usage. If not, the counts here say nothing about the cost."""


@dataclass(frozen=True, slots=True)
class TieredRate:
    """A rate that depends on the length of the whole input: the last step that is passed applies to every token."""

    base: Decimal
    steps: tuple[tuple[int, Decimal], ...]
    """Pairs in ascending order: the number of tokens to pass, and the price of a million from there on."""


Rate = Decimal | TieredRate


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per million tokens of each kind, per unit and per request. A kind without a rate of its own costs as
    much as the kind that it is part of.
    """

    input: Rate | None = None
    output: Rate | None = None
    cached: Rate | None = None
    cache_write: Rate | None = None
    cache_write_1h: Rate | None = None
    reasoning: Rate | None = None
    audio_input: Rate | None = None
    audio_output: Rate | None = None
    cached_audio: Rate | None = None
    unit: Decimal | None = None
    request: Decimal = _NOTHING

    def cost(self, usage: Usage) -> Decimal | None:
        """The cost of *usage*; None when it cannot be computed."""
        # No provider reports how much of the cached input was audio, so with two separate rates the cost is unknown.
        if self.cached_audio is not None and usage.cached_tokens and usage.audio_input_tokens:
            return None
        kept_long = usage.cache_write_1h_tokens if self.cache_write_1h is not None else 0
        total = self.request
        for rate, whole, parts in (
            (
                self.input,
                usage.input_tokens,
                (
                    (self.cached, usage.cached_tokens),
                    (self.cache_write, usage.cache_write_tokens - kept_long),
                    (self.cache_write_1h, kept_long),
                    (self.audio_input, usage.audio_input_tokens),
                ),
            ),
            (
                self.output,
                usage.output_tokens,
                ((self.reasoning, usage.reasoning_tokens), (self.audio_output, usage.audio_output_tokens)),
            ),
        ):
            cost = _tokens(rate, whole, parts, usage.input_tokens)
            if cost is None:
                return None
            total += cost
        if usage.units:
            return None if self.unit is None else total + usage.units * self.unit
        return total


def _tokens(rate: Rate | None, whole: int, parts: tuple[tuple[Rate | None, int], ...], context: int) -> Decimal | None:
    """The cost of *whole* tokens, some of which are *parts* with rates of their own; *context* selects the step."""
    rest, total = whole, _NOTHING
    for own, count in parts:
        if own is not None:
            rest -= count
            total += _rate(own, context) * count / _MILLION
            if count < 0:
                return None
    if rest < 0:  # the parts exceed the whole: the bill is unknown
        return None
    if rate is None:
        return None if rest else total
    return total + _rate(rate, context) * rest / _MILLION


def _rate(rate: Rate, context: int) -> Decimal:
    if isinstance(rate, Decimal):
        return rate
    return next((price for start, price in reversed(rate.steps) if context > start), rate.base)
