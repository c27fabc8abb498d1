"""Queues, workers, schedules and the system over HTTP."""

import psycopg
import pytest

from .conftest import House, code, double

# — queues —


def test_queues_are_listed_paused_and_resumed(house: House) -> None:
    house.enqueue("double", 1)

    assert house.post("/queues/double/pause", {"reason": "maintenance"}).status_code == 204
    (paused,) = house.get("/queues").json()["queues"]
    house.work()
    assert house.job(1).state == "queued"
    assert house.post("/queues/double/resume").status_code == 204
    house.work()

    assert (paused["name"], paused["waiting"], paused["due"], paused["running"]) == ("double", 1, 1, 0)
    assert paused["paused_reason"] == "maintenance"
    assert paused["paused_at"].endswith("Z")
    assert house.job(1).state == "completed"


def test_a_lane_is_limited_and_the_limit_is_lifted(house: House, psql: psycopg.Connection) -> None:
    def limit() -> object:
        return psql.execute("select at_once from retoma.lanes where queue = 'double' and name = 'a/b c'").fetchone()

    assert house.post("/queues/double/limit", {"lane": "a/b c", "at_once": 3}).status_code == 204
    assert limit() == (3,)
    assert house.post("/queues/double/limit", {"lane": "a/b c", "at_once": None}).status_code == 204
    assert limit() == (None,)
    assert code(house.post("/queues/double/limit", {"lane": "a"})) == (422, "validation_failed")
    assert code(house.post("/queues/double/limit", {"lane": "a", "at_once": 0})) == (422, "validation_failed")


@pytest.mark.parametrize("name", ["No%20Name", "%C3%A9", "a" * 101, "-"])
def test_a_queue_that_cannot_be_called_so_is_refused(still_house: House, name: str) -> None:
    refused = still_house.post(f"/queues/{name}/pause")

    assert code(refused) == (422, "validation_failed")
    assert refused.json()["errors"][0]["pointer"] == "{name}"


# — workers and the system —


def test_workers_are_listed_and_those_who_are_gone_when_asked(house: House) -> None:
    house.enqueue("double", 1)
    house.work()

    assert house.get("/workers").json() == {"workers": [], "next": None}
    (gone,) = house.get("/workers?gone=true").json()["workers"]

    assert (gone["alive"], gone["completed"], gone["label"]) == (False, 1, house.settings.worker_label)
    assert gone["stopped_at"].endswith("Z")


def test_the_seven_figures_are_those_of_a_label(house: House) -> None:
    house.enqueue("double", 1)
    house.work()

    figures = house.get("/system/metrics", params={"label": house.settings.worker_label}).json()

    assert (figures["jobs_claimed"], figures["jobs_completed"], figures["jobs_failed"]) == (1, 1, 0)
    assert len(figures) == 7
    assert code(house.get("/system/metrics?label=nobody")) == (404, "not_found")
    assert code(house.get("/system/metrics")) == (422, "validation_failed")


def test_health_tells_of_the_database_and_names_no_session(house: House) -> None:
    house.enqueue("double", 1)

    health = house.get("/system/health").json()

    assert (health["fsync"], health["workers_alive"], health["failed_jobs"]) == (True, 0, 0)
    assert health["oldest_due_seconds"] >= 0
    assert not {"transaction_pid", "transaction_name"} & health.keys()


# — schedules —


@pytest.fixture
def nightly(house: House) -> House:
    house.ask(lambda app: app.schedules.put(double, 4, name="every night", cron="0 4 * * *"))
    return house


def test_schedules_are_listed_run_paused_and_resumed(nightly: House) -> None:
    path = "/schedules/every%20night"
    ran = nightly.post(f"{path}/run")
    paused = nightly.post(f"{path}/pause")
    resting = nightly.get("/schedules").json()["schedules"][0]
    resumed = nightly.post(f"{path}/resume")
    nightly.work()

    assert (ran.status_code, ran.headers["location"]) == (202, "/api/v1/jobs/1")
    assert ran.json() == {"id": 1, "status_url": "/api/v1/jobs/1"}
    assert nightly.client.get(ran.json()["status_url"]).json()["output"] == 8
    assert (paused.status_code, resting["input"], resting["cron"]) == (204, 4, "0 4 * * *")
    assert resting["paused_at"]
    assert (resumed.status_code, resumed.json()["paused_at"]) == (200, None)


@pytest.mark.parametrize("verb", ["run", "pause", "resume"])
def test_an_unknown_schedule_is_404(still_house: House, verb: str) -> None:
    assert code(still_house.post(f"/schedules/nothing/{verb}")) == (404, "not_found")
