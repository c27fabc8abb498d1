"""Prices are read, product by product: what was tested is not tested again, whoever is killed in between."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from retoma.pipelines.quotes.blocks import BlockSearch
from retoma.pipelines.quotes.choosing import (
    price_refusal,
    products_of,
    refused_offer,
    shops_of,
)
from retoma.pipelines.quotes.ports import Evidence, Market, Offer, PageRead, PageReader, PriceSource, Refusal
from retoma.pipelines.quotes.pricing.domains import domain_of
from retoma.pipelines.quotes.pricing.offers import Found, Refused, hold_against
from retoma.pipelines.quotes.progress import Working, as_json
from retoma.pipelines.quotes.sources import Tested
from retoma.pipelines.quotes.stages import ProcessingCheckpoint, extracting
from retoma.providers import Offers

_PAGE_SECONDS = 60.0
_PRODUCT_SECONDS = 60.0


class Extraction:
    """The search for prices among *offers*; *answers* are those of the sources, by provider."""

    def __init__(
        self, quote: Working, market: Market, offers: Sequence[Offer], answers: dict[str, tuple[str, Offers]]
    ) -> None:
        terms = quote.terms
        self._quote = quote
        self._pages = market.pages
        self._sources = {each.provider: each for each in market.sources}
        self._offers = {each.key: each for each in offers}
        self._answers = answers
        self._evidence: dict[str, Evidence] = {}
        self._shops = shops_of(terms)
        self._domains: set[str] = set()
        self.tested: list[Tested] = []
        self.search = BlockSearch(
            products_of(offers),
            wanted=terms.quotes_wanted,
            tolerance=terms.max_spread_percent,
            widen=terms.spread_step,
            ceiling=terms.spread_ceiling,
        )

    async def run(self) -> None:
        """Test until there are enough, or nothing is left that could help."""
        while (key := self.search.next()) is not None:
            found = await self._test(self._offers[key])
            if found.is_valid:
                self.search.good(key, found.price)
                self._domains.add(found.domain or "")
            else:
                self.search.bad(key)
            self.tested.append(found)
            await self._save(found)

    async def _save(self, found: Tested) -> None:
        counters = self.counters()
        await self._quote.tested(
            f"tested/{_short(found.key)}",
            [found],
            checkpoint=str(ProcessingCheckpoint.PRICE_EXTRACTION_PROGRESS),
            step="extracting_prices",
            percentage=extracting(len(self.tested), len(self._offers)),
            details=as_json(counters),
            resume_data=as_json(self.resume_data()),
        )

    def counters(self) -> dict[str, int]:
        """How far it is, in numbers."""
        valid = sum(each.is_valid for each in self.tested)
        return {
            "products": len(self._offers),
            "tested": len(self.tested),
            "valid": valid,
            "failed": len(self.tested) - valid,
            "blocks": len(self.search.history),
        }

    def resume_data(self) -> dict[str, Any]:
        """All that somebody else needs to go on at the next product."""
        return {
            "tested_products": [_told(each) for each in self.tested],
            "tolerance": self.search.tolerance,
            "counters": self.counters(),
        }

    async def _test(self, offer: Offer) -> Tested:
        source = self._sources[offer.source]
        if not source.opens_pages:
            return await self._recorded(offer, source)
        url = await self._address(offer, source)
        if url is None:
            return refused_offer(offer, Refusal.NO_STORE_LINK, "The list leads to no shop.")
        if unfit := self._shops.refusal(url, seen=self._domains):
            return refused_offer(offer, unfit.reason, unfit.detail, url=url)
        page = await self._quote.run.step(f"page/{_short(offer.key)}", _read, self._pages, url)
        return self._judged(offer, page)

    async def _recorded(self, offer: Offer, source: PriceSource) -> Tested:
        """A record of an official system: the answer that has it is its evidence."""
        query, found = self._answers[source.provider]
        if source.provider not in self._evidence:
            self._evidence[source.provider] = await self._quote.run.step(
                f"evidence/{source.provider}", keep, self._pages, found.raw, f"{source.provider}:{query}"
            )
        return Tested(
            key=offer.key,
            kind=str(offer.kind),
            provider=offer.source,
            title=offer.title,
            seller=offer.seller,
            url=offer.url,
            domain=offer.domain or domain_of(offer.url or "") or None,
            listed_price=offer.price,
            price=offer.price,
            currency=offer.currency,
            dated=offer.dated,
            method=str(source.method),
            evidence=self._evidence[source.provider],
            detail=dict(offer.detail),
        )

    async def _address(self, offer: Offer, source: PriceSource) -> str | None:
        """The shop's page; where the list does not tell it, a second call does."""
        if offer.url is not None or offer.token is None or source.details is None:
            return offer.url
        name = f"product/{_short(offer.key)}"
        found = await self._quote.run.search(
            name, source.details, offer.token, limit=10, timeout=_PRODUCT_SECONDS, reuse=False
        )
        return next((each.link for each in found.offers if each.link), None)

    def _judged(self, offer: Offer, page: PageRead) -> Tested:
        reading = self._reading(offer, page)
        refused = reading if isinstance(reading, Refused) else None
        return Tested(
            key=offer.key,
            kind=str(offer.kind),
            provider=offer.source,
            title=offer.title,
            seller=offer.seller,
            url=page.url,
            domain=page.domain or None,
            page_title=page.title,
            listed_price=offer.price,
            price=page.price,
            currency=page.currency,
            dated=offer.dated,
            method=None if page.method is None else str(page.method),
            evidence=page.evidence,
            reason=None if refused is None else str(refused.reason),
            message=(refused.detail or None) if refused else None,
            detail=dict(offer.detail),
        )

    def _reading(self, offer: Offer, page: PageRead) -> Found | Refused:
        """The price of a page, held against the rules of the project and against what the list said."""
        terms = self._quote.terms
        if page.refused is not None:
            return Refused(reason=page.refused, detail=page.message)
        if page.price is None or page.method is None:
            return Refused(reason=Refusal.EXTRACTION_FAILED, detail="No price was found on the page.")
        # Where it led in the end may be another shop than the one that was listed.
        if unfit := self._shops.refusal(page.url, seen=self._domains):
            return unfit
        if wrong := price_refusal(page.price, page.currency, terms):
            return Refused(reason=wrong[0], detail=wrong[1])
        found = Found(price=page.price, currency=page.currency, method=page.method)
        if not terms.check_listed_price:
            return found
        return hold_against(found, listed=offer.price, percent=terms.max_mismatch_percent)


async def keep(pages: PageReader, content: str, url: str) -> Evidence:
    """Keep what a service answered."""
    return await pages.keep(content, url=url, kind="application/json")


async def _read(pages: PageReader, url: str) -> PageRead:
    return await pages.read(url, timeout=_PAGE_SECONDS)


def _short(key: str) -> str:
    """A key of any length as part of the name of a step."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _told(each: Tested) -> dict[str, Any]:
    return {
        "key": each.key,
        "verdict": "VALID" if each.is_valid else "FAILED",
        "reason": each.reason,
        "address": each.url,
        "domain": each.domain,
        "price": each.price,
        "evidence": each.evidence.sha256 if each.evidence else None,
    }
