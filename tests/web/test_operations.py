"""Operations over all batches, errors in groups, the search and saved views, over HTTP."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from retoma import Retoma

from .conftest import PIPELINES, House


def stumbled(house: House, *names: str) -> list[int]:
    """Jobs that have failed, each with its name in the error."""
    ids = [house.enqueue("stumble", name, key=f"in/{name}") for name in names]
    house.work()
    return ids


def finished(house: House, place: str) -> dict[str, object]:
    """The operation at *place*, once it is over; the test carries it on as any worker would."""

    async def carried() -> None:
        async with Retoma(settings=house.settings, pipelines=PIPELINES) as app:
            async for _ in app.batches.carry_out(int(place.rpartition("/")[2])):
                pass

    asyncio.run(carried())
    told: dict[str, object] = house.client.get(place).json()
    assert told["finished_at"] is not None
    return told


def test_a_dry_run_counts_and_the_real_one_does_it_in_the_background(house: House) -> None:
    ids = stumbled(house, "'a'", "'b'", "'c'")
    asked = {"action": "retry", "filter": {"states": ["failed"], "pipeline": "stumble"}}

    dry = house.post("/operations", {**asked, "dry_run": True})
    assert [house.job(each).state for each in ids] == ["failed"] * 3
    real = house.post("/operations", asked)

    assert (dry.status_code, dry.json()["jobs"], dry.json()["exact"], len(dry.json()["sample"])) == (200, 3, True, 3)
    assert (real.status_code, real.json()["wanted"]) == (202, 3)
    over = finished(house, real.headers["location"])
    assert (over["done"], over["skipped"], over["share"], over["error"]) == (3, {}, 1.0, None)
    assert [house.job(each).state for each in ids] == ["queued"] * 3
    listed = house.get("/operations").json()["operations"]
    assert [(each["id"], each["kind"]) for each in listed] == [(over["id"], "retry")]


def test_jobs_are_moved_prioritised_and_cancelled_by_what_they_have_in_common(house: House) -> None:
    ids = [house.enqueue("double", each, key=f"x/{each}") for each in range(3)]
    other = house.enqueue("double", 9, key="y/9")

    for action, more in (("move", {"queue": "fast"}), ("priority", {"priority": -7}), ("cancel", {"reason": "spam"})):
        made = house.post("/operations", {"action": action, "filter": {"key_prefix": "x/"}, **more})
        assert finished(house, made.headers["location"])["done"] == 3

    found = [house.job(each) for each in ids]
    assert {(each.queue, each.priority, each.state, each.reason) for each in found} == {
        ("fast", -7, "cancelled", "spam")
    }
    assert (house.job(other).queue, house.job(other).state) == ("double", "queued")


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "retry", "filter": {"states": ["completed"]}},
        {"action": "move", "filter": {}},
        {"action": "retry", "filter": {}, "priority": 3},
        {"action": "explode", "filter": {}},
        {"action": "retry", "filter": {"colour": "red"}},
    ],
)
def test_what_makes_no_sense_is_refused_and_begins_nothing(house: House, asked: dict[str, object]) -> None:
    assert house.post("/operations", asked).json()["code"] == "validation_failed"
    assert house.get("/operations").json()["operations"] == []


def test_an_operation_under_way_is_cancelled_once_and_does_no_more(house: House) -> None:
    id = house.enqueue("double", 1)
    with psycopg.connect(str(house.settings.database_url)) as other:
        other.execute("select from retoma.jobs where id = %s for update", [id])  # nobody gets past this job
        made = house.post("/operations", {"action": "cancel", "filter": {}}).json()["id"]
        cancelled = house.post(f"/operations/{made}/cancel")
        again = house.post(f"/operations/{made}/cancel")

    assert (cancelled.json()["error"], cancelled.json()["done"]) == ("cancelled", 0)
    assert (again.status_code, again.json()["code"], house.job(id).state) == (409, "conflict", "queued")


def test_a_reader_may_look_and_not_operate_and_a_limited_key_sees_its_own(house: House) -> None:
    stumbled(house, "'a'")
    admin, reader = house.key("admin"), house.key("read")
    limited = house.key("operate", "read", pipelines=("double",))
    asked = {"action": "retry", "filter": {"pipeline": "stumble"}}

    assert house.post("/operations", asked, headers=reader).json()["code"] == "scope_required"
    assert house.post("/operations", asked, headers=limited).json()["code"] == "pipelines_limited"
    own = house.post("/operations", {"action": "retry", "filter": {}, "dry_run": True}, headers=limited)
    assert own.json()["jobs"] == 0, "it is limited to its pipeline without saying so"
    made = house.post("/operations", asked, headers=admin).json()["id"]
    assert house.get(f"/operations/{made}", headers=limited).status_code == 404
    assert house.get(f"/operations/{made}", headers=reader).status_code == 200


def test_equal_errors_of_all_batches_are_one_group_and_the_group_is_retried(house: House) -> None:
    stumbled(house, "'a'", "'b'")

    (group,) = house.get("/errors").json()["errors"]
    made = house.post("/operations", {"action": "retry", "filter": {"fingerprint": group["fingerprint"]}})

    assert (group["jobs"], group["kind"], group["new"], group["pipelines"]) == (2, "ValueError", True, ["stumble"])
    assert finished(house, made.headers["location"])["done"] == 2
    assert house.get("/errors").json()["errors"] == []


def test_the_words_of_an_error_need_their_scope(house: House) -> None:
    stumbled(house, "jabuticaba")

    shown = house.get("/errors", headers=house.key("read", "content:read")).text
    hidden = house.get("/errors", headers=house.key("read")).text

    assert ("jabuticaba" in shown, "jabuticaba" in hidden) == (True, False)


def test_a_job_is_found_by_its_id_its_key_its_file_and_its_correlation_id(house: House) -> None:
    id = house.enqueue("double", 1, key="inbox/lease.pdf", correlation_id="order-7")

    found = {
        asked: [(each["id"], each["by"]) for each in house.get("/search", params={"q": asked}).json()["hits"]]
        for asked in (str(id), f"#{id}", "inbox/lease.pdf", "lease.pdf", "order-7", "nobody")
    }

    assert found == {
        str(id): [(id, "id")],
        f"#{id}": [(id, "id")],
        "inbox/lease.pdf": [(id, "key")],
        "lease.pdf": [(id, "key")],
        "order-7": [(id, "correlation")],
        "nobody": [],
    }


def test_a_view_is_ones_own_unless_it_is_shared(house: House) -> None:
    ana, bia, admin = house.key("read", "operate"), house.key("read"), house.key("admin")
    other = house.key("read", "operate")
    view = {"name": "late", "page": "errors", "query": "hours=168"}

    own = house.post("/views", view, headers=ana)
    shared = house.post("/views", {**view, "name": "ours", "shared": True}, headers=ana)
    refused = house.post("/views", view, headers=bia)

    assert (own.status_code, shared.status_code, refused.json()["code"]) == (201, 201, "scope_required")
    assert [each["name"] for each in house.get("/views", headers=ana).json()["views"]] == ["late", "ours"]
    assert [each["name"] for each in house.get("/views", headers=bia).json()["views"]] == ["ours"]
    assert house.client.delete(f"/api/v1/views/{own.json()['id']}", headers=other).status_code == 404
    assert house.client.delete(f"/api/v1/views/{shared.json()['id']}", headers=admin).status_code == 204


def test_a_job_is_restarted_from_a_step_and_says_before_what_is_done_again(house: House) -> None:
    id = house.enqueue("double", 4)
    house.work()

    plan = house.get(f"/jobs/{id}/restart", params={"step": "double"}).json()
    unknown = house.post(f"/jobs/{id}/restart", {"step": "nobody"})
    done = house.post(f"/jobs/{id}/restart", {"step": "double"})

    assert ([each["step"] for each in plan["steps"]], plan["can"], plan["calls"]) == (["double"], True, 0)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert (done.status_code, done.json()["state"]) == (200, "queued")
    busy = house.get(f"/jobs/{id}/restart").json()
    assert (busy["can"], busy["why_not"]) == (False, "it is queued")
