"""The default market, without a key and without a network: a list of items from end to end."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from retoma import Retoma, Settings
from retoma.errors import ConfigurationError
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.markets import is_offline, market_from
from retoma.pipelines.quotes.ports import Market
from retoma.providers import BlobStore
from retoma.providers.factory import providers_from
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain

pytestmark = pytest.mark.timeout(600)

LIST = """código;descrição;quantidade
1;Cadeira giratória presidente com braços;4
2;Mesa de escritório 120 cm com gavetas;2
3;Armário de aço 2 portas com chave;1
4;Estante de aço 6 prateleiras;1
5;Notebook 15,6 polegadas 16 GB SSD 512 GB;10
6;Monitor LED 24 polegadas Full HD;10
7;Impressora laser monocromática duplex;1
8;Nobreak 1500 VA bivolt;3
9;Carro Ipuã Capivara 1.0 2021;1
10;Televisor LED 50 polegadas 4K;1
11;Acelerador de partículas toroidal criogênico;1
12;;1
""".encode("cp1252")

_OUTSIDE: list[object] = []
_WATCHED = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _WATCHED and event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
        if host not in ("127.0.0.1", "::1", "localhost"):
            _OUTSIDE.append(arguments[1])


sys.addaudithook(_watch)


@pytest.fixture
def outside() -> Iterator[list[object]]:
    """Every machine but this one that somebody connected to."""
    global _WATCHED  # noqa: PLW0603 - a hook cannot be taken away again
    _OUTSIDE.clear()
    _WATCHED = True
    yield _OUTSIDE
    _WATCHED = False


@pytest.fixture
async def app(settings: Settings, tmp_path: Path) -> AsyncIterator[Retoma]:
    given = {"RETOMA_HOME": str(tmp_path), "RETOMA_BROWSER": "none"}
    providers = providers_from(given)
    market = market_from(given, providers)
    async with Retoma(settings=settings, extensions=[QUOTES], providers={**providers, Market: market}) as app:
        yield app
    await market.aclose()


async def test_a_list_is_priced_by_the_bundled_catalogue_and_nobody_outside_is_asked(
    app: Retoma, tmp_path: Path, outside: list[object]
) -> None:
    library = Quotes(app)
    id, _ = await library.create_batch(LIST, name="Lote", filename="lista.csv")
    await drain(app)
    quotes = {each.codigo_item: each for each in await library.quotes(batch_id=id)}
    sources = {code: await library.sources(each.id) for code, each in quotes.items()}
    standing = await library.batch_status(id)
    everything = [each for found in sources.values() for each in found]

    assert {code: str(each.status) for code, each in quotes.items()} == {
        **{str(number): "DONE" for number in range(1, 11)}, "11": "ERROR",
    }  # fmt: skip
    assert [each.problem for each in await library.items(id, only_problems=True)] == ["description_missing"]
    assert (standing.batch_status, standing.completed_items, standing.failed_items) == ("PARTIALLY_COMPLETED", 10, 1)
    assert (quotes["11"].error_message or "").startswith("no_prices")
    assert {each.extraction_method for each in sources["9"]} == {"API_FIPE"}
    assert {each.kind for each in everything if each.is_accepted} >= {"OFFICIAL", "SHOP", "TABLE"}
    assert all(each.failure_reason for each in everything if not each.is_valid)
    for each in everything:
        if each.is_accepted:
            assert each.evidence_blob is not None
            assert (tmp_path / "blobs" / each.evidence_blob).is_file()
            assert each.without_screenshot
    assert outside == []


async def test_a_shop_counts_once_and_a_page_that_says_another_price_is_refused(app: Retoma) -> None:
    library = Quotes(app)
    project = await library.create_project("P", quotes_wanted=20)
    desk = await library.create("Mesa de escritório 120 cm com gavetas", project_id=project.id)
    table = await library.create("Mesa de reunião oval 8 lugares", project_id=project.id)
    await drain(app)
    desks, tables = await library.sources(desk), await library.sources(table)
    shops = [each.domain for each in desks if each.is_valid and each.kind == "SHOP"]

    assert {str((await library.quote(id)).status) for id in (desk, table)} == {"AWAITING_REVIEW"}
    assert len(shops) == len(set(shops)) > 1
    assert "DUPLICATE_DOMAIN" in {each.failure_reason for each in desks}
    (far,) = [each for each in tables if each.failure_reason == "PRICE_MISMATCH"]
    assert "5 % are allowed" in (far.failure_message or "")
    assert far.evidence_sha256


def test_a_key_chooses_the_services_and_none_the_bundled_catalogue(tmp_path: Path) -> None:
    providers = {BlobStore: FolderBlobs(root=tmp_path)}

    assert is_offline(market_from({}, providers))
    assert is_offline(market_from({"SERPAPI_KEY": "k" * 20, "RETOMA_MARKET": "offline"}, providers))
    real = market_from({"SERPAPI_KEY": "k" * 20, "RETOMA_BROWSER": "none"}, providers)
    assert not is_offline(real)
    assert [each.provider for each in real.sources] == ["compras.gov.br", "pncp", "fipe", "serpapi"]
    free = market_from({"RETOMA_MARKET": "real", "RETOMA_BROWSER": "none"}, providers)
    assert "serpapi" not in [each.provider for each in free.sources]
    with pytest.raises(ConfigurationError, match="RETOMA_MARKET=x"):
        market_from({"RETOMA_MARKET": "x"}, providers)
