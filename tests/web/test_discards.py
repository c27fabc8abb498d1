"""Failures that a person settles, queues that are paused until a time, and batches that are re-planned, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from .conftest import House
from .test_console_jobs import page, post
from .test_operations import finished, stumbled


def test_a_discarded_job_leaves_the_dead_letters_and_comes_back(house: House) -> None:
    id, other = stumbled(house, "a", "b")

    gone = house.post(f"/jobs/{id}/discard", {"reason": "a scan of nothing"}).json()
    letters = house.get("/jobs", params={"discarded": "false"}).json()["jobs"]
    settled = house.get("/jobs", params={"discarded": "true"}).json()["jobs"]
    refused = house.post(f"/jobs/{id}/retry")
    back = house.post(f"/jobs/{id}/reinstate").json()

    assert (gone["state"], gone["discarded_by"] is not None, back["discarded_at"]) == ("failed", True, None)
    assert ([each["id"] for each in letters], [each["id"] for each in settled]) == ([other], [id])
    assert (refused.status_code, "discarded" in refused.json()["detail"]) == (409, True)
    assert house.post(f"/jobs/{id}/retry").json()["state"] == "queued"
    rows = house.get("/audit", params={"limit": 10}).json()["audit"]
    assert {"job.discard", "job.reinstate"} <= {each["action"] for each in rows}


def test_failures_are_discarded_by_a_filter_and_no_retry_takes_them(house: House) -> None:
    stumbled(house, "a", "b")
    asked = {"action": "discard", "filter": {"pipeline": "stumble"}, "reason": "old"}

    dry = house.post("/operations", {**asked, "dry_run": True}).json()
    over = finished(house, house.post("/operations", asked).headers["location"])
    retried = house.post("/operations", {"action": "retry", "filter": {}, "dry_run": True}).json()

    assert (dry["jobs"], over["done"], retried["jobs"], retried["skipped"]) == (2, 2, 0, {"discarded": 2})
    assert house.get("/errors").json()["errors"] == []


def test_the_page_of_dead_letters_has_a_list_of_those_that_are_discarded(house: House) -> None:
    id, _ = stumbled(house, "a", "b")

    sent = post(house, f"/jobs/{id}/discard", reason="not worth it")
    open, settled = page(house, "/dead-letters"), page(house, "/dead-letters", params={"discarded": "1"})
    job = page(house, f"/jobs/{id}", params={"told": "discarded"})

    assert (sent.status_code, open.count("data-job="), settled.count("data-job=")) == (303, 1, 1)
    assert f'data-job="{id}"' in settled
    assert "Reinstate" in job
    assert "Discarded by" in job
    assert post(house, f"/jobs/{id}/reinstate").status_code == 303
    assert page(house, "/dead-letters").count("data-job=") == 2


def test_a_queue_is_paused_until_a_time_and_says_it(house: House) -> None:
    tomorrow = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)

    done = house.post("/queues/double/pause", {"reason": "night", "until": tomorrow.isoformat()})
    shown = house.get("/queues/double").json()
    by_form = post(house, "/queues/double/pause", reason="lunch", minutes="90")
    later = house.get("/queues/double").json()

    assert (done.status_code, by_form.status_code) == (204, 303)
    assert datetime.fromisoformat(shown["paused_until"]) == tomorrow
    assert datetime.fromisoformat(later["paused_until"]) < tomorrow
    assert "data-until" in page(house, "/queues/double")
    assert house.post("/queues/double/pause", {"until": "2020-01-01T00:00:00Z"}).status_code == 422
    assert house.post("/queues/double/pause", {"until": "2199-01-01T00:00:00Z", "seconds": 5}).status_code == 422


def test_the_rest_of_a_batch_runs_under_a_new_configuration_and_the_cohorts_are_compared(house: House) -> None:
    jobs = [{"input": each} for each in range(4)]
    made = house.post(
        "/batches", {"pipeline": "double", "name": "x", "jobs": jobs, "configuration": {"prompt": "a"}, "pilot": 2}
    ).json()
    house.work()

    did = house.post(f"/batches/{made['id']}/replan", {"configuration": {"prompt": "b"}, "note": "shorter"})
    first, second = house.get(f"/batches/{made['id']}/cohorts").json()["cohorts"]
    shown = page(house, f"/batches/{made['id']}", params={"tab": "configuration"})

    assert (did.status_code, did.json()["word"], did.json()["jobs"]) == (202, "replanned", 2)
    assert (first["jobs"], first["completed"], first["failure_rate"]) == (2, 2, 0.0)
    assert (second["jobs"], second["unfinished"], second["note"]) == (2, 2, "shorter")
    assert (first["configuration"], second["configuration"]) == ({"prompt": "a"}, {"prompt": "b"})
    assert shown.count("data-cohort=") == 2

    again = post(house, f"/batches/{made['id']}/replan", configuration='{"prompt": "c"}', note="shortest")
    wrong = post(house, f"/batches/{made['id']}/replan", configuration="[1]")

    assert (again.status_code, wrong.status_code) == (303, 422)
    assert [each["jobs"] for each in house.get(f"/batches/{made['id']}/cohorts").json()["cohorts"]] == [2, 0, 2]
    assert house.get(f"/batches/{made['id']}").json()["cohort"] == 3
    house.post(f"/batches/{made['id']}/release")
    house.work()
    over = house.post(f"/batches/{made['id']}/replan", {"configuration": {"prompt": "d"}})
    assert (over.status_code, over.json()["code"]) == (409, "conflict")
