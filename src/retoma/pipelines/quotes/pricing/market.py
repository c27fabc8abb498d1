"""Where prices come from, put together: the services by their settings, or the bundled catalogue without a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from retoma.pipelines.quotes.ports import Market, PriceSource
from retoma.pipelines.quotes.pricing.catalogue import data
from retoma.pipelines.quotes.pricing.catalogue.server import CatalogueServer
from retoma.pipelines.quotes.pricing.domains import Shops
from retoma.pipelines.quotes.pricing.pages import Pages
from retoma.pipelines.quotes.pricing.sources.compras import COMPRAS, ComprasGov
from retoma.pipelines.quotes.pricing.sources.pncp import PNCP, PublicContracts
from retoma.pipelines.quotes.pricing.sources.shopping import GoogleShopping
from retoma.pipelines.quotes.pricing.sources.table import FipeTable
from retoma.pipelines.quotes.pricing.understand import LocalUnderstanding
from retoma.providers import BlobStore, Embedder
from retoma.providers.fipe import FIPE
from retoma.providers.serpapi import SERPAPI


@runtime_checkable
class Closing(Protocol):
    """A source that keeps connections."""

    async def aclose(self) -> None:
        """Close them."""
        ...


_NO_KEY = "no-key-is-wanted"  # the client sends one, and takes it out of every answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the services are, when not where they usually are."""

    serpapi: str = SERPAPI
    fipe: str = FIPE
    compras: str = COMPRAS
    pncp: str = PNCP


def real_market(
    *,
    blobs: BlobStore,
    embedder: Embedder | None = None,
    serpapi_key: str | None = None,
    fipe_token: str | None = None,
    places: Places = Places(),
    shops: Shops = Shops(),
    browser: Path | None = None,
) -> Market:
    """The services themselves, official ones first; shops only with a key for the search."""
    sources: list[PriceSource] = [
        ComprasGov(base_url=places.compras),
        PublicContracts(base_url=places.pncp),
        FipeTable(base_url=places.fipe, token=fipe_token),
    ]
    if serpapi_key:
        sources.append(GoogleShopping(key=serpapi_key, base_url=places.serpapi))
    return Market(
        understanding=LocalUnderstanding(embedder=embedder),
        sources=sources,
        pages=Pages(blobs=blobs, shops=shops, browser=browser),
    )


def offline_market(
    server: CatalogueServer, *, blobs: BlobStore, embedder: Embedder | None = None, browser: Path | None = None
) -> Market:
    """The bundled catalogue, asked as the services are: *server* gives its records and its pages on a loopback port,
    and no other machine is asked anything.
    """
    url = server.url
    catmats = {each["descricaoItem"]: str(each["codigoItemCatalogo"]) for each in data()["compras"]}
    return Market(
        understanding=LocalUnderstanding(embedder=embedder, catmats=catmats),
        sources=[
            ComprasGov(base_url=url),
            PublicContracts(base_url=url),
            FipeTable(base_url=f"{url}/fipe"),
            GoogleShopping(key=_NO_KEY, base_url=url),
        ],
        pages=Pages(blobs=blobs, browser=browser, catalogue=server.address),
    )


async def close(market: Market) -> None:
    """Close the connections that the sources have opened in this event loop."""
    for source in market.sources:
        if isinstance(source, Closing):
            await source.aclose()
