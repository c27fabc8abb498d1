"""Translates the usage that providers report, each in its own format, into one Usage.

Nothing here raises: an answer was paid for, and is kept whatever its usage looks like. A count that cannot be read
makes the cost unknown, and never smaller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from retoma.model.rates import Usage

_STANDARD = frozenset(
    {"", "auto", "default", "standard", "on_demand"}
)  # names that services give to the standard tier, for which nothing extra is billed
_ANYWHERE = frozenset({"", "global", "not_available"})


class _Odd(Exception):
    """A count that no provider can mean."""


def of_completion(told: Any, tier: Any = None, *, answers: bool = True) -> Usage:
    """The usage of OpenAI's routes, and of the many services with the same protocol; *answers* when the model produced
    tokens, which an embedding does not.
    """
    said = told if isinstance(told, Mapping) else {}
    try:
        whole = _count(said, "prompt_tokens", "input_tokens")
        made = _count(said, "completion_tokens", "output_tokens") if answers else 0
        read, made_of = _part(said, "prompt_tokens_details", "input_tokens_details"), _details(said)
        reasoning = _count(made_of, "reasoning_tokens") or _count(said, "reasoning_tokens") or 0
        # Some services count reasoning tokens in addition to the output; the total shows that.
        if made is not None and reasoning and _count(said, "total_tokens") == (whole or 0) + made + reasoning:
            made += reasoning
        return Usage(
            input_tokens=whole or 0,
            output_tokens=made or 0,
            cached_tokens=_first(
                _count(read, "cached_tokens"), _count(said, "prompt_cache_hit_tokens", "cached_tokens")
            ),
            cache_write_tokens=_count(read, "cache_write_tokens") or 0,
            reasoning_tokens=reasoning,
            audio_input_tokens=_count(read, "audio_tokens") or 0,
            audio_output_tokens=_count(made_of, "audio_tokens") or 0,
            tier=_tier(tier),
            cost=_paid(said),
            reported=whole is not None and made is not None,
        )
    except _Odd:
        return Usage(tier=_tier(tier), cost=_paid(said), reported=False)


def of_message(told: Any) -> Usage:
    """The usage of Anthropic's messages. They count cache reads and writes in addition to the input."""
    said = told if isinstance(told, Mapping) else {}
    tier = "+".join(
        word
        for word in (
            _tier(said.get("service_tier")),
            _tier(said.get("speed")),
            _word(said.get("inference_geo"), _ANYWHERE),
        )
        if word
    )
    try:
        fresh, made = _count(said, "input_tokens"), _count(said, "output_tokens")
        cached = _count(said, "cache_read_input_tokens") or 0
        written = _count(said, "cache_creation_input_tokens") or 0
        return Usage(
            input_tokens=(fresh or 0) + cached + written,
            output_tokens=made or 0,
            cached_tokens=cached,
            cache_write_tokens=written,
            cache_write_1h_tokens=_count(_part(said, "cache_creation"), "ephemeral_1h_input_tokens") or 0,
            reasoning_tokens=_count(_part(said, "output_tokens_details"), "thinking_tokens") or 0,
            units=_count(_part(said, "server_tool_use"), "web_search_requests") or 0,
            tier=tier,
            reported=fresh is not None and made is not None,
        )
    except _Odd:
        return Usage(tier=tier, reported=False)


def _details(said: Mapping[str, Any]) -> Mapping[str, Any]:
    return _part(said, "completion_tokens_details", "output_tokens_details")


def _part(said: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return next((part for name in names if isinstance(part := said.get(name), Mapping)), {})


def _count(said: Mapping[str, Any], *names: str) -> int | None:
    """The first number under one of *names*; a text is none, and a negative number is no count."""
    for name in names:
        value = said.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or (isinstance(value, int | float) and (value < 0 or not isinstance(value, int))):
            raise _Odd
        if isinstance(value, int):
            return value
    return None


def _first(*counts: int | None) -> int:
    return next((count for count in counts if count is not None), 0)


def _tier(told: Any) -> str:
    return _word(told, _STANDARD)


def _word(told: Any, plain: frozenset[str]) -> str:
    said = told.strip().lower()[:40] if isinstance(told, str) else ""
    return "" if said in plain else said


def _paid(said: Mapping[str, Any]) -> Decimal | None:
    """The cost that a gateway states: its fee, and what the owner of the key pays in addition."""
    cost = _amount(said.get("cost"))
    if cost is not None and said.get("is_byok") is True:
        cost += _amount(_part(said, "cost_details").get("upstream_inference_cost")) or 0
    return cost


def _amount(told: Any) -> Decimal | None:
    if isinstance(told, bool) or not isinstance(told, int | float | str):
        return None
    try:
        amount = Decimal(str(told))
    except InvalidOperation:
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None
