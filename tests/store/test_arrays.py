"""The text that we write for an array means to PostgreSQL what it meant to us."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_hand import Hand

from retoma.store.query import array

ANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TIMES = st.datetimes(
    min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-3)))  # noqa: E501, DTZ001
)  # fmt: skip


def read_back(db: Hand, values: Sequence[object], kind: str) -> list[Any]:
    return list(db.value(f"select %(given)s::{kind}[]", given=array(values)))


@ANY
@given(values=st.lists(st.none() | TEXT))
def test_any_text_comes_back_as_it_was(db: Hand, values: list[str | None]) -> None:
    assert read_back(db, values, "text") == values


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NULL",
        "null",
        '"',
        "\\",
        '\\"',
        "{}",
        "{a,b}",
        ",",
        " a ",
        "\n\t",
        "é\u2028\U0001f4a9",
        "%s %(x)s",
        "$1",
        "'",
    ],
)
def test_a_text_that_looks_like_something_else_is_only_text(db: Hand, text: str) -> None:
    assert read_back(db, [text, text], "text") == [text, text]


@ANY
@given(values=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_any_number_comes_back_as_it_was(db: Hand, values: list[int | None]) -> None:
    assert read_back(db, values, "bigint") == values


@ANY
@given(values=st.lists(st.none() | st.floats()))
def test_any_fraction_comes_back_as_it_was(db: Hand, values: list[float | None]) -> None:
    found = read_back(db, values, "float8")

    assert len(found) == len(values)
    for one, two in zip(found, values, strict=True):
        assert one == two or (one is not None and two is not None and math.isnan(one) and math.isnan(two))


@ANY
@given(values=st.lists(st.none() | st.booleans()))
def test_any_truth_comes_back_as_it_was(db: Hand, values: list[bool | None]) -> None:
    assert read_back(db, values, "boolean") == values


@ANY
@given(values=st.lists(st.none() | TIMES))
def test_any_hour_comes_back_as_it_was(db: Hand, values: list[datetime | None]) -> None:
    db.sql("set time zone 'UTC'")

    assert read_back(db, values, "timestamptz") == values


def test_nothing_is_an_empty_array(db: Hand) -> None:
    assert read_back(db, [], "text") == []
