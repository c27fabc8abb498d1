"""Every list has an end, says where it goes on, and leaves out what is long until somebody asks for it."""

from typing import Any

import psycopg
import pytest

from .conftest import House, code


def pages(house: House, path: str, noun: str, **wanted: Any) -> list[list[Any]]:
    """All pages of a list, by the cursors that they name; the header says the same."""
    found, cursor = [], None
    while True:
        answered = house.get(path, params={**wanted, **({"cursor": cursor} if cursor else {})})
        assert answered.status_code == 200, answered.text
        told = answered.json()
        found.append(told[noun])
        cursor = told["next"]
        assert ("link" in answered.headers) == (cursor is not None)
        if cursor is None:
            return found


@pytest.fixture
def spent(house: House, psql: psycopg.Connection) -> House:
    """Five jobs: the third was the dearest, the others cost the same."""
    for number in range(5):
        house.enqueue("double", number, delay=3600)
    psql.execute(
        "insert into retoma.calls (key, provider, model, job_id, state, request, answer, answered_at, cost, asked_at)"
        " select 'k' || job.id, 'openai', 'mini', job.id, 'answered', '{}', '', now(),"
        " case when job.id = 3 then 2 else 1 end, now() - (job.id || ' days')::interval from retoma.jobs as job"
    )
    return house


def test_what_jobs_cost_comes_a_page_at_a_time_the_dearest_first(spent: House) -> None:
    found = pages(spent, "/spend", "spend", by="job", limit=2)

    assert [len(page) for page in found] == [2, 2, 1]
    assert [each["name"] for page in found for each in page] == ["3", "5", "4", "2", "1"]


def test_what_days_cost_comes_with_the_newest_first(spent: House) -> None:
    days = [each["name"] for page in pages(spent, "/spend", "spend", by="day", limit=2) for each in page]

    assert days == sorted(days, reverse=True)
    assert len(days) == 5


def test_checkpoints_come_a_page_at_a_time_and_values_when_asked_for(house: House, psql: psycopg.Connection) -> None:
    id = house.enqueue("double", 1)
    house.work()
    psql.execute(
        "insert into retoma.checkpoints (job_id, step, generation, value, checksum, fingerprint, fence)"
        " select %s, 'more/' || number, 1, '\"long\"', 'c', 'f', 1 from generate_series(1, 4) as number",
        [id],
    )

    plain = pages(house, f"/jobs/{id}/checkpoints", "checkpoints", limit=2)
    valued = pages(house, f"/jobs/{id}/checkpoints", "checkpoints", limit=200, values="true")

    assert [each["step"] for page in plain for each in page] == [each["step"] for each in valued[0]]
    assert [len(page) for page in plain] == [2, 2, 1]
    assert all("value" not in each for page in plain for each in page)
    assert valued[0][0]["value"] == 2
    reader = house.key("read")
    told = house.get(f"/jobs/{id}/checkpoints?values=true", headers=reader).json()
    assert all("value" not in each for each in told["checkpoints"])


def test_workers_come_a_page_at_a_time_and_every_one_is_found_by_name(house: House, psql: psycopg.Connection) -> None:
    psql.execute(
        "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,"
        " lease_expires_at) select 'worker-' || number, 'here', 1, '0', '{a}', '{a}', 1, 60, now() + interval '1 h'"
        " from generate_series(1, 250) as number"
    )

    found = [each for page in pages(house, "/workers", "workers", limit=100) for each in page]

    assert len(found) == 250
    assert [each["id"] for each in found] == sorted((each["id"] for each in found), reverse=True)
    assert len(house.get("/workers").json()["workers"]) == 50
    assert house.get("/workers/worker-1/metrics").status_code == 200
    assert house.get("/system/metrics?label=worker-1").status_code == 200
    assert house.get(f"/workers/{found[-1]['id']}/metrics").status_code == 200
    assert code(house.get("/workers/nobody/metrics")) == (404, "not_found")
    assert code(house.get("/workers/99999/metrics")) == (404, "not_found")


@pytest.mark.parametrize("path", ["/spend", "/workers", "/jobs/1/checkpoints"])
@pytest.mark.parametrize(
    "cursor", ["x", "e30", "WyJhIl0", "WyJOYU4iLCJhIl0", "WyIxIiwiYVx1MDAwMCJd", "WyIxIiwiYVx1ZDgwMCJd", "bnVsbA"]
)
def test_a_cursor_that_is_not_ours_is_refused(house: House, path: str, cursor: str) -> None:
    house.enqueue("double", 1)

    assert code(house.get(path, params={"cursor": cursor})) == (422, "invalid_cursor")


def test_the_events_of_many_batches_are_found_by_two_questions(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    from retoma.app.runner import Runner  # noqa: PLC0415

    ids = [
        house.post("/batches", {"pipeline": "double", "name": str(number), "jobs": [{"input": number}]}).json()["id"]
        for number in range(20)
    ]
    asked: list[str] = []
    ask = Runner.ask

    async def counted(self: Any, command: Any, conn: object = None) -> Any:
        asked.append("once")
        return await ask(self, command, conn)

    monkeypatch.setattr(Runner, "ask", counted)
    told = house.get("/events", params=[("batch", str(id)) for id in ids])
    unknown = house.get("/events", params=[("batch", str(ids[0])), ("batch", "999999")])

    assert {each["batch_id"] for each in told.json()["events"]} == set(ids)
    assert 0 < len(asked) <= 4, "as many for twenty batches as for one"
    assert code(unknown) == (404, "not_found")
