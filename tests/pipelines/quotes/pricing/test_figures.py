"""Figures to the cent: statistics, correction by an index, the value of an asset."""

from __future__ import annotations

import statistics as reference
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.pricing.correction import correct, load
from retoma.pipelines.quotes.pricing.statistics import Central, Discard, Rules, figures, judge, quartile
from retoma.pipelines.quotes.pricing.valuation import Conservation, Factors, value

D = Decimal
# Figures for these tests alone: no index ever had them.
EXAMPLE = """# index: IPCA
# source: example for tests, not an official figure
# dated: 2026-11-01
month,percent
2026-07,1.00
2026-08,2.00
2026-09,-0.50
2026-10,0.00
"""


def series(*prices: str) -> list[Decimal]:
    return [D(each) for each in prices]


def test_the_figures_of_three_prices() -> None:
    found = figures(series("100.00", "110.00", "132.00"))

    assert found is not None
    assert (found.mean, found.median, found.lowest, found.highest) == (
        D("114.00"),
        D("110.00"),
        D("100.00"),
        D("132.00"),
    )
    assert (found.deviation, found.cv_percent, found.spread_percent) == (D("16.37"), D("14.36"), D("32.00"))
    assert [found.of(each) for each in Central] == [D("114.00"), D("110.00"), D("100.00")]


def test_half_a_cent_goes_to_the_even_one() -> None:
    assert [found.mean for found in map(figures, (series("0.01", "0.02"), series("0.02", "0.03"))) if found] == [
        D("0.02"),
        D("0.02"),
    ]


def test_no_prices_have_no_figures() -> None:
    assert figures([]) is None


def test_one_price_does_not_vary() -> None:
    found = figures(series("5.00"))

    assert found is not None
    assert (found.deviation, found.cv_percent, found.spread_percent) == (D("0.00"),) * 3


@given(st.lists(st.decimals(min_value=1, max_value=10_000_000, places=2), min_size=2, max_size=40))
def test_the_figures_are_those_of_exact_fractions(prices: list[Decimal]) -> None:
    found = figures(prices)

    assert found is not None
    assert abs(found.mean - reference.mean(prices)) <= D("0.005")
    assert abs(found.median - reference.median(prices)) <= D("0.005")
    assert abs(found.deviation - reference.stdev(prices)) <= D("0.0051")
    assert found.lowest <= found.median <= found.highest


def test_quartiles_are_those_of_a_spreadsheet() -> None:
    ordered = series("1", "2", "3", "4")

    assert (quartile(ordered, 1), quartile(ordered, 3)) == (D("1.75"), D("3.25"))


def test_what_is_too_low_and_too_high_against_the_mean_of_the_others() -> None:
    judged = judge(series("100", "105", "110", "40", "400"), Rules())

    # 40 is below 70 % of 178.75; 400 is above 130 % of 88.75; the others are held against means that hold both.
    assert [each.discarded for each in judged[3:]] == [Discard.UNFEASIBLE, Discard.EXCESSIVE]
    assert (judged[3].compared, judged[3].bound) == (D("178.75"), D("125.125"))


@pytest.mark.parametrize(
    ("price", "discarded"),
    [("70", None), ("69.99", Discard.UNFEASIBLE), ("130", None), ("130.01", Discard.EXCESSIVE)],
)
def test_the_threshold_itself_is_allowed(price: str, discarded: Discard | None) -> None:
    rules = Rules(unfeasible_percent=D(70), excessive_percent=D(130))

    assert judge([D(price), D(100), D(100)], rules)[0].discarded is discarded


def test_thresholds_are_parameters() -> None:
    prices = series("72", "100", "100")

    assert judge(prices, Rules(unfeasible_percent=D(75)))[0].discarded is Discard.UNFEASIBLE
    assert judge(prices, Rules(unfeasible_percent=D(70)))[0].discarded is None
    assert judge(prices, Rules(unfeasible_percent=None))[0].discarded is None


@pytest.mark.parametrize(
    ("rules", "discarded"),
    [
        (Rules(outliers="none", excessive_percent=None), []),
        (Rules(outliers="iqr"), ["500"]),
        (Rules(outliers="median", median_percent=D(25)), ["500"]),
        (Rules(outliers="median", median_percent=D(5), excessive_percent=None), ["90", "112", "500"]),
    ],
)
def test_outliers_by_the_rule_that_is_configured(rules: Rules, discarded: list[str]) -> None:
    judged = judge(series("90", "100", "101", "112", "500"), rules)

    assert [str(each.price) for each in judged if each.discarded is Discard.OUTLIER] == discarded


def test_a_price_may_be_compared_with_the_median() -> None:
    (low, *_) = judge(series("60", "100", "110"), Rules(compared_with="median"))

    assert (low.discarded, low.compared, low.bound) == (Discard.UNFEASIBLE, D(100), D(70))


# — correction —


def test_a_price_is_corrected_by_the_months_after_it() -> None:
    corrected = correct(D("1000.00"), load(EXAMPLE), since=date(2026, 7, 15), until=date(2026, 11, 3))

    assert corrected.factor == D("1.01490000")
    assert (corrected.nominal, corrected.corrected) == (D("1000.00"), D("1014.90"))
    assert (corrected.since, corrected.until, corrected.months) == ("2026-07", "2026-11", 3)
    assert corrected.source.startswith("example for tests")


def test_a_price_of_this_month_stays() -> None:
    corrected = correct(D("10.00"), load(EXAMPLE), since=date(2026, 10, 1), until=date(2026, 10, 30))

    assert (corrected.corrected, corrected.months) == (D("10.00"), 0)


def test_a_month_that_the_table_does_not_know_is_told() -> None:
    with pytest.raises(ConfigurationError, match="2026-11"):
        correct(D(1), load(EXAMPLE), since=date(2026, 9, 1), until=date(2026, 12, 1))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("IPCA", "INPC-X", "index"),
        ("# source: example for tests, not an official figure", "", "source"),
        ("2026-11-01", "soon", "dated"),
        ("month,percent", "mes,valor", "columns"),
        ("2026-08,2.00", "2026-07,2.00", "twice"),
        ("2026-08,2.00\n", "", "2026-08 is missing"),
        ("2.00", "two", "line 6"),
        ("2.00", "NaN", "line 6"),
        ("2.00", "2.00,9", "two columns"),
    ],
)
def test_a_table_that_cannot_be_trusted_is_refused(old: str, new: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        load(EXAMPLE.replace(old, new, 1))


# — value —


def test_the_value_is_the_market_price_times_the_factor() -> None:
    worth = value(D("1299.90"), Factors(version="3"), conservation=Conservation.REGULAR, years_used=3, years_left=6)

    assert (worth.ec, worth.pu, worth.vuf) == (D("0.7"), D("0.9"), D("0.7"))
    assert worth.factor == D("0.7600")
    assert worth.value == D("987.92")
    assert worth.version == "3"


@pytest.mark.parametrize(("book", "movement"), [("900", "REVALUATION"), ("1000", "IMPAIRMENT"), ("987.92", "NONE")])
def test_what_the_books_do_is_told(book: str, movement: str) -> None:
    worth = value(
        D("1299.90"),
        Factors(version="3"),
        conservation=Conservation.REGULAR,
        years_used=3,
        years_left=6,
        book_value=D(book),
    )

    assert worth.movement == movement
    assert worth.difference == worth.value - D(book)


def test_weights_that_do_not_make_one_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="weights"):
        Factors(version="1", weights={"ec": D("0.5"), "pu": D("0.5"), "vuf": D("0.5")})
