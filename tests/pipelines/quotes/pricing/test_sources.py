"""Sources of prices: each in the shape of its service, and the bundled catalogue as all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from retoma.pipelines.quotes.ports import Analysis, FipeWanted, Item, Market, Method, PriceSource, Refusal, SourceKind
from retoma.pipelines.quotes.pricing.catalogue import data
from retoma.pipelines.quotes.pricing.catalogue.server import CatalogueServer, answer
from retoma.pipelines.quotes.pricing.market import close, offline_market, real_market
from retoma.pipelines.quotes.pricing.offers import Found, Refused, hold_against
from retoma.pipelines.quotes.pricing.pages import Pages
from retoma.pipelines.quotes.pricing.sources.compras import ComprasGov
from retoma.pipelines.quotes.pricing.sources.pncp import PublicContracts
from retoma.pipelines.quotes.pricing.sources.shopping import GoogleShopping
from retoma.pipelines.quotes.pricing.sources.table import FipeTable
from retoma.providers import AnswerUnreadable, Offers, ProviderError
from retoma.providers.folder import FolderBlobs

ROOT = Path(__file__).parents[4]
D = Decimal
CHAIR = Analysis(
    tipo_processamento="GOOGLE_SHOPPING",
    nome_canonico="Cadeira giratória presidente com braços",
    query_principal="cadeira giratória presidente com braços",
    catmat="900001",
)
CAR = Analysis(
    tipo_processamento="FIPE",
    nome_canonico="Ipuã Capivara 1.0 2021",
    fipe_api=FipeWanted(marca="Ipuã", modelo="Capivara 1.0", ano=2021),
    fallback_google_shopping="Ipuã Capivara 1.0 2021",
)


@pytest.fixture(scope="module")
def catalogue() -> Iterator[CatalogueServer]:
    server = CatalogueServer()
    yield server
    server.close()


@pytest.fixture
async def market(catalogue: CatalogueServer, tmp_path: Path) -> AsyncIterator[Market]:
    market = offline_market(catalogue, blobs=FolderBlobs(root=tmp_path / "blobs"))
    yield market
    await close(market)


def told(value: Any) -> Offers:
    return Offers(offers=(), raw=json.dumps(value))


def row(**more: Any) -> dict[str, Any]:
    return {"title": "Cadeira", "price": "R$ 1.676,76 agora", "extracted_price": 1676.76, "source": "Loja", **more}


# — Google Shopping —


def test_a_listed_price_is_the_cash_price() -> None:
    shopping = GoogleShopping(key="k" * 20)
    part = {"price": "R$ 167,67", "extracted_price": 167.67, "period": 10}

    (offer,) = shopping.read(
        told({"shopping_results": [row(old_price="R$ 2.000,00", extracted_old_price=2000, installment=part)]})
    )

    assert (offer.price, offer.currency, offer.refused, offer.seller) == (D("1676.76"), "BRL", None, "Loja")


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({"price": "R$ 99,90/mês", "extracted_price": 99.9}, Refusal.INSTALMENT_PRICE),
        ({"installment": {"extracted_price": 1676.76, "period": 10}}, Refusal.INSTALMENT_PRICE),
        ({"extracted_old_price": 1676.76}, Refusal.OLD_PRICE),
        ({"price": "US$ 1,676.76"}, Refusal.FOREIGN_CURRENCY),
        ({"price": "R$ 0,50", "extracted_price": 0.5}, Refusal.INVALID_PRICE),
    ],
)
def test_a_listed_price_that_cannot_count_is_told(more: dict[str, Any], refused: Refusal) -> None:
    (offer,) = GoogleShopping(key="k" * 20).read(told({"shopping_results": [row(**more)]}))

    assert offer.refused is refused


def test_what_has_no_price_is_no_offer() -> None:
    found = told({"shopping_results": [row(price="", extracted_price=None), {"position": 1}]})

    assert GoogleShopping(key="k" * 20).read(found) == []


def test_the_same_answer_gives_the_same_keys() -> None:
    shopping = GoogleShopping(key="k" * 20)
    found = told({"shopping_results": [row(), row(source="Outra")]})

    keys = [offer.key for offer in shopping.read(found)]

    assert keys == [offer.key for offer in shopping.read(found)]
    assert len(set(keys)) == 2


# — official sources —


def test_a_purchase_tells_who_bought_when_and_from_whom() -> None:
    (newest, *_) = ComprasGov().read(told(answer(COMPRAS_PATH, {"codigoItemCatalogo": "900001"})[1]))

    assert (newest.kind, newest.price, newest.dated) == (
        SourceKind.OFFICIAL,
        D("943.40"),
        datetime(2026, 8, 20, tzinfo=UTC),
    )
    assert newest.seller
    assert {"orgao", "cnpj", "fornecedor", "compra", "unidade"} <= set(newest.detail)


COMPRAS_PATH = "/modulo-pesquisa-preco/1_consultarMaterial"


async def test_contracts_of_the_last_year_are_found_by_words(catalogue: CatalogueServer) -> None:
    contracts = PublicContracts(base_url=catalogue.url, today=lambda: date(2026, 11, 17))

    found = await contracts.search("cadeira giratória presidente", timeout=120)
    (offer,) = contracts.read(found)
    await contracts.aclose()

    assert (offer.price, offer.kind) == (D("863.30"), SourceKind.CONTRACT)
    assert offer.detail["compra"].endswith("/2026")
    assert json.loads(found.raw)["periodo"] == {"dataInicial": "20251117", "dataFinal": "20261117"}


async def test_an_answer_of_another_shape_is_kept_and_told(
    catalogue: CatalogueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compras = ComprasGov(base_url=catalogue.url)
    monkeypatch.setattr("retoma.pipelines.quotes.pricing.catalogue.server._compras", lambda _: {"resultado": 5})

    with pytest.raises(AnswerUnreadable, match="resultado") as caught:
        await compras.search("900001", timeout=120)
    await compras.aclose()

    assert caught.value.raw == '{"resultado": 5}'
    assert caught.value.paid is False


async def test_a_service_that_is_not_there_costs_nothing() -> None:
    compras = ComprasGov(base_url="http://127.0.0.1:9")

    with pytest.raises(ProviderError) as caught:
        await compras.search("900001", timeout=5)
    await compras.aclose()

    assert caught.value.paid is False


# — vehicles —


async def test_a_vehicle_is_priced_by_the_table(catalogue: CatalogueServer) -> None:
    fipe = FipeTable(base_url=f"{catalogue.url}/fipe")
    query = fipe.query_for(CAR)

    assert query == "carros: Ipuã Capivara 1.0 2021"
    (offer,) = fipe.read(await fipe.search(query, timeout=120))
    await fipe.aclose()
    assert (offer.price, offer.kind) == (D("53400.00"), SourceKind.TABLE)
    assert offer.detail == {
        "codigo_fipe": "900000-0",
        "marca": "Ipuã",
        "modelo": "Capivara 1.0 Flex 4p",
        "ano": "2021",
        "combustivel": "Gasolina",
        "mes_referencia": "novembro de 2026",
    }


async def test_a_motorcycle_has_a_table_of_its_own(catalogue: CatalogueServer) -> None:
    fipe = FipeTable(base_url=f"{catalogue.url}/fipe")

    (offer,) = fipe.read(await fipe.search("motos: Araponga Guará 160 2022", timeout=120))
    await fipe.aclose()

    assert offer.price == D("15200.00")


# — the catalogue —


def test_the_catalogue_is_what_the_tool_writes(tmp_path: Path) -> None:
    written = tmp_path / "catalogue.json"
    program = f"import runpy, pathlib; m = runpy.run_path({str(ROOT / 'tools/catalogue.py')!r}); "
    program += f"m['main'].__globals__['TARGET'] = pathlib.Path({str(written)!r}); m['main']()"
    subprocess.run([sys.executable, "-c", program], check=True)

    bundled = ROOT / "src/retoma/pipelines/quotes/pricing/catalogue/catalogue.json"
    assert written.read_bytes() == bundled.read_bytes()


def test_the_catalogue_has_a_few_hundred_offers_and_every_trap() -> None:
    shapes = {page["shape"] for page in data()["pages"].values()}

    assert len(data()["shopping_results"]) > 300
    assert len(data()["compras"]) > 90
    assert {"graph", "variants", "aggregate", "specification", "microdata", "meta", "pieces"} <= shapes
    assert {"instalment", "old", "currency", "listing", "duplicate", "sold-out", "foreign", "mismatch"} <= shapes


async def test_every_source_has_the_shape_of_the_port(market: Market) -> None:
    assert all(isinstance(source, PriceSource) for source in market.sources)
    assert [source.kind for source in market.sources] == [
        SourceKind.OFFICIAL,
        SourceKind.CONTRACT,
        SourceKind.TABLE,
        SourceKind.SHOP,
    ]
    assert [source.query_for(CAR) for source in market.sources] == [
        None,
        None,
        "carros: Ipuã Capivara 1.0 2021",
        "Ipuã Capivara 1.0 2021",
    ]


REASONS = {
    "instalment": Refusal.INSTALMENT_PRICE,
    "old": Refusal.OLD_PRICE,
    "currency": Refusal.FOREIGN_CURRENCY,
    "listing": Refusal.LISTING_PAGE,
    "sold-out": Refusal.SOLD_OUT,
    "foreign": Refusal.FOREIGN_DOMAIN,
    "mismatch": Refusal.PRICE_MISMATCH,
    "blocked": Refusal.BLOCKED_BY_SITE,
    "no-price": Refusal.EXTRACTION_FAILED,
}


@pytest.mark.timeout(600)
async def test_every_page_of_the_catalogue_gives_its_price_or_its_trap(market: Market) -> None:
    wrong = []
    for place, page in data()["pages"].items():
        read = await market.pages.read(f"http://{place}", timeout=120)
        reading: Found | Refused
        if read.refused:
            reading = Refused(reason=read.refused, detail=read.message)
        else:
            assert read.price is not None
            reading = Found(price=read.price, currency=read.currency, method=read.method or Method.DOM)
        held = hold_against(reading, listed=D(page["price"]))
        expected = REASONS.get(page["shape"])
        right = (
            held.reason is expected if isinstance(held, Refused) else held.price == D(page["price"]) and not expected
        )
        if not right:
            wrong.append((place, page, held))

    assert not wrong


async def test_a_shop_is_found_searched_opened_and_kept(market: Market) -> None:
    shopping = market.sources[-1]
    query = shopping.query_for(CHAIR)
    assert query
    assert shopping.details

    offers = shopping.read(await shopping.search(query, timeout=120))
    assert len(offers) == 9
    assert all(offer.url is None and offer.token for offer in offers)
    stores = await shopping.details.search(offers[0].token or "", timeout=120)
    page = await market.pages.read(stores.offers[0].link or "", timeout=120)

    assert (page.price, page.refused) == (offers[0].price, None)
    assert page.evidence
    assert page.evidence.sha256 in page.evidence.blob
    assert page.evidence.without_screenshot == "There is no Chromium on this machine."


async def test_a_token_that_nobody_knows_has_no_shops(market: Market) -> None:
    shopping = market.sources[-1]
    assert shopping.details

    found = await shopping.details.search("nothing", timeout=120)

    assert (list(found.offers), found.usage.units) == ([], 1)


def test_without_a_key_shops_are_not_asked(tmp_path: Path) -> None:
    blobs = FolderBlobs(root=tmp_path)

    free = real_market(blobs=blobs)
    paid = real_market(blobs=blobs, serpapi_key="k" * 20)

    assert [source.provider for source in free.sources] == ["compras.gov.br", "pncp", "fipe"]
    assert [source.provider for source in paid.sources] == ["compras.gov.br", "pncp", "fipe", "serpapi"]
    assert isinstance(free.pages, Pages)
    assert free.pages.catalogue is None


async def test_nothing_is_found_for_what_the_catalogue_does_not_have(market: Market) -> None:
    shopping = market.sources[-1]

    assert shopping.read(await shopping.search("submarino nuclear", timeout=120)) == []


async def test_an_item_is_understood_and_every_source_knows_what_to_ask(market: Market) -> None:
    analysis = await market.understanding.understand(Item(text="Cadeira giratória presidente com braços, marca Jatobá"))

    queries = [source.query_for(analysis) for source in market.sources]

    assert queries == [
        "900001",
        "Cadeira giratória presidente com braços",
        None,
        "Cadeira giratória presidente com braços",
    ]
