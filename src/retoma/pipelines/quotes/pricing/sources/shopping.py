"""Shops, by Google Shopping as SerpAPI tells it: a search that lists prices, and a second call for the address."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from retoma.pipelines.quotes.ports import Analysis, Method, Offer, Refusal, SourceKind
from retoma.pipelines.quotes.pricing import money
from retoma.pipelines.quotes.pricing.domains import domain_of
from retoma.pipelines.quotes.pricing.offers import cents, key_of
from retoma.providers import Offers, PriceSearch
from retoma.providers.serpapi import SERPAPI, SerpApi, SerpApiStores


class GoogleShopping:
    """What shops ask for a thing; a price counts once the page of the shop was read."""

    kind = SourceKind.SHOP
    method = Method.GOOGLE_SHOPPING
    opens_pages = True

    def __init__(self, *, key: str, base_url: str = SERPAPI) -> None:
        self._search = SerpApi(key=key, base_url=base_url)
        stores = SerpApiStores(key=key, base_url=base_url)
        self.provider = self._search.provider
        self.parameters = self._search.parameters
        self.account = self._search.account
        self.details: PriceSearch | None = stores
        self._all = (self._search, stores)

    def query_for(self, analysis: Analysis) -> str | None:
        """The main query; for a vehicle, the one for shops."""
        if analysis.is_vehicle:
            return analysis.fallback_google_shopping
        return analysis.query_principal or analysis.nome_canonico or None

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """The answer as it came."""
        return await self._search.search(query, limit=limit, timeout=timeout)

    def read(self, found: Offers) -> Sequence[Offer]:
        """The offers in an answer. The price is the cash price: never that of an instalment, never the old one."""
        rows = json.loads(found.raw).get("shopping_results") or []
        return [offer for row in rows if isinstance(row, dict) for offer in _offer(row, self.provider)]

    async def aopen(self) -> None:
        for each in self._all:
            await each.aopen()

    async def aclose(self) -> None:
        for each in self._all:
            await each.aclose()


def _offer(row: dict[str, Any], provider: str) -> Sequence[Offer]:
    title = str(row.get("title") or "").strip()
    told = str(row.get("price") or "")[:80]
    amount = next(money.amounts(told), None)
    price = money.price(row.get("extracted_price")) or (amount.value if amount else None)
    if not title or not price:
        return ()
    part = row.get("installment")
    part_price = money.price(part.get("extracted_price")) if isinstance(part, dict) else None
    currency = amount.currency if amount else "BRL"
    refused = None
    if (amount and amount.is_instalment) or (part_price is not None and cents(part_price) == cents(price)):
        refused = Refusal.INSTALMENT_PRICE
    elif money.price(row.get("extracted_old_price")) == price:
        refused = Refusal.OLD_PRICE
    elif currency != "BRL":
        refused = Refusal.FOREIGN_CURRENCY
    elif not money.LEAST <= price <= money.MOST:
        refused = Refusal.INVALID_PRICE
    link = row.get("link") or None
    return (
        Offer(
            title=title,
            price=cents(price),
            currency=currency,
            url=link,
            domain=domain_of(link) if link else None,
            source=provider,
            key=key_of(f"{title}|{row.get('source') or ''}", price),
            kind=SourceKind.SHOP,
            token=row.get("immersive_product_page_token") or None,
            seller=row.get("source") or None,
            refused=refused,
        ),
    )
