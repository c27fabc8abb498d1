"""Which market an app has, by its settings: the services themselves, or the bundled catalogue without a network.

Nothing is loaded or asked here: a program that only looks at quotes starts no server and reads no catalogue.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.ports import Market, PageReader, PriceSource, Understanding
from retoma.providers import BlobStore, Embedder

OFFLINE, REAL = "offline", "real"
NO_BROWSER = "none"

Opened = tuple[Market, Callable[[], None]]
"""A market, and what ends that which it has started."""


class ChosenMarket(Market):
    """A market that is put together when it is first asked."""

    def __init__(self, name: str, make: Callable[[], Opened]) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_make", make)

    @cached_property
    def _opened(self) -> Opened:
        return cast(Opened, self.__dict__["_make"]())

    @property
    def understanding(self) -> Understanding:
        return self._opened[0].understanding

    @property
    def sources(self) -> Sequence[PriceSource]:
        return self._opened[0].sources

    @property
    def pages(self) -> PageReader:
        return self._opened[0].pages

    async def aclose(self) -> None:
        """Close what was opened, if anything was."""
        if "_opened" in self.__dict__:
            market, end = self._opened
            await market.aclose()
            end()


def market_from(settings: Mapping[str, str] | None, providers: Mapping[type[Any], Any]) -> Market:
    """The market that *settings* choose: the environment, when none are given. A key for the search in shops chooses
    the services; without one the bundled catalogue answers.
    """
    given = os.environ if settings is None else settings
    name = given.get("RETOMA_MARKET") or (REAL if given.get("SERPAPI_KEY") else OFFLINE)
    if name not in (OFFLINE, REAL):
        raise ConfigurationError(
            f"RETOMA_MARKET={name} is not known.", next=f"Choose {OFFLINE} or {REAL}, or leave it out."
        )
    blobs, embedder = providers[BlobStore], providers.get(Embedder)
    make = _real if name == REAL else _offline
    return ChosenMarket(name, lambda: make(given, blobs, embedder))


def is_offline(market: object) -> bool:
    """Whether prices come from the bundled catalogue, and are invented."""
    return isinstance(market, ChosenMarket) and market.__dict__["name"] == OFFLINE


def _real(given: Mapping[str, str], blobs: BlobStore, embedder: Embedder | None) -> Opened:
    from retoma.pipelines.quotes.pricing import market  # noqa: PLC0415 - with the first question

    usual = market.Places()
    places = market.Places(
        serpapi=given.get("SERPAPI_BASE_URL") or usual.serpapi, fipe=given.get("FIPE_BASE_URL") or usual.fipe
    )
    made = market.real_market(
        blobs=blobs,
        embedder=embedder,
        serpapi_key=given.get("SERPAPI_KEY") or None,
        fipe_token=given.get("FIPE_TOKEN") or None,
        places=places,
        browser=_browser(given),
    )
    return made, lambda: None


def _offline(given: Mapping[str, str], blobs: BlobStore, embedder: Embedder | None) -> Opened:
    from retoma.pipelines.quotes.pricing import market  # noqa: PLC0415 - with the first question
    from retoma.pipelines.quotes.pricing.catalogue.server import CatalogueServer  # noqa: PLC0415

    server = CatalogueServer()
    return market.offline_market(server, blobs=blobs, embedder=embedder, browser=_browser(given)), server.close


def _browser(given: Mapping[str, str]) -> Path | None:
    """The Chromium that takes pictures: the one that is named, or the one of this machine."""
    from retoma.pipelines.quotes.pricing.screenshots import find_browser  # noqa: PLC0415

    named = given.get("RETOMA_BROWSER")
    if named == NO_BROWSER:
        return None
    return Path(named) if named else find_browser()
