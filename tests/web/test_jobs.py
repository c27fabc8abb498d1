"""Jobs over HTTP: found, queued, acted on, page by page."""

import re
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from .conftest import House, Open, code


@pytest.fixture
def five(house: House) -> House:
    """Job 1 is completed, job 2 failed, job 3 waits for a signal; 4 and 5 are for later."""
    house.enqueue("double", 21)
    house.enqueue("stumble", "x.pdf", key="x")
    house.enqueue("wait", "reader")
    house.work()
    house.enqueue("double", 1, delay=3600)
    house.enqueue("anything", {"a": [1]}, delay=3600)
    return house


def ids(house: House, query: str = "") -> list[int]:
    found = house.get(f"/jobs{query}")
    assert found.status_code == 200, found.text
    return [job["id"] for job in found.json()["jobs"]]


# — looking —


def test_jobs_are_listed_newest_first_and_chosen_by_state_pipeline_queue_key_and_batch(five: House) -> None:
    assert ids(five) == [5, 4, 3, 2, 1]
    assert ids(five, "?state=failed") == [2]
    assert ids(five, "?pipeline=double") == [4, 1]
    assert ids(five, "?queue=anything") == [5]
    assert ids(five, "?key=x") == [2]
    assert ids(five, "?batch_id=1") == []
    assert ids(five, "?state=queued&pipeline=double") == [4]


def test_a_cursor_leads_from_page_to_page_in_body_and_link(five: House) -> None:
    seen = []
    path = "/api/v1/jobs?limit=2"
    while path:
        page = five.client.get(path)
        seen.append([job["id"] for job in page.json()["jobs"]])
        link = page.headers.get("link", "")
        found = re.fullmatch(r'<(/api/v1/jobs\?limit=2&cursor=([\w-]+))>; rel="next"', link)
        assert (found[2] if found else None) == page.json()["next"]
        path = found[1] if found else ""

    assert seen == [[5, 4], [3, 2], [1]]


def test_a_page_that_holds_all_has_no_next(five: House) -> None:
    page = five.get("/jobs?limit=5")

    assert page.json()["next"] is None
    assert "link" not in page.headers


@pytest.mark.parametrize("cursor", ["x", "MTI", "YmVmb3JlOi0x", "YmVmb3JlOjk5OTk5OTk5OTk5OTk5OTk5OTk5", "é", "%F0"])
def test_a_cursor_that_is_not_ours_is_refused(still_house: House, cursor: str) -> None:
    assert code(still_house.get("/jobs", params={"cursor": cursor})) == (422, "invalid_cursor")


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=201", "?limit"),
        ("limit=0", "?limit"),
        ("limit=many", "?limit"),
        ("state=stuck", "?state"),
        ("stat=failed", "?stat"),
        ("batch_id=-1", "?batch_id"),
        ("key=", "?key"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_where_it_stands(still_house: House, query: str, pointer: str) -> None:
    refused = still_house.get(f"/jobs?{query}")

    assert code(refused) == (422, "validation_failed")
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [pointer]


def test_a_list_has_no_content_and_a_job_has_all_of_it(five: House) -> None:
    listed = five.get("/jobs?state=failed").json()["jobs"][0]
    failed = five.get("/jobs/2").json()
    completed = five.get("/jobs/1").json()

    assert not {"input", "output", "error"} & listed.keys()
    assert listed == {name: value for name, value in failed.items() if name in listed}
    assert (failed["state"], failed["input"], failed["output"]) == ("failed", "x.pdf", None)
    assert "ValueError: cannot read x.pdf" in failed["error"]
    assert (completed["state"], completed["input"], completed["output"]) == ("completed", 21, 42)


def test_times_are_rfc_3339_with_a_z_wherever_the_database_is(open_house: Open, psql: psycopg.Connection) -> None:
    psql.execute(f"alter database {psql.info.dbname} set timezone to 'America/Sao_Paulo'")
    house = open_house()
    house.enqueue("double", 21)
    house.work()

    job = house.get("/jobs/1").json()

    for name in ("created_at", "claimed_at", "finished_at", "run_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", job[name]), name
    assert abs(datetime.fromisoformat(job["created_at"]) - datetime.now(UTC)) < timedelta(hours=1)


def test_attempts_and_checkpoints_are_told(five: House) -> None:
    attempts = five.get("/jobs/2/attempts").json()["attempts"]
    checkpoints = five.get("/jobs/2/checkpoints?values=true").json()["checkpoints"]

    assert [(each["attempt"], each["ending"], each["reason"]) for each in attempts] == [(1, "failed", "ValueError")]
    assert "cannot read x.pdf" in attempts[0]["error"]
    assert [(each["step"], each["value"]) for each in checkpoints] == [("look", "X.PDF")]


@pytest.mark.parametrize("path", ["/jobs/404", "/jobs/404/attempts", "/jobs/404/checkpoints"])
def test_an_unknown_job_is_404(still_house: House, path: str) -> None:
    refused = still_house.get(path)

    assert code(refused) == (404, "not_found")
    assert refused.json()["detail"] == "There is no job 404."


@pytest.mark.parametrize("id", ["x", "0", "-1", "1.5", "9223372036854775808", "1" * 5000])
def test_a_malformed_id_is_refused(still_house: House, id: str) -> None:
    refused = still_house.get(f"/jobs/{id}")

    assert code(refused) == (422, "validation_failed")
    assert refused.json()["errors"][0]["pointer"] == "{id}"


# — queueing —


def test_a_job_is_queued_with_its_place_and_its_correlation_id(house: House) -> None:
    queued = house.post(
        "/jobs",
        {"pipeline": "double", "input": 21, "key": "a", "priority": -5, "attempts": 7, "timeout_seconds": 9},
        headers={"X-Correlation-Id": "request-0001"},
    )

    assert queued.status_code == 202
    assert queued.headers["location"] == "/api/v1/jobs/1"
    assert queued.json() == {"id": 1, "key": "a", "state": "queued", "new": True, "status_url": "/api/v1/jobs/1"}
    job = house.client.get(queued.json()["status_url"]).json()
    assert (job["input"], job["key"], job["priority"], job["max_attempts"]) == (21, "a", -5, 7)
    assert (job["timeout_seconds"], job["correlation_id"]) == (9, "request-0001")
    house.work()
    assert house.job(1).output == "42"


def test_every_option_of_an_order_reaches_the_job(house: House) -> None:
    queued = house.post(
        "/jobs",
        {
            "pipeline": "anything",
            "input": None,
            "queue": "slow",
            "lane": "tenant a",
            "run_at": "2199-01-01T00:00:00-03:00",
            "expires_seconds": 60,
        },
    )
    job = house.get(f"/jobs/{queued.json()['id']}").json()

    assert (job["queue"], job["lane"], job["run_at"]) == ("slow", "tenant a", "2199-01-01T03:00:00Z")
    assert job["expires_at"] == "2199-01-01T03:01:00Z"
    assert house.get("/jobs/1").json()["correlation_id"] == queued.headers["x-correlation-id"]


def test_the_same_key_gives_the_same_job_back_or_is_told(house: House) -> None:
    order = {"pipeline": "double", "input": 1, "key": "one"}
    house.post("/jobs", order)

    again = house.post("/jobs", order)
    told = house.post("/jobs", {**order, "if_taken": "raise"})

    assert (again.status_code, again.json()["id"], again.json()["new"]) == (202, 1, False)
    assert code(told) == (409, "key_taken")
    assert ids(house) == [1]


@pytest.mark.parametrize("input", ["x", None, [1], {"number": 1}, 1.5])
def test_an_input_that_the_pipeline_does_not_take_is_refused(still_house: House, input: object) -> None:
    refused = still_house.post("/jobs", {"pipeline": "double", "input": input})

    assert code(refused) == (422, "validation_failed")
    assert refused.json()["detail"].startswith("This is not an input of 'double': ")
    assert [fault["pointer"] for fault in refused.json()["errors"]] == ["/input"]
    assert ids(still_house) == []


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"priority": 1001}, "/priority"),
        ({"attempts": 0}, "/attempts"),
        ({"run_at": "2026-01-01T00:00:00"}, "/run_at"),
        ({"run_at": "0001-01-01T00:00:00+14:00"}, "/run_at"),
        ({"delay_seconds": -1}, "/delay_seconds"),
        ({"delay_seconds": 1e300}, "/delay_seconds"),
        ({"timeout_seconds": 0}, "/timeout_seconds"),
        ({"queue": "No Such Name"}, "/queue"),
        ({"key": ""}, "/key"),
        ({"correlation_id": "mine"}, "/correlation_id"),
        ({"if_taken": "ignore"}, "/if_taken"),
        ({"a/b~c": 1}, "/a~1b~0c"),
    ],
)
def test_an_order_that_cannot_be_meant_is_refused_where_it_is_wrong(
    still_house: House, change: dict, pointer: str
) -> None:
    refused = still_house.post("/jobs", {"pipeline": "double", "input": 1, **change})

    assert code(refused) == (422, "validation_failed")
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [pointer]


@pytest.mark.parametrize("name", ["treble", "retoma.prune"])
def test_a_pipeline_that_is_not_here_is_told_with_those_that_are(still_house: House, name: str) -> None:
    refused = still_house.post("/jobs", {"pipeline": name, "input": None})

    assert code(refused) == (422, "pipeline_unknown")
    assert "there are anything, double, stumble, wait" in refused.json()["detail"]


def test_a_pipeline_that_was_misspelt_is_told_with_the_one_that_was_meant(still_house: House) -> None:
    refused = still_house.post("/jobs", {"pipeline": "doubl", "input": 1})

    assert code(refused) == (422, "pipeline_unknown")
    assert refused.json()["detail"].endswith("Did you mean 'double'?")
    strange = still_house.post("/jobs", {"pipeline": "zzz", "input": 1}).json()["detail"]
    assert strange.endswith("GET /api/v1/pipelines tells what each of them takes.")


def test_without_a_program_nothing_is_queued_and_all_else_works(open_house: Open) -> None:
    house = open_house(pipelines=())
    id = house.enqueue("double", 1)

    refused = house.post("/jobs", {"pipeline": "double", "input": 1})

    assert code(refused) == (422, "program_missing")
    assert "--app" in refused.json()["detail"]
    assert house.post(f"/jobs/{id}/cancel").json()["state"] == "cancelled"
    assert house.post(f"/jobs/{id}/retry").json()["state"] == "queued"


# — acting —


def test_a_failed_job_is_tried_again_with_as_many_attempts_as_asked(five: House) -> None:
    assert five.post("/jobs/2/retry", {"attempts": 3}).json()["max_attempts"] == 4
    five.work()

    assert five.get("/jobs/2").json()["attempt"] == 2


def test_what_its_state_does_not_allow_is_a_conflict(five: House) -> None:
    for path in ("/jobs/1/retry", "/jobs/1/cancel", "/jobs/4/restart"):
        refused = five.post(path)
        assert code(refused) == (409, "conflict"), path
        assert "Job " in refused.json()["detail"]
    assert code(five.post("/jobs/1/signal", {"name": "answer"})) == (409, "conflict")


def test_a_waiting_job_is_cancelled_with_a_reason(five: House) -> None:
    cancelled = five.post("/jobs/4/cancel", {"reason": "not needed"}).json()

    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "not needed")
    assert five.post("/jobs/4/cancel").status_code == 200, "it is what was asked for already"


def test_an_ended_job_is_restarted_and_its_checkpoints_are_set_aside(five: House) -> None:
    assert five.post("/jobs/1/restart").json()["state"] == "queued"
    five.work()

    kept = five.get("/jobs/1/checkpoints").json()["checkpoints"]
    assert sorted(bool(each["set_aside_at"]) for each in kept) == [False, True]


def test_a_signal_is_heard_once(five: House) -> None:
    assert five.post("/jobs/3/signal", {"name": "answer", "value": "go"}).json() == {"heard": True}
    assert five.post("/jobs/3/signal", {"name": "answer", "value": "stop"}).json() == {"heard": False}
    five.work()

    assert five.get("/jobs/3").json()["output"] == "go"
