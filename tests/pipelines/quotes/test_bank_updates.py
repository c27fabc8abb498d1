"""Prices of the bank that are too old: looked up again, corrected, left to a person, or left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import Decimal

import psycopg
import pytest
from market import Bill, Table, a_market

from retoma import Retoma
from retoma.errors import ConfigurationError, Conflict
from retoma.pipelines.quotes.bank_values import UpdateMode, away
from retoma.pipelines.quotes.banking import PriceBank
from retoma.pipelines.quotes.model import Quote
from retoma.pipelines.quotes.ports import Market
from retoma.testing import drain

from .conftest import Make

OLD = "update quotes.price_bank set updated_at = now() - interval '7 months'"
UNO = "Fiat Uno Mille 2012"


class Moved(Table):
    """A table that says another price than before."""

    says = "21345.00"

    async def search(self, query: str, *, limit: int = 40, timeout: float):  # type: ignore[no-untyped-def]
        found = await super().search(query, limit=limit, timeout=timeout)
        return type(found)(offers=found.offers, raw=found.raw.replace("21345.00", self.says), usage=found.usage)


@pytest.fixture
def table(bill: Bill) -> Moved:
    return Moved(bill)


@pytest.fixture
def market(bill: Bill, table: Moved) -> Market:
    plain = a_market(bill)
    return Market(understanding=plain.understanding, sources=[*plain.sources[:2], table], pages=plain.pages)


@pytest.fixture
async def app(make: Make, market: Market) -> AsyncIterator[Retoma]:
    async with make(market) as ready:
        yield ready


async def quoted(app: Retoma, text: str = UNO, **terms: object) -> Quote:
    """A quote of the vehicle, by a project with these terms."""
    library = PriceBank(app)
    name = "-".join(["Frota", *map(str, terms.values())])
    found = await library.projects(name=name)
    project = found[0] if found else await library.create_project(name, **terms)
    id = await library.create(text, project_id=project.id)
    await drain(app)
    return await library.quote(id)


def ipca(since: date, until: date, percent: str = "1.00", *, but: str = "") -> bytes:
    """A table of every month between, each with the same variation."""
    months, year, month = [], since.year, since.month
    while (year, month) <= (until.year, until.month):
        months.append(f"{year:04}-{month:02}")
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    rows = "".join(f"{each},{percent}\n" for each in months if each != but)
    return f"# index: IPCA\n# source: made up for a test\n# dated: 2026-11-01\nmonth,percent\n{rows}".encode()


class TestMarket:
    async def test_a_price_within_the_tolerance_is_taken_over_and_the_change_is_written_down(
        self, app: Retoma, table: Moved, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        psql.execute(OLD)
        table.says = "25000.00"

        quote = await quoted(app)
        (known,) = await PriceBank(app).bank()
        (change,) = await PriceBank(app).updates()

        assert (quote.status, quote.valor_medio, known.price) == ("DONE", Decimal("25000.00"), Decimal("25000.00"))
        assert (change.mode, change.state, change.price_before, change.price_after) == (
            "MARKET", "APPLIED", Decimal("21345.00"), Decimal("25000.00"),
        )  # fmt: skip
        assert change.detail["desvio_percentual"] == "17.12"

    async def test_a_price_beyond_it_waits_for_a_person_and_the_bank_stays_as_it_was(
        self, app: Retoma, table: Moved, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        psql.execute(OLD)
        table.says = "30000.00"

        quote = await quoted(app)
        (known,) = await PriceBank(app).bank()
        struck = [each for each in await PriceBank(app).sources(quote.id) if not each.is_valid]

        assert (quote.status, known.price) == ("AWAITING_REVIEW", Decimal("21345.00"))
        assert (quote.error_message or "").startswith("bank_tolerance: 30000.00 is 40.55 % away from 21345.00")
        assert [(each.kind, each.failure_reason, each.price_value) for each in struck] == [
            ("BANK", "TOO_OLD", Decimal("21345.00"))
        ]

    @pytest.mark.parametrize(
        ("accept", "price", "state"), [(True, "30000.00", "APPLIED"), (False, "21345.00", "REFUSED")]
    )
    async def test_who_decides_about_the_quote_decides_about_the_bank(
        self, app: Retoma, table: Moved, psql: psycopg.Connection, *, accept: bool, price: str, state: str
    ) -> None:
        await quoted(app)
        psql.execute(OLD)
        table.says = "30000.00"
        quote, library = await quoted(app), PriceBank(app)

        act = library.accept if accept else library.refuse
        await act(quote.id, reason="Conferido na tabela", by="ana")

        (known,), (change,) = await library.bank(), await library.updates()
        assert (known.price, change.state, change.decided_by) == (Decimal(price), state, "ana")
        assert change.reason == "Conferido na tabela"

    async def test_the_tolerance_is_a_term_of_the_project(
        self, app: Retoma, table: Moved, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        psql.execute(OLD)
        table.says = "30000.00"

        assert (await quoted(app, bank_tolerance_percent=50)).status == "DONE"
        with pytest.raises(ConfigurationError):
            await PriceBank(app).create_project("Outra", bank_tolerance_percent=-1)


class TestIpca:
    async def test_the_price_is_corrected_nobody_is_asked_and_the_calculation_can_be_followed(
        self, app: Retoma, bill: Bill, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        psql.execute(OLD)
        (before,), asked = await PriceBank(app).bank(), len(bill.lines("table"))
        today = datetime.now(UTC).date()
        await PriceBank(app).load_index(ipca(before.updated_at.date(), today))

        quote = await quoted(app, bank_update="IPCA")
        (source,) = await PriceBank(app).sources(quote.id)
        (known,), (change,) = await PriceBank(app).bank(), await PriceBank(app).updates()

        told = source.detail or {}
        by_hand = (Decimal(told["preco_nominal"]) * Decimal(told["fator"])).quantize(Decimal("0.01"))
        assert quote.status == "DONE"
        assert by_hand == quote.valor_medio == known.price == change.price_after
        assert by_hand > before.price
        assert (change.mode, change.state, change.detail["indice"]) == ("IPCA", "APPLIED", "IPCA")
        assert len(bill.lines("table")) == asked
        assert known.updated_at.date() == today

    async def test_without_the_table_it_fails_with_what_is_missing_and_goes_on_once_it_is_loaded(
        self, app: Retoma, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        psql.execute(OLD)
        failed = await quoted(app, bank_update="IPCA")
        (before,) = await PriceBank(app).bank()
        await PriceBank(app).load_index(ipca(before.updated_at.date(), datetime.now(UTC).date()))

        await app.jobs.retry(failed.job_id)
        await drain(app)

        assert failed.status == "ERROR"
        assert (failed.error_message or "").startswith("bank_index_missing:")
        assert (await PriceBank(app).quote(failed.id)).status == "DONE"


class TestManualAndSkip:
    async def test_a_price_that_is_for_a_person_waits_and_the_one_it_comes_to_is_the_banks(
        self, app: Retoma, bill: Bill, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        psql.execute(OLD)
        asked, library = len(bill.lines("table")), PriceBank(app)

        quote = await quoted(app, bank_update="MANUAL", quotes_wanted=1)
        (old,) = await library.sources(quote.id)
        await library.drop_source(quote.id, old.id, reason="Preço antigo", by="ana")
        after = await library.add_source(
            quote.id, title="Fiat Uno", price=Decimal(23000), reason="Laudo da comissão", by="ana"
        )

        (known,), (change,) = await library.bank(), await library.updates()
        assert (quote.status, after.status) == ("AWAITING_REVIEW", "DONE")
        assert (quote.error_message or "").startswith("bank_manual:")
        assert (known.price, change.mode, change.state) == (Decimal("23000.00"), "MANUAL", "APPLIED")
        assert len(bill.lines("table")) == asked

    async def test_a_price_that_is_left_alone_is_used_however_old(
        self, app: Retoma, bill: Bill, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        psql.execute(OLD)

        quote = await quoted(app, bank_update="SKIP")

        assert (quote.status, quote.valor_medio) == ("DONE", Decimal("21345.00"))
        assert len(bill.lines("table")) == 1
        assert await PriceBank(app).updates() == []

    async def test_the_mode_of_a_vehicle_wins_over_that_of_the_project(
        self, app: Retoma, bill: Bill, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        psql.execute(OLD)
        (known,) = await PriceBank(app).bank()
        await PriceBank(app).set_mode(known.id, UpdateMode.SKIP)

        assert (await quoted(app)).status == "DONE"
        assert len(bill.lines("table")) == 1


class TestUpdate:
    async def test_all_vehicles_are_looked_up_again_as_a_batch_and_those_left_alone_are_left_out(
        self, app: Retoma, table: Moved, psql: psycopg.Connection
    ) -> None:
        await quoted(app)
        library = PriceBank(app)
        psql.execute(
            "insert into quotes.price_bank (codigo_fipe, ano, marca, modelo, vehicle_type, words, price, update_mode) "
            "values ('9', 2000, 'A', 'B', 'cars', '{a}', 5, 'SKIP'), ('8', 2000, 'A', 'B', 'cars', '{a}', 5, 'MANUAL')"
        )
        table.says = "22000.00"

        batch, count = await library.update(by="ana")
        await drain(app)

        assert count == 1
        assert (await app.batches.get(batch)).state == "completed"
        assert {each.codigo_fipe: each.price for each in await library.bank()}["001004-9"] == Decimal("22000.00")
        assert [(each.mode, each.state, each.by) for each in await library.updates()] == [("MARKET", "APPLIED", "ana")]

    async def test_what_is_beyond_the_tolerance_waits_and_is_decided_once(self, app: Retoma, table: Moved) -> None:
        await quoted(app)
        library = PriceBank(app)
        table.says = "60000.00"
        await library.update(by="ana")
        await drain(app)

        (waiting,) = await library.updates(waiting=True)
        done = await library.decide(waiting.id, accept=True, reason="Confere", by="bia")
        with pytest.raises(Conflict):
            await library.decide(waiting.id, accept=False, reason="Não confere", by="cid")

        assert (done.state, done.decided_by) == ("APPLIED", "bia")
        assert (await library.bank())[0].price == Decimal("60000.00")

    async def test_a_person_says_a_price_with_a_reason_and_what_waited_is_refused(
        self, app: Retoma, table: Moved
    ) -> None:
        await quoted(app)
        library = PriceBank(app)
        table.says = "60000.00"
        await library.update(by="ana")
        await drain(app)
        (known,) = await library.bank()

        with pytest.raises(ConfigurationError):
            await library.set_price(known.id, Decimal(20000), reason=" ", by="bia")
        now = await library.set_price(known.id, Decimal(20000), reason="Laudo 12", by="bia")

        assert now.price == Decimal("20000.00")
        assert [(each.mode, each.state) for each in await library.updates()] == [
            ("MANUAL", "APPLIED"), ("MARKET", "REFUSED"),
        ]  # fmt: skip

    async def test_a_mode_that_is_for_a_person_is_no_work_of_a_machine(self, app: Retoma) -> None:
        await quoted(app)

        with pytest.raises(ConfigurationError):
            await PriceBank(app).update(mode=UpdateMode.MANUAL, by="ana")

    async def test_the_bank_is_a_file_that_spreadsheets_read(self, app: Retoma) -> None:
        await quoted(app)

        content = b"".join([each async for each in PriceBank(app).as_csv()]).decode("utf-8-sig").splitlines()

        assert content[0].startswith('"Código FIPE";"Ano"')
        assert content[1].startswith('"001004-9";"2012";"Fiat";"Uno Mille 1.0 Fire";"Gasolina";"21345,00"')


def test_how_far_a_price_is_from_another() -> None:
    assert away(Decimal(100), Decimal(130)) == Decimal("30.00")
    assert away(Decimal(100), Decimal("69.99")) == Decimal("30.01")
