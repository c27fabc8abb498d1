"""Quotas: what one key may ask for, send and let wait; counted for all server processes, and free where none is set."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from retoma.pipelines import CLASSIFICATION, DOCUMENTS
from retoma.providers import Classifier
from retoma.providers.local import LocalClassifier
from retoma.providers.local.encoder import Lexical
from retoma.web.http import quotas

from .archive import LEASE, providers
from .conftest import House, Open, code

import bad_files  # isort: skip - on the path since archive was imported

DAY = 86_400


def refused(answer: httpx2.Response, name: str, quota: int) -> bool:
    """Whether the quota *name* is used up, told in every way it should be."""
    assert code(answer) == (429, "quota_exceeded")
    assert answer.json()["retryable"] is True
    assert int(answer.headers["retry-after"]) > 0
    assert answer.headers["ratelimit-policy"].startswith(f'"{name}";q={quota}')
    assert answer.headers["ratelimit"] == f'"{name}";r=0;t={answer.headers["retry-after"]}'
    assert f"{quota}" in answer.json()["detail"]
    return True


def test_without_a_quota_nothing_is_told_and_nothing_is_written(house: House, psql: psycopg.Connection) -> None:
    answer = house.post("/jobs", {"pipeline": "double", "input": 1})

    assert "ratelimit" not in answer.headers
    assert [psql.execute(f"select from retoma.{table}").rowcount for table in ("usage", "submissions")] == [0, 0]


def test_requests_of_a_minute_are_counted_for_each_key_and_told_with_every_answer(
    open_house: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(quotas.time, "monotonic", lambda: now[0])
    house = open_house(key_requests_per_minute=3)
    one, other = house.key("read"), house.key("read")

    first = [house.get("/jobs", headers=one) for _ in range(3)]
    fourth = house.get("/jobs", headers=one)
    pt = house.get("/jobs", headers=one | {"Accept-Language": "pt-BR"})

    assert [each.headers["ratelimit"] for each in first] == [f'"requests";r={left};t=60' for left in (2, 1, 0)]
    assert first[0].headers["ratelimit-policy"] == '"requests";q=3;w=60'
    assert refused(fourth, "requests", 3)
    assert "permite 3 a cada chave" in pt.json()["detail"]
    assert house.get("/jobs", headers=other).status_code == 200
    assert house.client.get("/livez").status_code == 200
    now[0] += 60
    assert house.get("/jobs", headers=one).status_code == 200


def test_bytes_of_a_day_are_counted_for_all_servers_together(open_house: Open, psql: psycopg.Connection) -> None:
    houses = [open_house(key_bytes_per_day=100_000) for _ in range(2)]
    key, other = houses[0].key("submit"), houses[0].key("submit")
    order = {"pipeline": "anything", "input": "x" * 30_000}

    told = [house.post("/jobs", order, headers=key) for house in houses * 2]

    assert [each.status_code for each in told] == [202, 202, 202, 429]
    assert refused(told[-1], "bytes", 100_000)
    assert int(told[-1].headers["retry-after"]) <= DAY
    assert houses[0].post("/jobs", order, headers=other).status_code == 202
    psql.execute("update retoma.usage set day = day - 1")
    assert houses[1].post("/jobs", order, headers=key).status_code == 202


def test_many_at_once_stay_within_the_bytes_of_a_day(open_house: Open, psql: psycopg.Connection) -> None:
    house = open_house(key_bytes_per_day=100_000)
    key = house.key("submit")
    order = {"pipeline": "anything", "input": "x" * 9_000}

    with ThreadPoolExecutor(10) as pool:
        told = list(pool.map(lambda _: house.post("/jobs", order, headers=key).status_code, range(30)))

    row = psql.execute("select bytes from retoma.usage").fetchone()
    assert row is not None
    assert row[0] <= 100_000
    assert told.count(202) == 11


@pytest.fixture
def send(open_house: Open, tmp_path: Path) -> Callable[..., Any]:
    """A house that takes documents, and how files are sent to it."""

    def made(**given: Any) -> tuple[House, Callable[..., httpx2.Response]]:
        house = open_house(extensions=[DOCUMENTS], providers=providers(tmp_path / "blobs"), **given)
        key = house.key("submit", "read")

        def sending(*files: tuple[str, str]) -> httpx2.Response:
            parts = [("files", (name, text.encode())) for name, text in files]
            return house.client.post("/documents", files=parts, headers=key)

        return house, sending

    return made


def test_files_of_a_day_are_counted_also_those_that_are_refused(send: Callable[..., Any]) -> None:
    _, sending = send(key_files_per_day=3)

    first = sending(("a.txt", LEASE), ("b.exe", "MZ\0"))
    second = sending(("c.txt", LEASE + "c"), ("d.txt", LEASE + "d"))

    assert first.status_code == 202
    assert refused(second, "files", 3)


def test_bytes_of_files_are_counted_while_they_come_and_what_was_not_used_is_given_back(
    send: Callable[..., Any], psql: psycopg.Connection
) -> None:
    house, sending = send(key_bytes_per_day=20_000_000)

    assert sending(("a.txt", LEASE + "a" * 5_000_000)).status_code == 202
    row = psql.execute("select bytes, files from retoma.usage").fetchone()
    large = sending(("b.txt", "b " * 9_000_000))

    assert row is not None
    assert (5_000_000 < row[0] < 5_010_000, row[1]) == (True, 1)
    assert refused(large, "bytes", 20_000_000)
    assert house.settings.key_bytes_per_day == 20_000_000


def test_what_a_zip_unpacks_to_is_counted(open_house: Open, tmp_path: Path, psql: psycopg.Connection) -> None:
    house = open_house(
        extensions=[CLASSIFICATION],
        providers=providers(tmp_path / "blobs") | {Classifier: LocalClassifier(Lexical())},
        key_files_per_day=5,
        key_bytes_per_day=10_000_000,
    )
    key = house.key("submit", "read")
    base = "/classificador/api"
    id = house.client.post(f"{base}/projetos", json={"nome": "Z"}, headers=key).json()["id"]

    def upload(content: bytes) -> httpx2.Response:
        files = [("files", ("a.zip", content))]
        return house.client.post(f"{base}/lotes/{id}/upload", files=files, headers=key)

    assert refused(upload(bad_files.many_members_zip(5, 1000)), "files", 5)
    psql.execute("delete from retoma.usage")
    assert upload(bad_files.many_members_zip(3, 1000)).status_code == 200
    row = psql.execute("select files, bytes from retoma.usage").fetchone()
    assert row is not None
    assert (row[0], row[1] > 3000) == (4, True)


def test_jobs_that_wait_are_counted_for_each_key_and_make_room_when_they_are_taken(
    open_house: Open, psql: psycopg.Connection
) -> None:
    house = open_house(key_jobs_waiting=3)
    key, other = house.key("submit"), house.key("submit")
    order = {"pipeline": "double", "input": 1}

    told = [house.post("/jobs", order, headers=key) for _ in range(4)]

    assert [each.status_code for each in told] == [202, 202, 202, 429]
    assert refused(told[-1], "jobs", 3)
    assert house.post("/jobs", order, headers=other).status_code == 202
    house.work()
    assert house.post("/jobs", order, headers=key).status_code == 202
    row = psql.execute(
        "select count(*) from retoma.submissions where caller = split_part(%s, '_', 2)", [key["Authorization"]]
    ).fetchone()
    assert row == (1,)  # those that ended are forgotten


def test_the_jobs_of_a_batch_wait_too_and_one_that_is_refused_leaves_nothing(
    open_house: Open, psql: psycopg.Connection
) -> None:
    house = open_house(key_jobs_waiting=5)
    key = house.key("submit")
    jobs = [{"input": number} for number in range(4)]

    first = house.post("/batches", {"pipeline": "double", "name": "a", "jobs": jobs}, headers=key)
    second = house.post("/batches", {"pipeline": "double", "name": "b", "jobs": jobs}, headers=key)
    third = house.post("/batches", {"pipeline": "double", "name": "c"}, headers=key)
    filled = house.post(f"/batches/{third.json()['id']}/jobs", {"jobs": jobs}, headers=key)

    assert first.status_code == third.status_code == 202
    assert refused(second, "jobs", 5)
    assert refused(filled, "jobs", 5)
    assert psql.execute("select from retoma.batches").rowcount == 2
    house.work()
    assert house.post(f"/batches/{third.json()['id']}/jobs", {"jobs": jobs}, headers=key).status_code == 202


def test_many_at_once_stay_within_the_jobs_that_may_wait(open_house: Open, psql: psycopg.Connection) -> None:
    house = open_house(key_jobs_waiting=10)
    key = house.key("submit")

    with ThreadPoolExecutor(8) as pool:
        order = {"pipeline": "double", "input": 1}
        told = list(pool.map(lambda _: house.post("/jobs", order, headers=key).status_code, range(30)))

    assert (told.count(202), told.count(429)) == (10, 20)
    assert psql.execute("select from retoma.jobs where pipeline = 'double'").rowcount == 10


def test_documents_wait_too(send: Callable[..., Any]) -> None:
    _, sending = send(key_jobs_waiting=2)

    assert sending(("a.txt", LEASE), ("b.txt", LEASE + "b")).status_code == 202
    assert refused(sending(("c.txt", LEASE + "c")), "jobs", 2)
