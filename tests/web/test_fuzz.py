"""Whatever is thrown at the API, it answers; what it refuses is a problem, and none is our own."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retoma.web.api.schemas.requests import LaneLimit, Order, Signal, Why

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


# — every number that the reference knows, as large, as small and as odd as it can be written —

ODD_NUMBERS: tuple[Any, ...] = (-1, 2**31, 2**63, 10**30, 5e-324, 1e-46, 3.5e38)
ODD_TEXTS = ("-1", "²", "9" * 19, "9" * 20)
ODD_IDS = (*ODD_TEXTS, "³1", "1_0", "+1", "1e3", "9" * 5000, "0" * 5000)


def resolved(schema: Any, whole: Any) -> Any:
    """*schema* without references and without null."""
    if "$ref" in schema:
        return resolved(whole["components"]["schemas"][schema["$ref"].rpartition("/")[2]], whole)
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return resolved(kinds[0], whole) if kinds else schema


def sample(name: str, schema: Any, whole: Any) -> Any:  # noqa: PLR0911 - one for each type
    """A value that fits *schema*, well enough to come as far as the database."""
    schema = resolved(schema, whole)
    if name == "pipeline":
        return "anything"
    match schema.get("enum", [schema.get("type")])[0]:
        case "object":
            wanted = schema.get("required", ())
            return {each: sample(each, schema["properties"][each], whole) for each in wanted}
        case "array":
            return [sample(name, schema["items"], whole)]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "x"
        case other:
            return other


def numeric(schema: Any, whole: Any) -> bool:
    return resolved(schema, whole).get("type") in {"integer", "number"}


def asked_with(operation: Any, whole: Any) -> Iterator[tuple[dict[str, str], dict[str, str], Any]]:
    """Path, query and body of requests in which one number is odd."""
    places: dict[str, dict[str, str]] = {"path": {}, "query": {}}
    for each in operation.get("parameters", ()):
        if each["in"] == "path" or (each["in"] == "query" and each.get("required")):
            places[each["in"]][each["name"]] = str(sample(each["name"], each["schema"], whole))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    shape = resolved(body, whole) if body else {}
    plain = sample("", shape, whole) if body else None
    for each in operation.get("parameters", ()):
        if each["in"] in places and numeric(each["schema"], whole):
            for odd in ODD_TEXTS:
                changed = {**places[each["in"]], each["name"]: odd}
                yield (changed, places["query"], plain) if each["in"] == "path" else (places["path"], changed, plain)
    for name, schema in shape.get("properties", {}).items():
        if numeric(schema, whole):
            for odd in ODD_NUMBERS:
                yield places["path"], places["query"], {**plain, name: odd}


def test_no_number_brings_the_server_down(odd_house: House) -> None:
    whole = odd_house.client.get("/openapi.json").json()
    for number in range(2):
        jobs = [{"input": number}]
        odd_house.post("/batches", {"pipeline": "anything", "name": f"odd {number}", "jobs": jobs}).raise_for_status()

    broken, sent = [], 0
    for path, methods in whole["paths"].items():
        for method, operation in methods.items():
            for places, wanted, body in asked_with(operation, whole):
                where = path.format(**{name: quote(value, safe="") for name, value in places.items()})
                content = None if body is None else written(body)
                answered = odd_house.client.request(
                    method, where, params=wanted, content=content, headers=JSON if content else {}
                )
                sent += 1
                if answered.status_code >= 500:
                    broken.append((method, where[:100], wanted, body, answered.status_code))

    assert broken == []
    assert sent > 100, "the reference has numbers in it"


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "application/x-ndjson"])
@pytest.mark.parametrize("last", ODD_IDS)
def test_no_last_event_id_brings_the_server_down(odd_house: House, accept: str, last: str) -> None:
    made = odd_house.post("/batches", {"pipeline": "anything", "name": "x", "jobs": [{"input": 1}]}).json()
    headers = [(b"accept", accept.encode()), (b"last-event-id", last.encode("latin-1"))]

    with odd_house.client.stream("GET", made["events_url"], headers=headers) as answered:
        assert answered.status_code == 200


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
