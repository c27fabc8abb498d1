"""Who did what: every change leaves a row in its own transaction, and so do looks at content and refused keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from retoma.telemetry import Event, listen
from retoma.telemetry.events import ActionAudited
from retoma.web.http import auth_attempts

from .conftest import House, code
from .test_stream import make

ORDER = {"pipeline": "double", "input": 7700770077}


def rows(house: House, **wanted: Any) -> list[Any]:
    """The audit, the oldest first."""
    return list(reversed(house.ask(lambda app: app.audit.page(limit=1000, **wanted))))


def eventually(seen: Callable[[], Any]) -> Any:
    """What *seen* gives, once it gives something."""
    until = time.monotonic() + 150
    while not (found := seen()):
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.05)
    return found


def test_seven_actions_by_a_key_leave_its_name_what_was_and_what_is(house: House) -> None:
    batch, key = make(house), house.key("admin")
    id = key["Authorization"].split("_")[1]
    actions: list[tuple[str, str, Any]] = [
        ("POST", f"/batches/{batch}/pause", None),
        ("POST", f"/batches/{batch}/resume", None),
        ("PATCH", f"/batches/{batch}", {"name": "other"}),
        ("POST", f"/batches/{batch}/cancel", None),
        ("POST", "/queues/double/pause", {"reason": "because"}),
        ("POST", "/queues/double/limit", {"lane": "a", "at_once": 2}),
        ("PUT", "/limits/openai/gpt", {"requests": 7}),
    ]

    for method, path, body in actions:
        json = {} if body is None else {"json": body}
        answered = house.client.request(method, f"/api/v1{path}", headers=key | {"X-Correlation-Id": "a" * 8}, **json)
        assert answered.status_code < 300, answered.text

    found = rows(house, who=id)
    assert [row.action for row in found] == [
        "batch.pause", "batch.resume", "batch.change", "batch.cancel", "queue.pause", "queue.limit", "limit.set",
    ]  # fmt: skip
    assert {(row.name, row.via, row.address, row.outcome, row.correlation_id) for row in found} == {
        ("test", "http", "127.0.0.1", "done", "a" * 8)
    }
    assert (found[0].before["state"], found[0].after["state"]) == ("queued", "paused")
    assert (found[2].before["name"], found[2].after["name"]) == ("x", "other")
    assert (found[0].object_kind, found[0].object_id) == ("batch", str(batch))
    assert found[0].route == "POST /api/v1/batches/{id}/pause"
    assert found[4].after["reason"] == "because"
    assert (found[5].after["lane"], found[5].after["at_once"]) == ("a", 2)
    assert (found[6].before, found[6].after["requests"]) == (None, 7)
    told = house.ask(lambda app: app.batches.events(batch))
    by = {event.kind: event.data.get("by") for event in told}
    assert {by["paused"], by["changed"], by["cancelled"], by["queued"]} == {id}


def test_a_change_that_is_not_done_leaves_no_row_and_one_that_is_repeated_leaves_one(house: House) -> None:
    once = {"Idempotency-Key": "one"}
    first, second = (house.post("/jobs", ORDER, headers=once).json()["id"] for _ in range(2))
    assert first == second
    assert code(house.post("/jobs/999/cancel")) == (404, "not_found")
    assert code(house.post("/jobs", {"pipeline": "nothing", "input": 1})) == (422, "pipeline_unknown")
    assert code(house.post("/queues/double/weight", {"weight": 0})) == (422, "validation_failed")

    [row] = rows(house)

    assert (row.action, row.object_id, row.who, row.after["state"]) == ("job.enqueue", str(first), "local", "queued")


def test_no_content_and_no_secret_is_in_the_audit(house: House, psql: psycopg.Connection) -> None:
    key = house.key("admin")
    house.post("/jobs", ORDER, headers=key)
    waiting = house.post("/jobs", {"pipeline": "wait", "input": "SECRET-INPUT"}, headers=key).json()["id"]
    house.post(f"/jobs/{waiting}/signal", {"name": "answer", "value": "SECRET-ANSWER"}, headers=key)
    house.get(f"/jobs/{waiting}", headers=key)

    text = str(psql.execute("select audit::text from retoma.audit as audit").fetchall())

    assert len(rows(house)) == 4
    assert "answer" in text
    assert not [word for word in ("7700770077", "SECRET", key["Authorization"].split("_", 2)[2]) if word in text]


def test_a_look_at_content_is_written_once_a_minute_and_one_without_content_never(house: House) -> None:
    house.enqueue("double", 1)
    house.work()
    looks, reads = house.key("read"), house.key("read", "content:read")

    for _ in range(3):
        answered = house.get("/jobs/1", headers=reads)
        assert answered.json()["input"] == 1
    house.get("/jobs/1", headers=looks)
    house.get("/jobs/1/checkpoints?values=true", headers=reads)
    house.get("/jobs", headers=reads)
    assert house.get("/jobs/1", headers=reads | {"If-None-Match": answered.headers["etag"]}).status_code == 304

    found = rows(house, outcome="looked")

    assert [(row.action, row.object_id) for row in found] == [("job.get", "1"), ("job.list", "1")]
    assert {row.who for row in found} == {reads["Authorization"].split("_")[1]}


def test_what_is_shown_is_written_down_first_or_not_shown(house: House, psql: psycopg.Connection) -> None:
    house.enqueue("double", 7700770077)
    psql.execute("alter table retoma.audit rename to audit_away")

    answered = house.get("/jobs/1")

    assert answered.status_code == 500
    assert "7700770077" not in answered.text
    assert house.post("/queues/double/pause").status_code == 500
    assert psql.execute("select count(*) from retoma.queues where paused_at is not null").fetchone() == (0,)


def test_a_flood_of_wrong_keys_is_two_rows_a_minute_and_a_line_in_the_log(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth_attempts, "_SOON", 0.05)
    wrong = {"Authorization": f"Bearer rtm_{'0' * 12}_{'A' * 43}"}
    house.key("read")
    told: list[Event] = []
    end = listen(told.append)

    for _ in range(50):
        house.get("/jobs", headers=wrong)
    first = eventually(lambda: rows(house, outcome="refused"))
    end()

    assert [(row.action, row.who, row.object_id, row.address) for row in first] == [
        ("key.refuse", "nobody", "0" * 12, "127.0.0.1")
    ]
    assert any(isinstance(each, ActionAudited) and each.outcome == "refused" for each in told)
    assert len(rows(house, outcome="refused")) <= 2


def test_who_lacks_a_scope_is_written_down(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_attempts, "_SOON", 0.05)
    key = house.key("read")
    assert code(house.post("/jobs", ORDER, headers=key)) == (403, "scope_required")

    [row] = eventually(lambda: rows(house, outcome="refused"))

    assert (row.action, row.who, row.after["lacks"]) == ("scope.refuse", key["Authorization"].split("_")[1], "submit")


def test_signing_in_and_out_is_in_the_audit(house: House) -> None:
    text = house.key("read")["Authorization"].removeprefix("Bearer ")
    house.client.post("/login", data={"key": text})
    house.client.post("/logout")

    found = rows(house)

    assert [row.action for row in found] == ["session.open", "session.end"]
    assert found[0].object_id == found[1].object_id
    assert found[1].after["ended_at"] is not None


def test_the_audit_is_read_by_those_who_may_do_everything(house: House) -> None:
    admin, reader = house.key("admin"), house.key("read", "content:read", "submit", "operate")
    for number in range(3):
        house.post(f"/queues/q{number}/pause", headers=admin)

    assert code(house.get("/audit", headers=reader)) == (403, "scope_required")
    page = house.get("/audit?limit=2&object=queue", headers=admin).json()
    rest = house.get(f"/audit?limit=2&object=queue&cursor={page['next']}", headers=admin).json()
    assert [row["object_id"] for row in page["audit"] + rest["audit"]] == ["q2", "q1", "q0"]
    assert [row["object_id"] for row in house.get("/audit?object=queue:q1", headers=admin).json()["audit"]] == ["q1"]
    assert house.get("/audit?action=queue.resume", headers=admin).json()["audit"] == []
    assert code(house.get("/audit?outcome=nothing", headers=admin)) == (422, "validation_failed")
