"""What a request used, and what each kind of it costs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

_MILLION = Decimal(1_000_000)
_NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a request consumed, in the provider's own count."""

    input_tokens: int = 0
    """All of them: read from a cache, written to one, or neither."""
    output_tokens: int = 0
    """All of them, with those that the model reasoned with."""
    cached_tokens: int = 0
    """Input tokens that were read from the provider's cache."""
    cache_write_tokens: int = 0
    """Input tokens that were written to the provider's cache."""
    cache_write_1h_tokens: int = 0
    """Of those, what is kept for an hour and not for minutes."""
    reasoning_tokens: int = 0
    """Output tokens that the model reasoned with."""
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0
    units: int = 0
    """Pages, searches, images: what is billed and is not tokens."""
    tier: str = ""
    """The service tier that was billed ("flex", "priority", "batch"…); the standard one has no name."""
    cost: Decimal | None = None
    """What the provider says it cost, in US dollars; None when it says nothing."""
    reported: bool = True
    """Whether the provider said what was used. When it did not, the counts here say nothing of the cost."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A rate that depends on how long the whole input is: the last step that is passed holds for every token."""

    base: Decimal
    steps: tuple[tuple[int, Decimal], ...]
    """How many tokens must be passed, in ascending order, and what a million costs then."""


Rate = Decimal | Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per million tokens of each kind, per unit and per request. A kind without a rate of its own costs what
    the kind costs that it is part of.
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
        """What *usage* costs; None when it cannot be told."""
        # No provider says how much of the cached input was sound, so two rates of their own leave it open.
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
    """What *whole* tokens cost, some of which are *parts* with rates of their own; *context* decides on steps."""
    rest, total = whole, _NOTHING
    for own, count in parts:
        if own is not None:
            rest -= count
            total += _rate(own, context) * count / _MILLION
            if count < 0:
                return None
    if rest < 0:  # parts that are more than their whole: what was billed is anybody's guess
        return None
    if rate is None:
        return None if rest else total
    return total + _rate(rate, context) * rest / _MILLION


def _rate(rate: Rate, context: int) -> Decimal:
    if isinstance(rate, Decimal):
        return rate
    return next((price for start, price in reversed(rate.steps) if context > start), rate.base)
