"""The arithmetic of the measurements."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retoma.bench import books, quote_pages, telemetry
from retoma.bench.book_program import Diary
from retoma.bench.machine import exact_cpu
from retoma.bench.plan import plan
from retoma.bench.quote_figures import Told
from retoma.bench.quote_market import POISON, Bill, Counter, Paid, price_of
from retoma.bench.quotes import items_of, reckoned
from retoma.bench.soak import slope_of
from retoma.pipelines.books.text.plan import detect
from retoma.pipelines.quotes.pricing.extract import read_price
from retoma.pipelines.quotes.pricing.offers import Found


def test_a_straight_line_has_its_own_slope() -> None:
    assert slope_of([0, 10, 20, 30], [5, 25, 45, 65]) == pytest.approx(2.0)


def test_what_goes_up_and_down_around_one_value_has_no_slope() -> None:
    assert slope_of([0, 1, 2, 3, 4], [3, 5, 3, 5, 3]) == pytest.approx(0.0)


def test_one_sample_has_no_slope() -> None:
    assert slope_of([7], [3]) == 0.0


# — what the provider was paid for —

ONE = [Paid("mesa", "analysis|mesa", 0.5), Paid("mesa", "search|mesa", 1.0)]


def test_a_bill_of_one_pass_is_what_the_ledger_says() -> None:
    found = reckoned(ONE, [Told("mesa", answered=2, doubtful=0)])

    assert (found.paid, found.one_pass, found.again, found.unexplained) == (2, 2, 0, 0)
    assert found.seconds == pytest.approx(1.5)


def test_a_request_that_was_paid_again_is_explained_by_a_call_in_doubt() -> None:
    found = reckoned([*ONE, ONE[1]], [Told("mesa", answered=2, doubtful=1)])

    assert (found.paid, found.one_pass, found.again, found.in_doubt, found.unexplained) == (3, 2, 1, 1, 0)
    assert found.seconds == pytest.approx(1.5), "the ideal is that of one pass"


def test_a_request_that_was_paid_again_without_a_doubt_is_told() -> None:
    other = Told("cadeira", answered=0, doubtful=5)

    found = reckoned([*ONE, ONE[1]], [Told("mesa", answered=2, doubtful=0), other])

    assert found.unexplained == 1, "the doubts of another item explain nothing"


def test_a_request_with_two_answers_is_told() -> None:
    assert reckoned(ONE, [Told("mesa", answered=3, doubtful=0)]).answered_twice == 1


def test_one_item_in_a_hundred_is_poison_and_no_two_are_the_same() -> None:
    texts = [each.text for each in items_of(1000).items]

    assert sum(POISON in text for text in texts) == 10
    assert len(set(texts)) == 1000


def test_the_shops_of_one_item_ask_for_about_the_same() -> None:
    prices = [price_of("mesa 00017", place) for place in range(5)]

    assert len(set(prices)) == 5
    assert max(prices) < min(prices) * 2


async def test_a_request_is_in_the_file_before_it_is_answered_and_always_takes_the_same_time(tmp_path: Path) -> None:
    bill = Bill(tmp_path / "bill")
    counter = Counter(bill, 0.0, 0.001)

    for request in ("search|mesa", "search|cadeira", "search|mesa"):
        await counter.serve(request.partition("|")[2], request)

    first, other, again = bill.lines()
    assert first == again
    assert (other.item, other.request) == ("cadeira", "search|cadeira")
    assert first.seconds != other.seconds or 0 <= first.seconds <= 0.001


# — what it costs to be watched —


def test_a_turn_is_compared_with_the_turns_around_it_and_one_bad_pair_decides_nothing() -> None:
    bare = telemetry.between(telemetry.Turn(900, 0.05, 0.03), telemetry.Turn(1100, 0.03, 0.05))
    usual = telemetry.Turn(950, 0.044, 0.044)

    found = telemetry.compared([(usual, bare)] * 4 + [(telemetry.Turn(10, 4.0, 4.0), bare)])

    assert (found["slower_percent"], found["more_cpu_percent"], found["more_worker_cpu_percent"]) == (5.0, 10.0, 10.0)
    assert found["more_cpu_percent_quarters"] == [10.0, 10.0]


def test_a_process_that_works_has_used_processor_time() -> None:
    before = exact_cpu(os.getpid())
    sum(range(100_000))

    assert exact_cpu(os.getpid()) > before > 0


# — pages and books —


def test_the_pages_that_are_read_have_prices_and_traps() -> None:
    found = [isinstance(read_price(*page), Found) for page in quote_pages.catalogue()]

    assert found.count(True) > found.count(False) > 10


def test_the_chapters_of_an_invented_book_are_found() -> None:
    text = books.book(7, chapters=12, words=150)

    found = detect(books.read(text))

    assert [each.number for each in found.chapters] == [str(number) for number in range(1, 13)]
    assert not found.doubts
    assert books.book(7, chapters=12, words=150) == text != books.book(8, chapters=12, words=150)


def test_a_diary_keeps_the_order(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "diary")

    for number in ("1", "2", "2"):
        diary.add(number)

    lines = diary.lines()
    assert [each.number for each in lines] == ["1", "2", "2"]
    assert sorted(each.at for each in lines) == [each.at for each in lines]


def test_a_quick_plan_measures_the_same_figures() -> None:
    assert list(plan(quick=True)) == list(plan(quick=False))
