"""Each statement about prices of the bank that are brought up to date does what its comment says."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg

from retoma.pipelines.quotes import bank
from retoma.pipelines.quotes.bank_values import NewUpdate, UpdateMode, UpdateState
from retoma.postgres.database import Database

from .test_bank import kept


def update(vehicle_id: int, after: str | None = "31000.00", **changed: Any) -> NewUpdate:
    given: dict[str, Any] = {
        "vehicle_id": vehicle_id,
        "mode": UpdateMode.MARKET,
        "before": Decimal("30000.00"),
        "after": None if after is None else Decimal(after),
        "by": "ana",
    }
    return NewUpdate(**(given | changed))


class TestHold:
    async def test_the_price_is_told_and_the_row_is_locked(
        self, database: Database, database_url: str, psql: psycopg.Connection
    ) -> None:
        held, free = await kept(database), await kept(database, ano=2021)
        query = bank.hold(held)

        with psycopg.connect(database_url) as connection:
            assert connection.execute(query.sql, query.params).fetchall() == [(Decimal("30000.00"),)]
            others = psql.execute("select id from quotes.price_bank for no key update skip locked").fetchall()

        assert others == [(free,)]


class TestReprice:
    async def test_the_price_and_its_date_change_and_what_is_not_said_stays(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = await kept(database)
        psql.execute("update quotes.price_bank set updated_at = now() - interval '1 year', reference_month = 'maio'")

        assert await database.all(bank.reprice(id, Decimal("31000.00"), evidence_blob="b")) == [id]
        assert await database.all(bank.reprice(id + 1, Decimal("31000.00"))) == []

        (now,) = await database.all(bank.page())
        assert (now.price, now.fresh, now.reference_month, now.evidence_blob) == (
            Decimal("31000.00"),
            True,
            "maio",
            "b",
        )


class TestSetMode:
    async def test_a_vehicle_has_a_mode_of_its_own_until_it_is_taken_away(self, database: Database) -> None:
        id = await kept(database)

        await database.all(bank.set_mode(id, UpdateMode.SKIP))
        own = (await database.all(bank.page()))[0].update_mode
        await database.all(bank.set_mode(id, None))

        assert (own, (await database.all(bank.page()))[0].update_mode) == ("SKIP", None)
        assert await database.all(bank.set_mode(id + 1, UpdateMode.SKIP)) == []


class TestPutUpdate:
    async def test_a_job_that_is_done_again_writes_no_second_row_and_one_at_a_time_waits(
        self, database: Database
    ) -> None:
        id = await kept(database)

        first = await database.all(bank.put_update(update(id, job_id=5), UpdateState.APPLIED))
        again = await database.all(bank.put_update(update(id, job_id=5), UpdateState.APPLIED))
        waits = await database.all(bank.put_update(update(id, None), UpdateState.WAITING))
        too = await database.all(bank.put_update(update(id, None), UpdateState.WAITING))

        assert [len(each) for each in (first, again, waits, too)] == [1, 0, 1, 0]


class TestUpdates:
    async def test_the_newest_first_of_a_vehicle_or_in_a_state(self, database: Database) -> None:
        one, other = await kept(database), await kept(database, ano=2021)
        (first,) = await database.all(bank.put_update(update(one), UpdateState.APPLIED))
        (second,) = await database.all(bank.put_update(update(other), UpdateState.APPLIED))
        (third,) = await database.all(bank.put_update(update(one, None), UpdateState.WAITING))

        async def ids(**wanted: Any) -> list[int]:
            return [each.id for each in await database.all(bank.updates(**wanted))]

        assert await ids() == [third, second, first]
        assert await ids(vehicle_id=one) == [third, first]
        assert await ids(state=UpdateState.WAITING) == [third]
        assert await ids(id=second) == [second]
        assert await ids(limit=1) == [third]
        assert await ids(quote_id=1) == []


class TestDecideUpdate:
    async def test_of_two_who_decide_the_second_gets_no_row(self, database: Database) -> None:
        id = await kept(database)
        (waits,) = await database.all(bank.put_update(update(id, None), UpdateState.WAITING))
        price = Decimal("32000.00")

        applied, refused = UpdateState.APPLIED, UpdateState.REFUSED
        first = await database.all(bank.decide_update(waits, applied, price=price, reason="Laudo 12", by="ana"))
        second = await database.all(bank.decide_update(waits, refused, price=None, reason="Tarde", by="bia"))

        (now,) = await database.all(bank.updates())
        assert (first, second) == ([waits], [])
        assert (now.state, now.price_after, now.reason, now.decided_by) == ("APPLIED", price, "Laudo 12", "ana")
