"""Which listed offers are worth a test, and why the others are not: all that a list alone can tell."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal

from retoma.pipelines.quotes.blocks import Product
from retoma.pipelines.quotes.model import Terms
from retoma.pipelines.quotes.ports import Analysis, Offer, Refusal, SourceKind
from retoma.pipelines.quotes.pricing.domains import Shops, domain_of
from retoma.pipelines.quotes.sources import Tested

_WORD = re.compile("[a-z0-9]+")
_FIRST = (SourceKind.OFFICIAL, SourceKind.CONTRACT)

Judged = tuple[list[Offer], list[Tested]]


def worth_testing(offers: Iterable[Offer], analysis: Analysis, terms: Terms) -> Judged:
    """The offers that may be tested, the cheapest first, and those that are refused unseen."""
    good: dict[str, Offer] = {}
    refused: dict[str, Tested] = {}
    for offer in offers:
        if offer.key in good or offer.key in refused:
            continue  # the same offer in two places of one list
        reason, message = _refusal(offer, analysis, terms)
        if reason is None:
            good[offer.key] = offer
        else:
            refused[offer.key] = refused_offer(offer, reason, message)
    cheapest = sorted(good.values(), key=lambda each: (each.price, each.key))
    return cheapest[: terms.most_products], list(refused.values())


def products_of(offers: Sequence[Offer]) -> list[Product]:
    """As the search for blocks sees them: official prices come first."""
    return [Product(each.key, each.price, 0 if each.kind in _FIRST else 1) for each in offers]


def refused_offer(offer: Offer, reason: Refusal, message: str = "", *, url: str | None = None) -> Tested:
    """An offer that does not count."""
    return Tested(
        key=offer.key,
        kind=str(offer.kind),
        provider=offer.source,
        title=offer.title,
        seller=offer.seller,
        url=url or offer.url,
        domain=offer.domain or domain_of(url or offer.url or "") or None,
        listed_price=offer.price,
        currency=offer.currency,
        dated=offer.dated,
        reason=str(reason),
        message=message or None,
        detail=dict(offer.detail),
    )


def price_refusal(price: Decimal, currency: str, terms: Terms) -> tuple[Refusal, str] | None:
    """Why a price cannot be one, by itself."""
    if currency != "BRL":
        return Refusal.FOREIGN_CURRENCY, f"The price is in {currency}."
    if not price.is_finite() or not terms.lowest_price <= price <= terms.highest_price:
        return Refusal.INVALID_PRICE, f"{price} is not between {terms.lowest_price} and {terms.highest_price}."
    return None


def shops_of(terms: Terms) -> Shops:
    """The shops that a project lets count. Which are Brazilian is for whoever opens their pages to say."""
    return Shops(blocked=terms.blocked_domains, national=("",))


def _refusal(offer: Offer, analysis: Analysis, terms: Terms) -> tuple[Refusal | None, str]:
    if offer.refused is not None:
        return offer.refused, "The list says so."
    if wrong := price_refusal(offer.price, offer.currency, terms):
        return wrong
    title = f" {_plain(offer.title)} "
    for term in analysis.termos_excluir:
        if (words := _plain(term)) and f" {words} " in title:
            return Refusal.SPEC_MISMATCH, f"The title has {term[:40]!r}: another thing."
    if offer.url is not None and offer.kind is SourceKind.SHOP and (unfit := shops_of(terms).refusal(offer.url)):
        return unfit.reason, unfit.detail
    return None, ""


def _plain(text: str) -> str:
    bare = unicodedata.normalize("NFKD", text[:500]).encode("ascii", "ignore").decode().lower()
    return " ".join(_WORD.findall(bare))
