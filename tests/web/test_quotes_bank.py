"""The price bank over HTTP and on its page."""

from __future__ import annotations

import asyncio
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes import bank
from retoma.pipelines.quotes.ports import Market
from retoma.postgres.database import Database
from retoma.testing import drain

from .conftest import House, Open, code

BANK = "/api/price-bank"
HTML = {"Accept": "text/html", "Accept-Language": "pt-BR"}


@pytest.fixture
def given(tmp_path: Path) -> dict[type, Any]:
    return {Market: a_market(Bill(tmp_path / "bill.log"))}


@pytest.fixture
def house(open_house: Open, given: dict[type, Any]) -> House:
    return open_house(extensions=[QUOTES], providers=given)


@pytest.fixture
async def uno(database: Database, house: House) -> int:  # noqa: ARG001 - the tables come with the house
    """A vehicle whose price the table says otherwise: 21,345.00."""
    query = bank.put(
        codigo_fipe="001004-9", ano=2012, marca="Fiat", modelo="Uno Mille", price=Decimal(20000), quote_id=None
    )
    (id,) = await database.all(query)
    return id


def work(house: House, given: dict[type, Any]) -> None:
    asyncio.run(drain(Retoma(settings=house.settings, extensions=[QUOTES], providers=given)))


def page(house: House, path: str = "") -> str:
    shown = house.client.get(f"/cotacoes/banco{path}", headers=HTML)
    assert shown.status_code == 200, shown.text
    return str(shown.text)


def post(house: House, path: str, **fields: str) -> Any:
    return house.client.post(f"/cotacoes/banco{path}", data=fields, headers=HTML, follow_redirects=False)


def test_a_price_is_brought_up_to_date_by_a_worker_and_its_history_says_so(
    house: House, given: dict[type, Any], uno: int
) -> None:
    begun = house.client.post(f"{BANK}/{uno}/update", json={"mode": "MARKET"})
    work(house, given)
    now = house.client.get(f"{BANK}/{uno}").json()

    assert (begun.status_code, begun.json()["vehicles"]) == (202, 1)
    assert house.client.get(begun.json()["status_url"]).json()["state"] == "completed"
    assert now["price"] == "21345.00"
    assert [(each["mode"], each["state"], each["price_before"]) for each in now["updates"]] == [
        ("MARKET", "APPLIED", "20000.00")
    ]
    assert [each["id"] for each in house.client.get(BANK).json()["vehicles"]] == [uno]


def test_what_is_too_far_away_waits_is_shown_and_is_decided_on_the_page_with_a_reason(
    house: House, given: dict[type, Any], uno: int
) -> None:
    house.client.post(f"{BANK}/{uno}/price", json={"price": "5000", "reason": "Engano"})
    house.client.post(f"{BANK}/update")
    work(house, given)
    update = house.client.get(f"{BANK}/{uno}").json()["updates"][0]
    waiting = page(house)

    unfit = post(house, f"/decisoes/{update['id']}/aceitar", reason="")
    accepted = post(house, f"/decisoes/{update['id']}/aceitar", reason="Conferido na FIPE")
    again = house.client.post(f"{BANK}/updates/{update['id']}/decide", json={"accept": False, "reason": "Tarde"})

    assert update["state"] == "WAITING"
    assert "À espera de uma decisão" in waiting
    assert "R$ 21.345,00" in waiting
    assert (unfit.status_code, accepted.status_code) == (422, 303)
    assert code(again) == (409, "conflict")
    assert "R$ 21.345,00" in page(house, f"/{uno}")
    assert "Conferido na FIPE" in page(house, f"/{uno}")


def test_mode_and_price_are_set_and_a_vehicle_left_alone_is_not_brought_up_to_date(house: House, uno: int) -> None:
    mode = post(house, f"/{uno}/modo", mode="SKIP")
    price = post(house, f"/{uno}/preco", price="19.500,50", reason="Laudo 12")
    without = post(house, f"/{uno}/preco", price="19.500,50", reason="")
    update = post(house, "/atualizar", mode="MARKET")
    now = house.client.get(f"{BANK}/{uno}").json()

    assert [each.status_code for each in (mode, price, without, update)] == [303, 303, 422, 422]
    assert (now["price"], now["update_mode"]) == ("19500.50", "SKIP")
    assert house.client.post(f"{BANK}/{uno}/mode", json={"mode": None}).json()["update_mode"] is None


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/999/update", {}, 404),
        ("/999/mode", {"mode": "SKIP"}, 404),
        ("/update", {"mode": "MANUAL"}, 422),
        ("/1/price", {"price": "-1", "reason": "Laudo"}, 422),
        ("/1/price", {"price": "0.10", "reason": "Laudo"}, 422),
        ("/1/price", {"price": "10", "reason": ""}, 422),
        ("/updates/999/decide", {"accept": True, "reason": "Laudo"}, 404),
    ],
)
def test_what_cannot_be_is_refused(house: House, uno: int, path: str, body: dict[str, Any], status: int) -> None:
    assert uno == 1
    assert house.client.post(f"{BANK}{path}", json=body).status_code == status


def test_the_bank_is_downloaded_as_a_file(house: House, uno: int) -> None:
    got = house.client.get(f"{BANK}/download/csv")

    assert got.headers["content-disposition"] == 'attachment; filename="banco-de-precos.csv"'
    assert f'"{"001004-9"}";"2012";"Fiat"' in got.text
    assert uno
