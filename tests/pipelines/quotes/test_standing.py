"""How a quote stands, for the audit: what anybody may know who may look, and none of its words."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import psycopg

from retoma.pipelines.quotes import standing
from retoma.pipelines.quotes.library import Quotes

VEHICLE = (
    "insert into quotes.price_bank (codigo_fipe, ano, marca, modelo, vehicle_type, words, price) "
    "values ('001-1', 2012, 'Fiat', 'Uno', 'cars', '{fiat,uno}', 20000) returning id"
)
UPDATE = (
    "insert into quotes.bank_updates (vehicle_id, mode, state, price_before, price_after, detail, by, reason) "
    "values (%s, 'MARKET', 'WAITING', 20000, 30000, '{}', 'ana', 'SECRET') returning id"
)
WELL = "update quotes.quote_requests set status = 'AWAITING_REVIEW', completed_at = now()"


def stands(psql: psycopg.Connection, id: object) -> dict[str, Any]:
    query = standing.quote(str(id))
    [[text]] = psql.execute(query.sql, query.params).fetchall()
    assert "SECRET" not in text
    found: dict[str, Any] = json.loads(text)
    return found


class TestVehicle:
    def test_its_price_and_how_it_is_brought_up_to_date(self, psql: psycopg.Connection) -> None:
        [[id]] = psql.execute(VEHICLE).fetchall()
        query = standing.vehicle(str(id))

        [[text]] = psql.execute(query.sql, query.params).fetchall()

        now = json.loads(text)
        assert (now["code"], now["year"], now["price"], now["mode"]) == ("001-1", 2012, 20000, None)
        nobody = standing.vehicle("no-such-thing")
        assert psql.execute(nobody.sql, nobody.params).fetchall() == []


class TestBankUpdate:
    def test_its_prices_and_who_decided(self, psql: psycopg.Connection) -> None:
        [[vehicle]] = psql.execute(VEHICLE).fetchall()
        [[id]] = psql.execute(UPDATE, [vehicle]).fetchall()
        query = standing.bank_update(str(id))

        [[text]] = psql.execute(query.sql, query.params).fetchall()

        now = json.loads(text)
        assert "SECRET" not in text
        assert (now["vehicle"], now["state"], now["before"], now["after"]) == (vehicle, "WAITING", 20000, 30000)


class TestQuote:
    async def test_its_status_its_figures_and_how_many_prices_count(
        self, library: Quotes, psql: psycopg.Connection
    ) -> None:
        id = await library.create("SECRET mesa")
        new = stands(psql, id)
        psql.execute(WELL)
        given: dict[str, Any] = {"reason": "SECRET reason", "by": "ana"}
        await library.add_source(id, title="SECRET", price=Decimal(100), **given)

        now = stands(psql, id)

        assert (new["status"], new["sources"], new["mean"]) == ("PENDING", 0, None)
        assert (now["sources"], now["mean"], now["closed"]) == (1, 100.0, 0)

    def test_of_one_that_is_not_there_nothing_is_known(self, psql: psycopg.Connection) -> None:
        for nobody in ("999999", "99999999999999999999", "no-such-thing", ""):
            query = standing.quote(nobody)
            assert psql.execute(query.sql, query.params).fetchall() == []
