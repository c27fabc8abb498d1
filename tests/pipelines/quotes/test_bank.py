"""Each statement about the price bank does what its comment says."""

from __future__ import annotations

from decimal import Decimal

import psycopg

from retoma.pipelines.quotes import bank
from retoma.pipelines.quotes.bank_values import BankVehicle
from retoma.postgres.database import Database


async def kept(
    database: Database,
    codigo_fipe: str = "001-1",
    *,
    ano: int = 2020,
    modelo: str = "Uno Mille",
    price: str = "30000.00",
    combustivel: str | None = "Gasolina",
) -> int:
    new = bank.put(
        codigo_fipe=codigo_fipe,
        ano=ano,
        marca="Fiat",
        modelo=modelo,
        price=Decimal(price),
        quote_id=None,
        combustivel=combustivel,
    )
    (id,) = await database.all(new)
    return id


async def found(
    database: Database,
    *words: str,
    ano: int | None = 2020,
    codigo_fipe: str | None = None,
    combustivel: str | None = None,
) -> list[BankVehicle]:
    query = bank.find(ano=ano, codigo_fipe=codigo_fipe, words=words, combustivel=combustivel, months=3)
    return list(await database.all(query))


class TestPut:
    async def test_a_vehicle_that_is_known_gets_the_new_price_and_a_new_date(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = await kept(database)
        psql.execute("update quotes.price_bank set updated_at = now() - interval '1 year'")

        assert await kept(database, modelo="Uno Way", price="31000.00") == id
        (now,) = await database.all(bank.page())
        assert (now.id, now.modelo, now.price) == (id, "Uno Way", Decimal("31000.00"))
        assert psql.execute(
            "select words, updated_at > now() - interval '1 hour' from quotes.price_bank"
        ).fetchall() == [(["fiat", "uno", "way"], True)]

    async def test_another_year_of_the_same_code_leaves_the_first_alone(self, database: Database) -> None:
        first = await kept(database, ano=2020)
        second = await kept(database, ano=2021, price="35000.00")

        assert [(each.id, each.ano, each.price) for each in await database.all(bank.page())] == [
            (second, 2021, Decimal("35000.00")),
            (first, 2020, Decimal("30000.00")),
        ]


class TestFind:
    async def test_a_code_decides_over_words_and_only_in_its_year(self, database: Database) -> None:
        id = await kept(database)

        assert [each.id for each in await found(database, "outro", codigo_fipe="001-1")] == [id]
        assert await found(database, "uno", codigo_fipe="002-2") == []
        assert await found(database, codigo_fipe="001-1", ano=2021) == []
        assert await found(database, codigo_fipe="001-1", ano=None) == []

    async def test_without_a_code_all_words_must_be_there_and_the_shortest_model_wins(self, database: Database) -> None:
        short = await kept(database, "001-1", modelo="Uno Mille")
        long = await kept(database, "002-2", modelo="Uno Mille Fire Flex")

        assert [each.id for each in await found(database, "fiat", "uno")] == [short]
        assert [each.id for each in await found(database, "uno", "flex")] == [long]
        assert await found(database, "uno", "turbo") == []
        assert await found(database) == []

    async def test_another_fuel_is_not_taken_but_one_that_is_not_known_is(self, database: Database) -> None:
        id = await kept(database, combustivel="Gasolina")

        assert [each.id for each in await found(database, "uno", combustivel="GASOLINA")] == [id]
        assert await found(database, "uno", combustivel="Diesel") == []
        await kept(database, combustivel=None)
        assert [each.id for each in await found(database, "uno", combustivel="Diesel")] == [id]

    async def test_a_price_that_is_too_old_is_found_and_called_so(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = await kept(database)

        psql.execute("update quotes.price_bank set updated_at = now() - interval '2 months'")
        assert [(each.id, each.fresh) for each in await found(database, "uno")] == [(id, True)]
        psql.execute("update quotes.price_bank set updated_at = now() - interval '4 months'")
        assert [(each.id, each.fresh) for each in await found(database, "uno")] == [(id, False)]
        assert [(each.id, each.fresh) for each in await found(database, codigo_fipe="001-1")] == [(id, False)]


class TestPage:
    async def test_the_newest_come_first_and_the_next_page_begins_below(self, database: Database) -> None:
        one, two, three = [await kept(database, code) for code in ("001-1", "002-2", "003-3")]

        assert [each.id for each in await database.all(bank.page(limit=2))] == [three, two]
        assert [each.id for each in await database.all(bank.page(before=two, limit=2))] == [one]
        assert await database.all(bank.page(before=one)) == []
