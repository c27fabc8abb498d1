"""What a reply over HTTP means, whoever sent it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retoma.providers import Allowance, ProviderError
from retoma.providers.http import Reply, failure, redacted

NOW = "Wed, 18 Nov 2026 10:00:00 GMT"


def reply(status: int = 429, body: str = "", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply.of(status, {"Date": NOW, **named}, body)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Wed, 18 Nov 2026 10:01:30 GMT", 90.0),
        ("Wed, 18 Nov 2026 09:00:00 GMT", 0.0),
        ("Wed, 18 Nov 2026 07:00:10 -0300", 10.0),
        ("Wednesday, 18-Nov-26 10:00:05 GMT", 5.0),
        ("Wed Nov 18 10:00:20 2026", 20.0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("Wed, 99 Nov 2026 10:00:00 GMT", None),
    ],
)
def test_when_to_come_back_is_a_number_or_a_date_by_the_services_own_clock(asked: str, seconds: float | None) -> None:
    assert reply(retry_after=asked).retry_after == seconds


def test_milliseconds_are_more_exact() -> None:
    assert reply(retry_after="2", retry_after_ms="1234").retry_after == 1.234


def test_without_a_date_of_the_service_our_own_clock_counts() -> None:
    said = Reply.of(429, {"Retry-After": "Wed, 18 Nov 2099 10:00:00 GMT"}, "")

    assert said.retry_after is not None
    assert said.retry_after > 365 * 24 * 3600


@pytest.mark.parametrize(
    ("headers", "allowance"),
    [
        ({}, None),
        ({"x-ratelimit-remaining-requests": "a few"}, None),
        ({"x-ratelimit-remaining-requests": "3"}, Allowance(requests=3)),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1h2m3.5s"},
            Allowance(requests=3, resets_in=3723.5),
        ),
        (
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"},
            Allowance(tokens=0, resets_in=0.02),
        ),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1794996030000"}, Allowance(requests=0, resets_in=30.0)),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1794996030"}, Allowance(requests=0, resets_in=30.0)),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, Allowance(requests=0, resets_in=12.0)),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "900",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-18T10:00:09Z",
                "anthropic-ratelimit-output-tokens-remaining": "0",
                "anthropic-ratelimit-output-tokens-reset": "2026-11-18T10:00:04Z",
            },
            Allowance(tokens=0, resets_in=4.0),
        ),
        ({"x-ratelimit-remaining": "1", "x-ratelimit-reset": "tomorrow"}, Allowance(requests=1)),
    ],
)
def test_what_is_left_is_read_from_the_headers(headers: dict[str, str], allowance: Allowance | None) -> None:
    assert Reply.of(200, {"date": NOW, **headers}, "").allowance == allowance


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": {"message": "Too long", "type": "t", "code": "c"}}', "c t Too long"),
        ('{"error": "Invalid key"}', "Invalid key"),
        ('{"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}', "overloaded_error Busy"),
        ('{"error": {"code": "X", "message": "Y", "innererror": {"message": "Z"}}}', "X Y Z"),
        ("<html><body><h1>502</h1>\n<p>Bad   Gateway</p></body></html>", "502 Bad Gateway"),
        ("<?xml version='1.0'?><Error><Code>Busy</Code><Message>Later</Message></Error>", "Busy Later"),
        ('{"message": "plain"}', "plain"),
        ("[1, 2]", "[1, 2]"),
        ("not json", "not json"),
    ],
)
def test_the_services_own_words_are_in_the_error(body: str, words: str) -> None:
    assert str(failure("x", reply(500, body))).startswith(f"x answered 500: {words}.")


def test_a_long_story_is_cut_short() -> None:
    told = failure("x", reply(500, json.dumps({"error": {"message": "a" * 10_000}})))

    assert len(told.message) < 400


@given(
    status=st.integers(200, 599),
    body=st.text() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "date", "x-ratelimit-remaining", "x-ratelimit-reset"]),
        st.text(max_size=30) | st.floats().map(str) | st.datetimes().map(str),
    ),
)
def test_whatever_a_service_says_becomes_an_error_of_ours(status: int, body: str, headers: dict[str, Any]) -> None:
    error = failure("x", Reply.of(status, headers, body))

    assert isinstance(error, ProviderError)
    assert error.retry_after is None or 0 <= error.retry_after < float("inf")


KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)


@given(key=KEYS, around=st.text(max_size=20))
def test_a_key_does_not_get_through_however_it_is_written(key: str, around: str) -> None:
    text = redacted(f"{around} {key} {around}", [key])

    assert key not in text.replace("***", "\0")


def test_a_key_in_an_address_is_hidden_too() -> None:
    assert redacted("GET /x?api_key=a%2Fb%2Bc&q=1 and a/b+c", ["a/b+c"]) == "GET /x?api_key=***&q=1 and ***"


def test_what_looks_like_a_key_is_hidden_even_when_it_is_not_ours() -> None:
    assert redacted("Incorrect API key provided: sk-abc***wxyz.", []) == "Incorrect API key provided: ***"
    assert redacted("Authorization: Bearer abcdefgh", []) == "Authorization: ***"
