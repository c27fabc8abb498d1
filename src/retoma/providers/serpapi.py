"""Offers of Google Shopping, by SerpAPI."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import httpx2
from pydantic import BaseModel

from retoma.providers import Offer, Offers, Usage
from retoma.providers.http import Reply, read, redacted
from retoma.providers.web import WebLine, patience, reply_of, web

SERPAPI = "https://serpapi.com"

_SIGN = re.compile(r"[^\d\s]+")
_CURRENCIES = {"R$": "BRL", "US$": "USD", "€": "EUR", "£": "GBP"}
_NOTHING = "hasn't returned any results"  # reported as an error, but it is an ordinary empty answer


class SerpApi:
    """Shops as seen from *country*; a price without a currency of its own is in *currency*."""

    provider = "serpapi"

    def __init__(
        self, *, key: str, country: str = "br", language: str = "pt-br", currency: str = "BRL", base_url: str = SERPAPI
    ) -> None:
        self._currency = currency
        self._where = {"engine": "google_shopping", "gl": country, "hl": language}
        self.parameters = {**self._where, "currency": currency}
        self._with_key: Callable[[httpx2.URL], bytes] = lambda url: url.copy_set_param("api_key", key).raw_path
        self._without_key: Callable[[str], str] = lambda text: redacted(text, (key,))
        self._line = WebLine(self.provider, lambda: web(base_url=base_url), secrets=(key,))
        self.account = self._line.account

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """Offers for *query*, as the shops list them; entries without a price are left out."""
        reply = await self._ask({"q": query}, timeout=timeout)
        found = read(_Found, reply.body, provider=self.provider)
        if found.error and _NOTHING not in found.error:
            raise self._line.failure(Reply(httpx2.codes.BAD_GATEWAY, reply.headers, reply.body))
        offers = [self._offer(each, each.extracted_price) for each in found.shopping_results if each.extracted_price]
        return Offers(offers=offers[:limit], raw=reply.body, usage=Usage(units=1))

    async def _ask(self, params: dict[str, str], *, timeout: float) -> Reply:
        async def say(client: httpx2.AsyncClient) -> Reply:
            request = client.build_request(
                "GET", "/search.json", params={**self._where, **params}, timeout=patience(timeout)
            )
            # This service requires the key in the URL, and URLs are logged: so the request is sent to another target
            # than the URL that it shows.
            request.extensions["target"] = self._with_key(request.url)
            reply = reply_of(await client.send(request))
            return replace(reply, body=self._without_key(reply.body))  # the answer repeats URLs

        reply = await self._line.ask(say, timeout=timeout)
        if reply.status != httpx2.codes.OK:
            raise self._line.failure(reply)
        return reply

    async def aopen(self) -> None:
        _ = self._line.client()

    async def aclose(self) -> None:
        await self._line.close()

    def _offer(self, listed: _Listed, price: Decimal) -> Offer:
        sign = _SIGN.match(listed.price)
        return Offer(
            title=listed.title,
            price=price,
            currency=_CURRENCIES.get(sign[0] if sign else "", self._currency),
            source=listed.source,
            link=listed.product_link or listed.link,
        )


class SerpApiStores(SerpApi):
    """The shops behind one listed product: its second call, asked with the token of the first one's answer."""

    def __init__(self, *, key: str, base_url: str = SERPAPI, currency: str = "BRL") -> None:
        super().__init__(key=key, currency=currency, base_url=base_url)
        self._where = {**self._where, "engine": "google_immersive_product"}
        self.parameters = {**self._where, "currency": currency}

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """The offers of the shops that sell the product with the token *query*, each with its URL."""
        reply = await self._ask({"page_token": query}, timeout=timeout)
        found = read(_Product, reply.body, provider=self.provider)
        if found.error and _NOTHING not in found.error:
            raise self._line.failure(Reply(httpx2.codes.BAD_GATEWAY, reply.headers, reply.body))
        stores = found.product_results.stores
        offers = [self._offer(each.listed, each.extracted_price) for each in stores if each.extracted_price]
        return Offers(offers=offers[:limit], raw=reply.body, usage=Usage(units=1))


# — response bodies, as far as we read them —


class _Listed(BaseModel):
    title: str
    source: str = ""
    price: str = ""
    extracted_price: Decimal | None = None
    link: str | None = None
    product_link: str | None = None


class _Found(BaseModel):
    search_metadata: dict[str, Any]
    shopping_results: list[_Listed] = []
    error: str | None = None


class _Store(BaseModel):
    name: str = ""
    title: str = ""
    link: str | None = None
    price: str = ""
    extracted_price: Decimal | None = None

    @property
    def listed(self) -> _Listed:
        return _Listed(title=self.title, source=self.name, price=self.price, link=self.link)


class _Stores(BaseModel):
    stores: list[_Store] = []


class _Product(BaseModel):
    search_metadata: dict[str, Any]
    product_results: _Stores = _Stores()
    error: str | None = None
