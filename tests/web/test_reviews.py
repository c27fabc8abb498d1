"""The review desk over HTTP: leases, decisions, scopes, and the export."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from .conftest import House
from .test_audit_routes import Stage


@pytest.fixture
def stage(house: House) -> Stage:
    return Stage(house)


def test_a_review_is_leased_decided_and_undone(house: House, stage: Stage) -> None:
    id = stage.review()
    leased = house.post("/reviews/next", {"limit": 5}).json()["reviews"]

    corrected = house.post(f"/reviews/{id}/correct", {"value": 7, "label": "seven", "key": "k", "note": "n"})
    again = house.post(f"/reviews/{id}/correct", {"value": 7, "label": "seven", "key": "k", "note": "n"})
    other = house.post(f"/reviews/{id}/reject")
    undone = house.post("/reviews/undo", {"decision": corrected.json()["id"]})

    assert [each["review"]["id"] for each in leased] == [id]
    assert (corrected.status_code, corrected.json()["decided"], corrected.json()["kind"]) == (200, 7, "correct")
    assert again.json() == corrected.json()
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert "local chose correct at" in other.json()["detail"]
    assert (undone.status_code, undone.json()["undoes"]) == (200, corrected.json()["id"])
    assert house.get(f"/reviews/{id}").json()["review"]["state"] == "open"


def test_content_needs_its_scope_and_deciding_needs_another(house: House, stage: Stage) -> None:
    id = stage.review()
    reader, reviewer = house.key("read", "content:read"), house.key("read", "review")

    refused = house.post(f"/reviews/{id}/accept", headers=reader)
    shown = house.get(f"/reviews/{id}", headers=reviewer).json()
    accepted = house.post(f"/reviews/{id}/accept", headers=reviewer)

    assert (refused.status_code, refused.json()["code"]) == (403, "scope_required")
    assert (shown["review"].get("proposal"), shown.get("evidence")) == (None, None)
    assert (accepted.status_code, accepted.json().get("decided")) == (200, None)


def test_a_key_of_another_pipeline_gets_and_sees_nothing(house: House, stage: Stage) -> None:
    id = stage.review()
    other = house.key("read", "review", "content:read", pipelines=("double",))

    assert house.post("/reviews/next", {}, headers=other).json() == {"reviews": []}
    assert house.get("/reviews", headers=other).json()["reviews"] == []
    assert house.post(f"/reviews/{id}/accept", headers=other).status_code == 404
    assert house.get("/reviews/export", headers=other).text == ""


def test_what_waits_is_paged_and_what_was_decided_is_exported(house: House, stage: Stage) -> None:
    ids = [stage.review() for _ in range(3)]
    first = house.get("/reviews?limit=2").json()
    rest = house.get(f"/reviews?limit=2&cursor={first['next']}").json()
    for id in ids:
        stage.post(f"/api/v1/reviews/{id}/accept")

    lines = [json.loads(line) for line in house.get("/reviews/export").text.splitlines()]
    listed = house.get("/reviews/decisions?limit=2").json()
    agreement = house.get("/reviews/agreement").json()

    assert [each["id"] for each in (*first["reviews"], *rest["reviews"])] == ids
    assert [line["review_id"] for line in lines] == ids
    assert all(line["proposed"] == line["decided"] == 2 for line in lines)
    assert [each["review_id"] for each in listed["decisions"]] == ids[:0:-1]
    assert (agreement["count"], agreement["agreed"]) == (3, 3)


def test_the_page_says_in_words_what_is_wrong_and_keeps_what_was_typed(house: House, stage: Stage) -> None:
    id = stage.review()
    asked: dict[str, Any] = {"headers": {"Accept": "text/html"}}

    wrong = house.client.post(f"/console/review/{id}", data={"do": "correct", "value": "{not json"}, **asked)
    strange = house.client.post(f"/console/review/{id}", data={"do": "forget"}, **asked)

    assert (wrong.status_code, "{not json" in wrong.text) == (422, True)
    assert strange.status_code == 422
    assert house.get("/reviews/decisions").json()["decisions"] == []


def test_a_reader_who_forges_a_decision_is_refused(house: House, stage: Stage, psql: psycopg.Connection) -> None:
    id = stage.review()

    forged = house.client.post(
        f"/console/review/{id}", data={"do": "accept"}, headers={**house.key("read", "content:read")}
    )

    assert forged.status_code == 403
    assert psql.execute("select count(*) from retoma.decisions").fetchone() == (0,)
