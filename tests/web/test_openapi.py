"""The description of the API is whole, and true: every route that it names was tried here."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma.web.http.errors import STATUSES

from .conftest import House, code, double


@pytest.fixture(scope="module")
def schema(still_house: House) -> dict[str, Any]:
    return still_house.client.get("/openapi.json").json()


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_operation_has_a_name_a_tag_and_a_summary(schema: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(schema)]

    assert len(names) == len(set(names)) > 20
    for method, path, operation in operations(schema):
        assert re.fullmatch(r"[a-z]+([A-Z][a-z]*)+", operation["operationId"]), (method, path)
        assert len(operation["tags"]) == 1, (method, path)
        assert 5 < len(operation["summary"]) < 121, (method, path)
        assert not operation["summary"].endswith("."), (method, path)


def test_the_names_that_clients_are_made_of_stay_as_they_are(schema: dict[str, Any]) -> None:
    names = {operation["operationId"]: f"{method} {path}" for method, path, operation in operations(schema)}

    assert {
        "listJobs": "GET /api/v1/jobs",
        "enqueueJob": "POST /api/v1/jobs",
        "getJob": "GET /api/v1/jobs/{id}",
        "listAttempts": "GET /api/v1/jobs/{id}/attempts",
        "listCheckpoints": "GET /api/v1/jobs/{id}/checkpoints",
        "retryJob": "POST /api/v1/jobs/{id}/retry",
        "cancelJob": "POST /api/v1/jobs/{id}/cancel",
        "restartJob": "POST /api/v1/jobs/{id}/restart",
        "signalJob": "POST /api/v1/jobs/{id}/signal",
        "listQueues": "GET /api/v1/queues",
        "pauseQueue": "POST /api/v1/queues/{name}/pause",
        "resumeQueue": "POST /api/v1/queues/{name}/resume",
        "limitLane": "POST /api/v1/queues/{name}/limit",
        "listWorkers": "GET /api/v1/workers",
        "listSchedules": "GET /api/v1/schedules",
        "runSchedule": "POST /api/v1/schedules/{name}/run",
        "pauseSchedule": "POST /api/v1/schedules/{name}/pause",
        "resumeSchedule": "POST /api/v1/schedules/{name}/resume",
        "getHealth": "GET /api/v1/system/health",
        "getMetrics": "GET /api/v1/system/metrics",
        "isAlive": "GET /livez",
        "isReady": "GET /readyz",
    }.items() <= names.items()


def test_every_operation_lists_its_problems_under_their_media_type(schema: dict[str, Any]) -> None:
    reference = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert schema["components"]["schemas"]["Problem"]["required"][:4] == ["type", "title", "status", "detail"]

    for method, path, operation in operations(schema):
        wanted = {"405", "500", "503", "504"}
        wanted |= {"401", "403", "421", "422", "429"} if path.startswith("/api") else set()
        wanted |= {"400", "413", "415"} if method != "GET" else set()
        wanted |= {"409"} if method != "GET" and operation["operationId"] not in SECRETS else set()
        listed = {status: answer for status, answer in operation["responses"].items() if int(status) >= 400}
        assert wanted <= listed.keys(), (method, path)
        for status, answer in listed.items():
            assert answer["content"] == reference, (method, path, status)
            assert {STATUSES[each] for each in answer["description"].split(", ")} == {int(status)}


def test_a_route_lists_the_problems_that_it_can_have_and_no_others(schema: dict[str, Any]) -> None:
    codes = {
        operation["operationId"]: {
            each
            for status, answer in operation["responses"].items()
            if int(status) >= 400
            for each in answer["description"].split(", ")
        }
        for _, _, operation in operations(schema)
    }

    assert "file_encrypted" not in {each for some in codes.values() for each in some}
    assert "invalid_cursor" in codes["listJobs"] - codes["getJob"]
    assert "not_found" in codes["getJob"] - codes["listJobs"]
    assert {"pipeline_unknown", "key_taken"} <= codes["enqueueJob"]
    assert {"precondition_failed", "stale_epoch"} <= codes["changeBatch"]
    assert not {"idempotency_key_reused", "payload_too_large"} & codes["getJob"]


def test_every_operation_says_which_scope_it_asks_for(schema: dict[str, Any]) -> None:
    assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for method, path, operation in operations(schema):
        if not path.startswith("/api"):
            assert "security" not in operation
            continue
        ((scope,),) = (need["key"] for need in operation["security"])
        looks, changes = ("read", "content:read", "admin"), ("submit", "operate", "review", "admin")
        assert scope in (looks if method == "GET" else changes), (method, path)


SECRETS = {"createKey", "rotateKey", "addUser", "changeUserPassword", "addWebhook", "rotateWebhook"}
"""A reply with a secret, or the hash of a body with a password, would be stored for whoever repeats the request."""


def test_every_change_says_that_it_may_be_repeated(schema: dict[str, Any]) -> None:
    for method, path, operation in operations(schema):
        headers = [each["name"] for each in operation.get("parameters", []) if each["in"] == "header"]
        wanted = method != "GET" and operation["operationId"] not in SECRETS
        assert ("Idempotency-Key" in headers) == wanted, (method, path)


def test_every_operation_and_every_code_is_in_the_reference(schema: dict[str, Any]) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/http.md").read_text(encoding="utf-8")

    for method, path, operation in operations(schema):
        route = f"`{method} {path.removeprefix('/api/v1')}`"
        rows = [line for line in page.splitlines() if line.startswith(f"| {route} ")]
        assert len(rows) == 1, f"{route} should have one row in docs/reference/http.md"
        scopes = [scope for need in operation.get("security", []) for scope in need["key"]]
        assert f"| {''.join(f'`{scope}`' for scope in scopes) or 'none'} |" in rows[0], route
    for code_, status in STATUSES.items():
        assert f"| `{code_}` | {status} |" in page


def test_every_change_refuses_a_field_it_does_not_know(
    house: House, schema: dict[str, Any], psql: psycopg.Connection
) -> None:
    house.enqueue("double", 1)
    house.ask(lambda app: app.schedules.put(double, 1, name="1", cron="0 4 * * *"))
    house.ask(lambda app: app.batch(double, [1], name="one"))
    psql.execute("insert into retoma.reviews (source, item, pipeline) values ('other', '1', 'double')")
    before = psql.execute("select id, state from retoma.jobs").fetchall()

    changes = [(method, path) for method, path, _ in operations(schema) if method != "GET"]
    for method, path in changes:
        refused = house.client.request(method, re.sub(r"\{\w+\}", "1", path), json={"no_such_field": 1})
        assert code(refused) == (422, "validation_failed"), path
        faults = {fault["pointer"]: fault["code"] for fault in refused.json()["errors"]}
        assert faults["/no_such_field"] == "extra_forbidden", path

    assert len(changes) >= 12
    assert psql.execute("select id, state from retoma.jobs").fetchall() == before
