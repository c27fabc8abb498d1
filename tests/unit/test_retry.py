"""Waits grow, stay under their ceiling, never fall below what a provider asked, and are spread by chance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retoma.errors import ConfigurationError, StepsFailed, Unstorable
from retoma.model.retry import NO_RETRY, Retry


def test_without_chance_the_wait_doubles_up_to_the_longest() -> None:
    retry = Retry(wait=5, factor=2, longest=30, jitter=0)

    assert [retry.delay(attempt) for attempt in (1, 2, 3, 4, 5)] == [5, 10, 20, 30, 30]


def test_chance_takes_at_most_its_share_of_the_wait() -> None:
    retry = Retry(wait=10, jitter=0.5)

    assert retry.delay(1, random=lambda: 0.0) == 10
    assert retry.delay(1, random=lambda: 1.0) == 5
    assert Retry(wait=10, jitter=1).delay(1, random=lambda: 1.0) == 0


@given(st.integers(1, 10**6), st.floats(0, 10**6))
def test_a_provider_s_wait_is_a_floor_and_the_herd_is_still_spread(attempt: int, floor: float) -> None:
    retry = Retry()

    assert retry.delay(attempt, at_least=floor) >= floor
    assert 0 <= retry.delay(attempt) <= retry.longest


def test_two_that_were_told_the_same_second_do_not_return_together() -> None:
    retry = Retry()

    assert retry.delay(1, at_least=60, random=lambda: 0.2) != retry.delay(1, at_least=60, random=lambda: 0.7)


def test_kinds_of_errors_decide() -> None:
    retry = Retry(on=(OSError, ValueError), never=(FileNotFoundError,))

    assert retry.allows(TimeoutError())
    assert not retry.allows(FileNotFoundError())
    assert not retry.allows(KeyError())
    assert not Retry().allows(KeyboardInterrupt())
    assert not Retry().allows(asyncio.CancelledError())


def test_what_would_be_paid_again_for_the_same_answer_is_not_tried_again() -> None:
    assert not Retry().allows(Unstorable("no"))
    assert not Retry().allows(ConfigurationError("no"))


def test_of_several_errors_all_must_be_curable() -> None:
    retry = Retry(never=(KeyError,))

    assert retry.allows(ExceptionGroup("both", [OSError(), ValueError()]))
    assert not retry.allows(ExceptionGroup("both", [OSError(), ExceptionGroup("in", [KeyError()])]))
    assert not retry.allows(StepsFailed("two", failures=[("a", OSError()), ("b", KeyError())]))
    assert retry.allows(StepsFailed("one", failures=[("a", OSError())]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": True},
        {"attempts": 1.5},
        {"wait": -1},
        {"wait": float("nan")},
        {"wait": "5"},
        {"factor": 0.5},
        {"longest": float("inf")},
        {"jitter": 1.1},
        {"on": ValueError},
        {"never": ("ValueError",)},
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Retry(**wrong)


def test_no_retry_is_one_attempt() -> None:
    assert NO_RETRY.attempts == 1
    assert NO_RETRY.delay(1) == 0
