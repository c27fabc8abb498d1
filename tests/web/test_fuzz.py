"""Whatever is thrown at the API, it answers; what it refuses is a problem, and none is our own."""

import json
from typing import Any
from urllib.parse import quote

import httpx2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retoma.web.asked import LaneLimit, Order, Signal, Why

from .conftest import House

CALM = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

VERBS = ("retry", "cancel", "restart", "signal", "pause", "resume", "limit", "run", "attempts", "checkpoints")
VERBS += ("retry-failed", "progress", "plan", "explain", "seal", "errors")

# JSON as odd as it can be written: halves of characters, NUL, numbers of any size, names that are ours.
odd_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
number = st.integers() | st.floats() | st.sampled_from([2**31, 2**63, -(2**63), 10**30, 1e308, 1e-320])
names = st.sampled_from([*Order.model_fields, *Signal.model_fields, *LaneLimit.model_fields, *Why.model_fields])
value: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | number | odd_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(odd_text | names, inner, max_size=4),
    max_leaves=12,
)
moment = st.datetimes().map(str) | st.sampled_from(
    ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-02-30T00:00Z"]
)
order = st.fixed_dictionaries(
    {"pipeline": st.sampled_from(["anything", "double", "stumble", "wait", "x"]), "input": value},
    optional={
        "key": odd_text,
        "queue": odd_text | st.just("q"),
        "lane": odd_text,
        "priority": number,
        "run_at": moment | value,
        "delay_seconds": number,
        "expires_seconds": number,
        "timeout_seconds": number,
        "attempts": number,
        "if_taken": st.sampled_from(["return", "raise", "x"]),
    },
)
# And what is right in all but one thing: only that comes as far as the database.
plain_order = st.fixed_dictionaries(
    {"pipeline": st.just("anything"), "input": value}, optional={"key": odd_text, "lane": odd_text, "run_at": moment}
)
action = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"name": odd_text, "value": value}),
    st.fixed_dictionaries({"lane": odd_text, "at_once": number}),
    st.fixed_dictionaries({"reason": odd_text}),
    st.fixed_dictionaries({"attempts": number}),
)
part = st.text(st.characters(codec="utf-8"), max_size=12) | st.integers().map(str) | st.sampled_from(["1", "2", "q"])
path = st.one_of(
    st.builds("/api/v1/{}/{}".format, st.sampled_from(["jobs", "queues", "schedules", "batches"]), part),
    st.builds(
        "/api/v1/{}/{}/{}".format,
        st.sampled_from(["jobs", "queues", "schedules", "batches"]),
        part,
        st.sampled_from(VERBS),
    ),
)
query = st.dictionaries(
    st.sampled_from(["state", "pipeline", "queue", "key", "batch_id", "cursor", "limit", "gone", "label", "x"]),
    st.text(st.characters(codec="utf-8"), max_size=30) | number.map(str),
    max_size=4,
)
header = st.dictionaries(
    st.sampled_from(["Idempotency-Key", "X-Correlation-Id", "If-None-Match", "Accept-Language", "Range"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30),
    max_size=2,
)


def written(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=True).encode()


def seen(response: httpx2.Response) -> None:
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == response.status_code
    assert response.headers["x-correlation-id"]


JSON = {"Content-Type": "application/json"}


@CALM
@given(body=plain_order | order | value, headers=header)
def test_no_order_brings_the_server_down(odd_house: House, body: Any, headers: dict[str, str]) -> None:
    client = odd_house.client
    answered = client.post("/api/v1/jobs", content=written(body), headers={**JSON, **headers})
    seen(answered)
    if answered.status_code == 202 and answered.json()["new"]:
        kept = client.get(answered.headers["location"])
        assert kept.status_code == 200
        assert kept.json()["input"] == json.loads(written(body))["input"]


@CALM
@given(where=path, body=action | value, headers=header)
def test_no_action_brings_the_server_down(odd_house: House, where: str, body: Any, headers: dict[str, str]) -> None:
    seen(odd_house.client.post(quote(where), content=written(body), headers={**JSON, **headers}))


@CALM
@given(
    where=path | st.sampled_from([f"/api/v1/{noun}" for noun in ("jobs", "queues", "workers", "schedules", "batches")]),
    asked=query,
    headers=header,
)
def test_no_question_brings_the_server_down(
    odd_house: House, where: str, asked: dict[str, str], headers: dict[str, str]
) -> None:
    seen(odd_house.client.get(quote(where), params=asked, headers=headers))


@CALM
@given(raw=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_bring_the_server_down(odd_house: House, raw: bytes) -> None:
    seen(odd_house.client.post("/api/v1/jobs", content=raw, headers=JSON))
