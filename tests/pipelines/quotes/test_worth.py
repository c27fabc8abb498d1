"""The value of an asset: market price × factor, from the words of a list to a report that fails on one cent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from market import Bill, a_market

from retoma import Retoma, Settings
from retoma.errors import ConfigurationError
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.conditions import Condition, ConditionRefused, condition_of
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import read_list
from retoma.pipelines.quotes.markets import market_from
from retoma.pipelines.quotes.ports import Market
from retoma.pipelines.quotes.pricing.valuation import Conservation
from retoma.pipelines.quotes.reports import Kind, Reports, of_row
from retoma.providers.factory import providers_from
from retoma.testing import drain

pytestmark = pytest.mark.timeout(600)

KINDS: tuple[Kind, ...] = ("pdf", "xlsx", "json")
FACTORS: dict[str, Any] = {
    "conservation": {"BOM": "1", "REGULAR": "0.8", "RUIM": "0.5"},
    "used": {"0": "1", "5": "0.6"},
    "remaining": {"0": "0.2", "5": "0.9"},
    "weights": {"ec": "0.5", "pu": "0.3", "vuf": "0.2"},
}
WORN = Condition(conservation=Conservation.REGULAR, years_used=6, years_left=7, book_value=Decimal("100.00"))
# 0.8 × 0.5 + 0.6 × 0.3 + 0.9 × 0.2
FACTOR = Decimal("0.7600")


@pytest.fixture
async def app(settings: Settings, tmp_path: Path) -> AsyncIterator[Retoma]:
    given = {"RETOMA_HOME": str(tmp_path), "RETOMA_BROWSER": "none"}
    providers = providers_from(given)
    market = market_from(given, providers)
    async with Retoma(settings=settings, extensions=[QUOTES], providers={**providers, Market: market}) as app:
        yield app
    await market.aclose()


async def quoted(app: Retoma, *, condition: Condition | None = WORN, report: dict[str, Any] | None = None) -> int:
    library = Quotes(app)
    project = await library.create_project("Reavaliação", report={"factors": FACTORS} if report is None else report)
    id = await library.create("Estante de aço 6 prateleiras", condition=condition, project_id=project.id)
    await drain(app)
    return id


# — what people write —


def test_a_condition_is_read_as_people_write_it_in_both_languages() -> None:
    told = {"conservation": "Regular ", "years_used": "6", "years_left": "7", "book_value": "R$ 1.234,56"}

    assert condition_of(told) == Condition(
        conservation=Conservation.REGULAR, years_used=6, years_left=7, book_value=Decimal("1234.56")
    )
    for said, meant in (("BOM", "BOM"), ("good", "BOM"), ("Poor", "RUIM"), ("ruim", "RUIM"), ("fair", "REGULAR")):
        found = condition_of({"conservation": said, "years_used": "0", "years_left": "0"})
        assert found is not None
        assert found.conservation == meant
    assert condition_of({"conservation": " "}) is None


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"conservation": "BOM"}, "condition_incomplete"),
        ({"years_used": "3", "years_left": "3"}, "condition_incomplete"),
        ({"book_value": "10"}, "condition_incomplete"),
        ({"conservation": "ótimo", "years_used": "3", "years_left": "3"}, "conservation_unknown"),
        ({"conservation": "BOM", "years_used": "-1", "years_left": "3"}, "years_unreadable"),
        ({"conservation": "BOM", "years_used": "3,5", "years_left": "3"}, "years_unreadable"),
        ({"conservation": "BOM", "years_used": "201", "years_left": "3"}, "years_unreadable"),
        ({"conservation": "BOM", "years_used": "²", "years_left": "3"}, "years_unreadable"),
        ({"conservation": "BOM", "years_used": "1", "years_left": "3", "book_value": "x"}, "book_value_unreadable"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_with_a_code(given: dict[str, str], code: str) -> None:
    with pytest.raises(ConditionRefused) as refused:
        condition_of(given)

    assert refused.value.code == code


def test_a_list_has_columns_for_the_condition_and_a_row_that_lacks_a_part_is_told() -> None:
    content = (
        "codigo;descricao;Estado de conservação;Anos de uso;Vida útil restante;Valor contábil\n"
        "1;Mesa;BOM;2;8;500,00\n2;Cadeira;;;;\n3;Armário;ruim;;4;\n4;Estante;novo;1;1;\n"
    ).encode()

    listed = read_list(content)

    assert [(each.code, each.condition is not None) for each in listed.items] == [("1", True), ("2", False)]
    assert listed.items[0].condition == Condition(
        conservation=Conservation.BOM, years_used=2, years_left=8, book_value=Decimal("500.00")
    )
    assert [(each.line, each.reason) for each in listed.problems] == [
        (4, "condition_incomplete"), (5, "conservation_unknown"),
    ]  # fmt: skip


# — the value —


async def test_the_value_is_the_market_price_times_the_factor_of_the_projects_version(app: Retoma) -> None:
    id = await quoted(app)
    library = Quotes(app)
    quote = await library.quote(id)
    await library.change_project(quote.project_id, report={"factors": {}})
    told = await Reports(app).valuation(id)

    assert told is not None
    assert told.valuation is not None
    assert told.result is not None
    assert told.valuation.market == told.result
    assert (told.valuation.ec, told.valuation.pu, told.valuation.vuf) == (
        Decimal("0.8"), Decimal("0.6"), Decimal("0.9"),
    )  # fmt: skip
    assert told.valuation.factor == FACTOR
    assert told.valuation.value == (told.result * FACTOR).quantize(Decimal("0.01"))
    assert told.valuation.version == f"{quote.config_version_id} (versão 1)", "not that of the change"
    assert told.valuation.movement == "REVALUATION"
    assert quote.condition == WORN


async def test_a_report_prints_price_factors_and_value_and_is_verified_as_every_kind_of_file(app: Retoma) -> None:
    id = await quoted(app)
    reports = Reports(app)
    (told,) = of_row(await reports.close(quote_id=id, by="ana")).reports
    files = [await reports.file(kind, quote_id=id) for kind in KINDS]
    assert told.valuation is not None

    memory = "\n".join(told.memory)
    assert "Fator = 0,8 × 0,5 + 0,6 × 0,3 + 0,9 × 0,2 = 0,76" in memory
    assert f"Valor do bem = {shown(told.valuation.market)} × 0,76 = {shown(told.valuation.value)}" in memory
    assert [await reports.verify(each) for each in files] == [[], [], []]


def shown(amount: Decimal) -> str:
    return f"{amount:,.2f}".translate(str.maketrans(",.", ".,"))


@pytest.mark.parametrize("part", ["value", "market", "ec", "difference"])
async def test_one_cent_in_the_value_or_in_what_it_follows_from_is_found(app: Retoma, part: str) -> None:
    id = await quoted(app)
    reports = Reports(app)
    await reports.close(quote_id=id, by="ana")
    content = json.loads(await reports.file("json", quote_id=id))
    worth = content["reports"][0]["valuation"]
    worth[part] = str(Decimal(worth[part]) + Decimal("0.01"))

    problems = await reports.verify(json.dumps(content).encode())

    assert f"reports[1].valuation.{part}" in {where for where, _ in problems}


async def test_factors_that_were_changed_with_all_that_follows_are_told_as_a_report_that_nobody_closed(
    app: Retoma,
) -> None:
    id = await quoted(app)
    reports = Reports(app)
    await reports.close(quote_id=id, by="ana")
    closed = await reports.document(quote_id=id)
    other = json.loads(await reports.file("json", quote_id=id))
    other["reports"][0]["research"]["asset"]["years_left"] = 0

    assert closed.reports[0].valuation is not None
    assert await reports.verify(json.dumps(other).encode())


async def test_a_project_without_factors_has_a_price_and_no_value_and_the_report_says_why(app: Retoma) -> None:
    id = await quoted(app, report={})
    reports = Reports(app)
    (told,) = of_row(await reports.close(quote_id=id, by="ana")).reports

    assert told.result is not None
    assert told.valuation is None
    assert any("não tem fatores de avaliação" in each for each in told.alerts)
    assert await reports.verify(await reports.file("pdf", quote_id=id)) == []


async def test_an_item_without_a_condition_has_no_value(app: Retoma) -> None:
    id = await quoted(app, condition=None)

    assert await Reports(app).valuation(id) is None
    assert (await Reports(app).document(quote_id=id)).reports[0].valuation is None


@pytest.mark.parametrize(
    "factors",
    [
        {"weights": {"ec": "0.5", "pu": "0.5", "vuf": "0.5"}},
        {"weights": {"ec": "1.5", "pu": "-0.5", "vuf": "0"}},
        {"weights": {"ec": "1"}},
        {"used": {"1": "0.5"}},
        {"conservation": {"BOM": "1"}},
        {"remaining": {"0": "50"}},
        {"colour": {}},
    ],
)
async def test_factors_that_cannot_be_are_refused_when_the_project_is_changed(
    app: Retoma, factors: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError):
        await Quotes(app).create_project("P", report={"factors": factors})


async def test_a_new_quote_of_the_same_item_has_its_condition(
    settings: Settings, bill: Bill, psql: psycopg.Connection
) -> None:
    async with Retoma(settings=settings, extensions=[QUOTES], providers={Market: a_market(bill)}) as app:
        library = Quotes(app)
        id = await library.create("Mesa", condition=WORN)
        await library.cancel(id)
        again = await library.quote(await library.requote(id))

    assert again.condition == WORN
    with pytest.raises(psycopg.errors.CheckViolation):
        psql.execute("update quotes.quote_requests set years_used = null")
