"""A change with an Idempotency-Key is done once, and answered as often as it is asked."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from retoma.store import replies
from retoma.store.query import Query

from .conftest import House, Open, blocked, code

ORDER = {"pipeline": "double", "input": 1}


def keyed(key: str, **others: str) -> dict[str, str]:
    return {"Idempotency-Key": key, **others}


def count(psql: psycopg.Connection, table: str) -> int:
    row = psql.execute(f"select count(*) from retoma.{table}").fetchone()
    assert row
    return row[0]


def test_a_repeated_request_gets_the_first_answer_and_nothing_is_done_again(
    house: House, psql: psycopg.Connection
) -> None:
    first = house.post("/jobs", ORDER, headers=keyed("order-1"))
    again = house.post("/jobs", ORDER, headers=keyed("order-1"))

    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    for name in ("content-type", "location"):
        assert again.headers[name] == first.headers[name]
    assert (again.status_code, again.json()) == (first.status_code, first.json()) == (202, first.json())
    assert again.headers["x-correlation-id"] != first.headers["x-correlation-id"], "it is another request all the same"
    assert count(psql, "jobs") == 1


def test_without_a_key_each_request_is_a_new_one(house: House, psql: psycopg.Connection) -> None:
    house.post("/jobs", ORDER)
    house.post("/jobs", ORDER)

    assert (count(psql, "jobs"), count(psql, "replies")) == (2, 0)


def test_every_change_can_be_repeated(house: House, psql: psycopg.Connection) -> None:
    house.enqueue("double", 1)
    house.ask(lambda app: app.schedules.put(app.registry.pipeline("double"), 1, name="nightly", cron="0 4 * * *"))

    for path, body in (
        ("/jobs/1/signal", {"name": "a", "value": 1}),  # heard is true the second time too
        ("/jobs/1/cancel", None),
        ("/jobs/1/restart", None),
        ("/jobs/1/cancel", {"reason": "again"}),
        ("/jobs/1/retry", None),
        ("/queues/double/pause", None),
        ("/queues/double/resume", None),
        ("/queues/double/limit", {"lane": "a", "at_once": 1}),
        ("/schedules/nightly/run", None),
        ("/schedules/nightly/pause", None),
        ("/schedules/nightly/resume", None),
    ):
        key = keyed(f"once {body}".replace(" ", "-"))
        first = house.post(path, body, headers=key)
        again = house.post(path, body, headers=key)
        assert first.status_code in (200, 202, 204), (path, first.text)
        assert (again.status_code, again.content) == (first.status_code, first.content), path
        assert again.headers["idempotency-replayed"] == "true", path
    assert count(psql, "jobs") == 2, "the schedule ran once"


def test_another_body_under_the_same_key_is_refused(house: House, psql: psycopg.Connection) -> None:
    house.post("/jobs", ORDER, headers=keyed("a"))

    assert code(house.post("/jobs", {**ORDER, "input": 2}, headers=keyed("a"))) == (422, "idempotency_key_reused")
    assert count(psql, "jobs") == 1


def test_a_key_counts_for_one_caller_and_one_route(house: House, psql: psycopg.Connection) -> None:
    ana, bia = house.key("submit", "operate", "read"), house.key("submit", "operate", "read")

    for caller in (ana, bia):
        assert "idempotency-replayed" not in house.post("/jobs", ORDER, headers=keyed("a", **caller)).headers
    for id in (1, 2):
        cancelled = house.post(f"/jobs/{id}/cancel", headers=keyed("a", **ana))
        assert (cancelled.json()["id"], cancelled.json()["state"]) == (id, "cancelled")

    assert count(psql, "jobs") == 2


def test_what_was_refused_is_not_remembered(house: House, psql: psycopg.Connection) -> None:
    id = house.enqueue("double", 1)

    assert code(house.post(f"/jobs/{id}/restart", headers=keyed("a"))) == (409, "conflict")
    assert count(psql, "replies") == 0
    house.post(f"/jobs/{id}/cancel")
    assert house.post(f"/jobs/{id}/restart", headers=keyed("a")).json()["state"] == "queued"


@pytest.mark.parametrize("table", ["jobs", "replies"])
def test_the_work_and_its_reply_are_written_together_or_not_at_all(
    house: House, psql: psycopg.Connection, table: str
) -> None:
    # The commit itself fails: what had been written is checked only then.
    psql.execute("""
        create function refuse() returns trigger language plpgsql as $$ begin raise 'not today'; end $$""")
    psql.execute(f"""
        create constraint trigger refused after insert on retoma.{table}
        deferrable initially deferred for each row execute function refuse()""")
    refused = house.post("/jobs", ORDER, headers=keyed("a"))
    before = count(psql, "jobs"), count(psql, "replies")
    psql.execute(f"drop trigger refused on retoma.{table}")

    done = house.post("/jobs", ORDER, headers=keyed("a"))

    assert code(refused) == (500, "internal")
    assert before == (0, 0)
    assert done.status_code == 202
    assert "idempotency-replayed" not in done.headers
    assert (count(psql, "jobs"), count(psql, "replies")) == (1, 1)


def test_a_request_that_is_being_worked_on_is_not_begun_again(house: House, psql: psycopg.Connection) -> None:
    id = house.enqueue("double", 1)
    with ThreadPoolExecutor() as pool:
        with psql.transaction():
            psql.execute("select from retoma.jobs where id = %s for update", [id])
            first = pool.submit(house.post, f"/jobs/{id}/cancel", headers=keyed("a"))
            while blocked(psql) == 0:
                time.sleep(0.01)  # until the first request waits for that row
            second = house.post(f"/jobs/{id}/cancel", headers=keyed("a"))
        done = first.result()

    assert code(second) == (409, "idempotency_in_progress")
    assert second.headers["retry-after"] == "1"
    assert second.json()["retryable"]
    assert done.json()["state"] == "cancelled"
    assert house.post(f"/jobs/{id}/cancel", headers=keyed("a")).headers["idempotency-replayed"] == "true"


def test_of_many_equal_requests_at_once_one_is_done(house: House, psql: psycopg.Connection) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: house.post("/jobs", ORDER, headers=keyed("same")), range(24)))

    assert count(psql, "jobs") == 1
    assert {each.status_code for each in answers} <= {202, 409}
    assert {each.json()["id"] for each in answers if each.status_code == 202} == {1}
    assert {each.json()["code"] for each in answers if each.status_code == 409} <= {"idempotency_in_progress"}


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
def test_a_key_that_cannot_be_one_is_refused(still_house: House, key: str) -> None:
    refused = still_house.post("/jobs", ORDER, headers={"Idempotency-Key": key.encode("latin-1")})

    assert code(refused) == (422, "validation_failed")
    assert [fault["pointer"] for fault in refused.json()["errors"]] == ["Idempotency-Key"]


def test_after_a_day_a_reply_is_not_given_again_and_can_be_pruned(house: House, psql: psycopg.Connection) -> None:
    house.post("/jobs", ORDER, headers=keyed("old"))
    house.post("/jobs", ORDER, headers=keyed("new"))
    psql.execute("update retoma.replies set created_at = created_at - interval '25 hours' where key = 'old'")

    def prune(query: Query[str]) -> list[str]:
        return house.ask(lambda app: app.fetch(query))

    again = house.post("/jobs", {**ORDER, "input": 2}, headers=keyed("old"))
    assert (again.status_code, "idempotency-replayed" in again.headers) == (202, False)
    assert prune(replies.prune()) == []
    psql.execute("update retoma.replies set created_at = created_at - interval '25 hours' where key = 'old'")
    assert prune(replies.prune()) == ["old"]
    assert count(psql, "replies") == 1


def test_reading_takes_no_key(house: House, psql: psycopg.Connection) -> None:
    house.get("/jobs", headers=keyed("a"))

    assert count(psql, "replies") == 0


def test_many_changes_at_once_do_not_wait_for_each_others_connections(open_house: Open) -> None:
    # Each change holds one connection; one that wanted a second would wait for the others for ever.
    house = open_house(connect_timeout=1)
    id = house.enqueue("double", 1, delay=3600)
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda n: house.post(f"/jobs/{id}/cancel", headers=keyed(f"k{n}")), range(60)))

    assert {each.status_code for each in answers} == {200}
