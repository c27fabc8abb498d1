"""More than it can do, a database that does not answer, callers who have gone: the server says so and goes on."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2
import psycopg
import pytest

from retoma.telemetry import Event, listen
from retoma.web.http import stream
from retoma.web.http.admission import Admission

from .conftest import Open, blocked, code

SLOW = "/schedules"  # its table is locked, so it takes as long as we like


@contextmanager
def locked(psql: psycopg.Connection) -> Iterator[None]:
    with psql.transaction():
        psql.execute("lock table retoma.schedules in access exclusive mode")
        yield


def wait_until(true: Any) -> None:
    while not true():
        time.sleep(0.01)


def admissions() -> list[Admission]:
    return [each for each in gc.get_objects() if isinstance(each, Admission)]


def test_a_full_server_says_so_at_once_and_goes_on_with_changes_and_probes(
    open_house: Open, psql: psycopg.Connection
) -> None:
    house = open_house(pool_connections=4, web_waiting=2, web_wait_seconds=120, web_deadline_seconds=120)
    house.get(SLOW).raise_for_status()
    told: list[Event] = []
    stop = listen(told.append)
    with ThreadPoolExecutor(4) as pool:
        with locked(psql):
            slow = [pool.submit(house.get, SLOW, timeout=120) for _ in range(4)]
            wait_until(lambda: blocked(psql) == 2)
            wait_until(lambda: any(len(each._reads_waiting) == 2 for each in admissions()))

            refused = house.get("/jobs")
            changes = [house.post("/jobs", {"pipeline": "double", "input": each}).status_code for each in range(5)]
            probes = [house.client.get(path).status_code for path in ("/livez", "/readyz")]
        answered = [each.result().status_code for each in slow]
    stop()

    assert code(refused) == (503, "overloaded")
    assert refused.headers["retry-after"]
    assert (changes, probes) == ([202] * 5, [200, 200])
    assert answered == [200] * 4, "who waited was served"
    titles = {each.title() for each in told}
    assert ("requests.refused" in titles, "database.lost" in titles) == (True, False)
    assert house.get("/jobs").status_code == 200


def test_who_waits_for_a_place_and_gets_none_in_time_is_told_the_same(
    open_house: Open, psql: psycopg.Connection
) -> None:
    house = open_house(pool_connections=4, web_wait_seconds=0.2, web_deadline_seconds=120)
    with ThreadPoolExecutor(2) as pool, locked(psql):
        slow = [pool.submit(house.get, SLOW, timeout=120) for _ in range(2)]
        wait_until(lambda: blocked(psql) == 2)

        assert code(house.get("/jobs")) == (503, "overloaded")
        psql.execute("rollback")
        assert [each.result().status_code for each in slow] == [200, 200]


def test_a_request_whose_caller_has_gone_stops_and_gives_its_connection_back(
    open_house: Open, psql: psycopg.Connection
) -> None:
    house = open_house(pool_connections=4, web_deadline_seconds=120)
    port = int(house.url.rpartition(":")[2])
    with locked(psql):
        callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for each in callers:
            each.sendall(b"GET /api/v1/schedules HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        wait_until(lambda: blocked(psql) == 2)
        for each in callers:
            each.close()

        wait_until(lambda: blocked(psql) == 0)  # they ask nothing of the database any more
        assert house.get("/jobs").status_code == 200, "their places are free"


def test_what_takes_too_long_is_ended_on_the_server_and_told(open_house: Open, psql: psycopg.Connection) -> None:
    house = open_house(web_deadline_seconds=1)
    with locked(psql):
        told = house.get(SLOW)
        wait_until(lambda: blocked(psql) == 0)

    assert code(told) == (504, "deadline_exceeded")
    assert told.headers["retry-after"]
    assert house.get(SLOW).status_code == 200


@contextmanager
def asleep(psql: psycopg.Connection) -> Iterator[None]:
    """Every connection of the server is open, and nothing comes over it."""
    rows = psql.execute(
        "select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
        " and pid <> pg_backend_pid()"
    ).fetchall()
    for (pid,) in rows:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for (pid,) in rows:
            os.kill(pid, signal.SIGCONT)


def test_when_the_database_hangs_callers_are_answered_and_new_connections_are_used(
    open_house: Open, psql: psycopg.Connection
) -> None:
    house = open_house(web_deadline_seconds=1, api_key="a-long-secret-of-the-environment")
    client = httpx2.Client(
        base_url=house.url, timeout=60, headers={"Authorization": "Bearer a-long-secret-of-the-environment"}
    )
    assert client.get("/api/v1/jobs").status_code == 200
    with asleep(psql):
        first = client.get("/api/v1/jobs")
        again = client.get("/api/v1/jobs")
        while again.status_code != 200:  # as many as were open have to be given up
            again = client.get("/api/v1/jobs")
        ready = client.get("/readyz")

    assert code(first) == (504, "deadline_exceeded")
    assert (again.status_code, ready.status_code) == (200, 200)
    client.close()


def test_when_the_database_hangs_the_server_is_not_ready(open_house: Open, psql: psycopg.Connection) -> None:
    house = open_house()
    house.get("/jobs").raise_for_status()
    with asleep(psql):
        told = house.client.get("/readyz", timeout=60)

    assert code(told) == (503, "database_unavailable")


def test_streams_beat_while_the_database_hangs_and_go_on_afterwards(
    open_house: Open, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT", 0.2)
    house = open_house(web_deadline_seconds=2)
    jobs = [{"input": each} for each in range(5)]
    id = house.post("/batches", {"pipeline": "double", "name": "x", "jobs": jobs}).json()["id"]
    hanging, over = threading.Event(), threading.Event()
    heard: list[dict[str, Any]] = []

    def follow() -> None:
        headers = {"Accept": "application/x-ndjson", "Last-Event-ID": "0"}
        with httpx2.stream("GET", f"{house.url}/api/v1/batches/{id}/events", headers=headers, timeout=240) as response:
            beats = 0
            for line in response.iter_lines():
                heard.append(json.loads(line))
                beats += hanging.is_set() and heard[-1]["event"] == "heartbeat"
                if beats >= 5:
                    over.set()

    following = threading.Thread(target=follow)
    following.start()
    wait_until(lambda: heard)
    with asleep(psql):
        hanging.set()
        assert over.wait(240), "it beats"
    house.work()
    following.join(60)

    assert heard[-1]["event"] == "end"
    numbers = [each["id"] for each in heard if each["id"]]
    assert numbers == list(range(1, numbers[-1] + 1))
