"""The search for prices that agree: pure, so every case is a table."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from retoma.pipelines.quotes.blocks import BlockSearch, Product


def products(*prices: int | str, ranks: dict[str, int] | None = None) -> list[Product]:
    return [Product(str(price), Decimal(price), (ranks or {}).get(str(price), 0)) for price in prices]


def walk(search: BlockSearch, is_good: Callable[[str], bool]) -> list[str]:
    """Every product that was tested, in order."""
    tested = []
    while (key := search.next()) is not None:
        assert key not in tested, "nothing is tested twice"
        tested.append(key)
        if is_good(key):
            search.good(key)
        else:
            search.bad(key)
    return tested


def test_the_largest_block_is_tried_first_and_three_good_prices_end_the_search() -> None:
    search = BlockSearch(products(10, 11, 12, 100, 101, 102, 103, 500))

    assert walk(search, lambda _: True) == ["100", "101", "102"]
    assert search.chosen == ["100", "101", "102"]
    assert search.tolerance == 25


def test_of_blocks_of_one_size_the_cheapest_is_tried_first() -> None:
    assert walk(BlockSearch(products(100, 101, 102, 10, 11, 12)), lambda _: True) == ["10", "11", "12"]


def test_official_prices_of_a_block_are_tried_before_shops() -> None:
    search = BlockSearch(products(100, 101, 102, 103, ranks={"100": 1, "101": 1, "102": 1}))

    assert walk(search, lambda _: True) == ["103", "100", "101"]


def test_a_block_that_cannot_reach_the_number_is_dropped_and_its_good_prices_are_kept() -> None:
    search = BlockSearch(products(100, 101, 102, 10, 11, 12, 13))

    tested = walk(search, lambda key: key not in {"10", "11"})

    assert tested == ["10", "11", "100", "101", "102"], "two of four failed: the dear block has three that may be good"
    assert search.chosen == ["100", "101", "102"]


def test_a_block_is_finished_before_another_is_begun_as_long_as_it_can_reach_the_number() -> None:
    search = BlockSearch(products(10, 11, 12, 12.4, 100, 101, 102))

    assert walk(search, lambda key: key != "10") == ["10", "11", "12", "12.4"]


def test_with_no_block_left_the_limit_grows_by_five_points() -> None:
    search = BlockSearch(products(100, 115, 133))

    assert walk(search, lambda _: True) == ["100", "115", "133"]
    assert search.tolerance == 35
    assert [block.tolerance for block in search.history] == [35]


def test_good_prices_that_agree_only_under_a_wider_limit_are_enough_then() -> None:
    search = BlockSearch(products(100, 110, 124, 130))

    walk(search, lambda key: key != "110")

    assert search.chosen == ["100", "124", "130"]
    assert search.tolerance == 30


@pytest.mark.parametrize(("bad", "chosen"), [({"100"}, ["101"]), ({"100", "101"}, []), (set(), ["100", "101"])])
def test_fewer_than_three_products_are_all_tried_for_a_person_to_decide(bad: set[str], chosen: list[str]) -> None:
    search = BlockSearch(products(100, 101))

    assert walk(search, lambda key: key not in bad) == ["100", "101"]
    assert search.chosen == chosen


def test_prices_that_are_too_far_apart_cost_no_more_tests_than_a_block_would() -> None:
    search = BlockSearch(products(1, 10, 100, 1000, 10000))

    assert walk(search, lambda _: True) == ["1", "10", "100"]
    assert search.tolerance == 100
    assert search.chosen == ["1"], "prices that do not agree are not counted together"
    assert search.valid == ["1", "10", "100"]
    assert not search.enough


def test_the_price_that_the_page_says_decides_whether_prices_agree() -> None:
    search = BlockSearch(products(100, 105, 110, 112))
    for price in ("100", "200", "110", "112"):
        key = search.next()
        assert key is not None
        search.good(key, Decimal(price))

    assert search.next() is None
    assert search.chosen == ["100", "110", "112"]


def test_without_products_nothing_is_tested() -> None:
    assert walk(BlockSearch([]), lambda _: True) == []


def test_the_same_verdicts_lead_the_same_way_again() -> None:
    prices = products(*range(100, 160, 3))

    def is_good(key: str) -> bool:
        return int(key) % 7 == 0

    assert walk(BlockSearch(prices), is_good) == walk(BlockSearch(list(reversed(prices))), is_good)
