"""What an answer cost is what the invoice will say: shapes of usage as providers send them, judged by genai-prices.

The judge reads the same body by itself: its own extraction, its own arithmetic. What it cannot price is unknown to us,
and not free.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
import pytest
from genai_prices import data_snapshot

from retoma.calls.prices import tariff_of
from retoma.model.rates import Usage
from retoma.providers.usage import of_completion, of_message

SHAPES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "usage_shapes.json").read_text(encoding="utf-8"))
AT = datetime(2026, 11, 17, 12, tzinfo=UTC)
STANDARD = (None, "default", "standard", "on_demand")


def judged(shape: dict[str, Any], at: datetime = AT) -> Decimal | None:
    """What genai-prices makes of *shape*: None where it knows no model, no usage, or no such tier."""
    body = shape["body"]
    try:
        if "meaning" in shape:  # the judge does not know this spelling, so it is told in its own words
            _, model = data_snapshot.get_snapshot().find_provider_model(body["model"], None, shape["provider"], None)
            seller = data_snapshot.get_snapshot().find_provider(None, shape["provider"], None)
            usage = genai_prices.Usage(**shape["meaning"])
            return model.calc_price(usage, seller, genai_request_timestamp=at).total_price
        found = genai_prices.extract_usage(body, provider_id=shape["provider"], api_flavor=shape["flavor"])
        assert found.model is not None
        return (
            found.calc_price(genai_request_timestamp=at, price_context=told).total_price
            if (told := context(shape, found)) is not None
            else None
        )
    except (LookupError, ValueError):
        return None


def context(shape: dict[str, Any], found: Any) -> dict[str, str] | None:
    """The tier of *shape* in the judge's words, or None when it has no price for it."""
    usage = shape["body"].get("usage") or {}
    if usage.get("speed") == "fast" or usage.get("inference_geo") == "us":
        return None  # sold at prices of their own, which it does not know
    tier = shape.get("tier") or shape["body"].get("service_tier") or usage.get("service_tier")
    if tier in STANDARD:
        return {}
    wanted = {"processing": tier} if tier == "batch" else {"service_tier": tier}
    sold = any(each is found.model for each in found.provider.models)
    known = [each.when for each in found.model.price_variants or ()]
    return wanted if sold and wanted in known else None


def read(shape: dict[str, Any]) -> Usage:
    body = shape["body"]
    if shape["provider"] == "anthropic":
        usage = of_message(body.get("usage"))
    else:
        usage = of_completion(body.get("usage"), body.get("service_tier"), answers=shape["flavor"] != "embeddings")
    return replace(usage, tier=shape["tier"]) if "tier" in shape else usage


def reckoned(shape: dict[str, Any]) -> tuple[Decimal | None, str]:
    model = shape["body"]["model"]
    return tariff_of(shape["provider"], shape.get("asked", model), (), at=AT).cost(read(shape), model=model)


@pytest.mark.parametrize("shape", SHAPES, ids=[shape["name"] for shape in SHAPES])
def test_a_call_costs_what_the_invoice_says(shape: dict[str, Any]) -> None:
    amount, basis = reckoned(shape)

    if "said" in shape:
        assert (amount, basis) == (Decimal(shape["said"]), "provider")
    else:
        expected = judged(shape)
        assert amount == expected
        assert basis == "public" if expected is not None else basis in ("unpriced", "unreported")


def test_the_table_is_wide_enough_to_judge() -> None:
    priced = [shape for shape in SHAPES if "said" not in shape and judged(shape) is not None]
    names = [shape["name"] for shape in SHAPES]

    assert len(names) == len(set(names))
    assert len(priced) >= 60
    assert {shape.get("tier") or shape["body"].get("service_tier") for shape in priced} >= {"batch", "flex", "priority"}
    assert any(judged(shape) == 0 for shape in priced)
    assert len([shape for shape in SHAPES if "said" not in shape and judged(shape) is None]) >= 10


KINDS = [
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "audio_input_tokens",
    "audio_output_tokens",
    "units",
    "tier",
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_usage_can_be_dropped_without_being_noticed(kind: str) -> None:
    plain = getattr(Usage(), kind)
    noticed = 0
    for shape in SHAPES:
        if "said" in shape or (expected := judged(shape)) is None:
            continue
        model = shape["body"]["model"]
        poorer = replace(read(shape), **{kind: plain})
        noticed += tariff_of(shape["provider"], model, (), at=AT).cost(poorer, model=model).amount != expected

    assert noticed > 0
