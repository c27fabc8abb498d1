"""Prices: offers of shops, and the table of vehicles."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from asking import KEY

from retoma.providers import AnswerUnreadable, PriceSearch, ProviderDown, ProviderRefused, RateLimited, Usage
from retoma.providers.fipe import Entry, Fipe
from retoma.providers.serpapi import SerpApi
from retoma.testing.wire import Fault, Served


@pytest.fixture
async def shops(services: Served) -> AsyncIterator[SerpApi]:
    shops = SerpApi(key=KEY, base_url=services.url)
    yield shops
    await shops.aclose()


@pytest.fixture
async def fipe(services: Served) -> AsyncIterator[Fipe]:
    fipe = Fipe(base_url=f"{services.url}/fipe")
    yield fipe
    await fipe.aclose()


# — SerpAPI —


async def test_offers_are_what_has_a_price(shops: SerpApi, services: Served) -> None:
    found = await shops.search("cadeira de escritório", timeout=10)

    assert isinstance(shops, PriceSearch)
    assert [(offer.title, offer.price, offer.currency) for offer in found.offers] == [
        ("Cadeira de escritório", Decimal("1299.9"), "BRL"),
        ("Office chair", Decimal("80.1"), "USD"),
        ("Cadeira gamer", Decimal(900), "BRL"),
    ]
    assert [offer.link for offer in found.offers] == ["https://shop.example/1", "https://shop.example/3", None]
    assert found.usage == Usage(units=1)
    (asked,) = services.heard()
    assert asked["query"] == {
        "engine": "google_shopping",
        "gl": "br",
        "hl": "pt-br",
        "q": "cadeira de escritório",
        "api_key": KEY,
    }


async def test_the_body_is_kept_without_the_key(shops: SerpApi) -> None:
    found = await shops.search("cadeira", timeout=10)

    assert KEY not in found.raw
    assert json.loads(found.raw)["search_metadata"]["json_endpoint"].endswith("api_key=***")


async def test_no_more_offers_than_were_asked_for(shops: SerpApi) -> None:
    assert len((await shops.search("cadeira", limit=2, timeout=10)).offers) == 2


async def test_nothing_found_is_an_answer_and_was_paid(shops: SerpApi) -> None:
    found = await shops.search("nada", timeout=10)

    assert (found.offers, found.usage.units) == ([], 1)


async def test_searches_that_are_used_up_are_a_refusal(shops: SerpApi, services: Served) -> None:
    services.tell(Fault(kind="answer", status=429, body='{"error": "Your account has run out of searches."}'))

    with pytest.raises(ProviderRefused, match="run out of searches"):
        await shops.search("cadeira", timeout=10)


async def test_too_many_searches_in_an_hour_are_a_limit(shops: SerpApi, services: Served) -> None:
    services.tell(Fault(kind="answer", status=429, body='{"error": "You exceeded the hourly throughput limit."}'))

    with pytest.raises(RateLimited):
        await shops.search("cadeira", timeout=10)


async def test_an_error_that_came_with_status_200_is_an_error(shops: SerpApi, services: Served) -> None:
    services.tell(Fault(kind="answer", body='{"search_metadata": {}, "error": "We could not get a valid response."}'))

    with pytest.raises(ProviderDown, match="valid response"):
        await shops.search("cadeira", timeout=10)


# — FIPE —


async def test_the_table_is_a_tree(fipe: Fipe) -> None:
    assert Entry("21", "Fiat") in await fipe.brands(timeout=10)
    assert Entry("5940", "Gol 1.0 Mi") in await fipe.models("59", timeout=10)
    assert Entry("2012-1", "2012 Gasolina") in await fipe.years("59", "5940", timeout=10)

    found = await fipe.price("59", "5940", "2012-1", timeout=10)

    (offer,) = found.offers
    assert (offer.title, offer.price, offer.currency) == (
        "VW - VolksWagen Gol 1.0 Mi 2012 Gasolina",
        Decimal("20120.50"),
        "BRL",
    )
    assert offer.source == "FIPE 001163-3, novembro de 2026"
    assert json.loads(found.raw)["CodigoFipe"] == "001163-3"


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("Fiat Uno Mille 2012", ["Fiat UNO MILLE 1.0 Fire/ F.Flex 2p 2012 Gasolina"]),
        ("fiat úno", ["Fiat UNO MILLE 1.0 Fire/ F.Flex 2p 2013 Gasolina", "Fiat UNO Way 1.4 4p 2013 Gasolina"]),
        ("VolksWagen Gol 2012", ["VW - VolksWagen Gol 1.0 Mi 2012 Gasolina"]),
        ("vw saveiro 1.6", ["VW - VolksWagen Saveiro 1.6 2013 Gasolina"]),
        ("Land Rover Defender", ["Land Rover Defender 110 2013 Gasolina"]),
        ("Fiat Uno 1999", []),
        ("Fiat Elba", []),
        ("geladeira", []),
        ("", []),
    ],
)
async def test_a_vehicle_is_found_by_its_name(fipe: Fipe, query: str, titles: list[str]) -> None:
    found = await fipe.search(query, timeout=10)

    assert isinstance(fipe, PriceSearch)
    assert [offer.title for offer in found.offers] == titles
    assert len(json.loads(found.raw)) == len(titles)


async def test_other_vehicles_have_tables_of_their_own(fipe: Fipe, services: Served) -> None:
    await fipe.brands(vehicles="motos", timeout=10)

    assert services.heard()[0]["path"] == "/fipe/motos/marcas"


async def test_a_price_that_is_none_is_not_an_answer(fipe: Fipe, services: Served) -> None:
    body = '{"Valor": "R$ -", "Marca": "Fiat", "Modelo": "Uno", "AnoModelo": 2012}'
    services.tell(Fault(kind="answer", body=body, path="/anos/"))

    with pytest.raises(AnswerUnreadable, match="Valor") as caught:
        await fipe.search("Fiat Uno Mille 2012", timeout=10)

    assert caught.value.paid is False
