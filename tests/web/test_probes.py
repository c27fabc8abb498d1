"""What watches the server, and what explains it."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psycopg
import pytest

from retoma.app.access.keys import Access
from retoma.web.api import probes

from .conftest import House, Open, blocked, code


@contextmanager
def unreachable(server: str, name: str) -> Iterator[None]:
    """Nobody gets into the database meanwhile, and who was in is out."""
    with psycopg.connect(server, autocommit=True) as outside:
        outside.execute(f"alter database {name} with allow_connections false")
        outside.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        yield
        outside.execute(f"alter database {name} with allow_connections true")


def test_a_server_that_is_well_is_alive_and_ready(still_house: House) -> None:
    assert still_house.client.get("/livez").json() == {"alive": True}
    assert still_house.client.get("/readyz").json() == {"ready": True}


def test_probes_ask_for_no_key_and_no_host(open_house: Open) -> None:
    house = open_house(api_key="a-long-secret-of-the-environment")

    for path in ("/livez", "/readyz"):
        assert house.client.get(path, headers={"Host": "10.1.2.3:8000"}).status_code == 200


def test_without_a_database_the_server_is_alive_and_not_ready(
    open_house: Open, psql: psycopg.Connection, server: str
) -> None:
    house = open_house(connect_timeout=1)

    with unreachable(server, psql.info.dbname):
        alive, ready = house.client.get("/livez"), house.client.get("/readyz")

    assert alive.status_code == 200
    assert code(ready) == (503, "database_unavailable")
    assert ready.headers["retry-after"]
    assert psql.info.dbname not in ready.text
    while house.client.get("/readyz").status_code != 200:  # it is ready again by itself
        time.sleep(0.1)


@pytest.mark.parametrize(
    "change", ["update retoma.alembic_version set version_num = '0001'", "drop schema retoma cascade"]
)
def test_with_tables_of_another_version_it_is_not_ready(house: House, psql: psycopg.Connection, change: str) -> None:
    changed = False
    while not changed:
        with suppress(psycopg.errors.DeadlockDetected):  # the server looks at its tables meanwhile, in its own order
            psql.execute(change)
            changed = True

    assert code(house.client.get("/readyz")) == (503, "schema_mismatch")
    assert house.client.get("/livez").status_code == 200


def test_newer_tables_that_are_put_under_it_leave_it_ready_for_as_long_as_they_serve_it(
    house: House, psql: psycopg.Connection
) -> None:
    psql.execute("update retoma.alembic_version set version_num = '9000'")

    assert house.client.get("/readyz").status_code == 200

    psql.execute("comment on table retoma.alembic_version is 'serves 9000'")
    while (told := house.client.get("/readyz")).status_code == 200:  # it is looked at once a second
        time.sleep(0.1)
    assert code(told) == (503, "schema_mismatch")


def test_with_no_free_connection_it_is_not_ready(open_house: Open, psql: psycopg.Connection) -> None:
    house = open_house(pool_connections=4)
    id = house.enqueue("double", 1)
    with ThreadPoolExecutor(3) as pool:
        with psql.transaction():
            psql.execute("select from retoma.jobs where id = %s for update", [id])
            waiting = [pool.submit(house.post, f"/jobs/{id}/cancel") for _ in range(3)]
            while blocked(psql) < 3:
                time.sleep(0.01)
            exhausted = house.client.get("/readyz")
        assert {each.result().status_code for each in waiting} == {200}

    assert code(exhausted) == (503, "overloaded")
    assert house.client.get("/readyz").status_code == 200


def test_however_often_it_is_asked_whether_it_is_ready_the_database_is_asked_once_a_second(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    plain = Access.ready

    async def counted(access: Access) -> None:
        asked.append(None)
        await plain(access)

    monkeypatch.setattr(Access, "ready", counted)
    monkeypatch.setattr(probes, "_KEPT", 3600.0)
    with ThreadPoolExecutor(10) as pool:
        told = list(pool.map(lambda _: house.client.get("/readyz").status_code, range(100)))

    assert (set(told), len(asked)) == ({200}, 1)


# — the reference —


def test_the_page_explains_every_operation_and_loads_nothing(still_house: House) -> None:
    page = still_house.client.get("/docs")
    schema = still_house.client.get("/openapi.json").json()

    assert page.headers["content-type"].startswith("text/html")
    assert [path for path in schema["paths"] if f"<code>{path}</code>" not in page.text] == []
    assert [name for name in schema["components"]["schemas"] if f"<code>{name}</code>" not in page.text] == []
    assert "<script" not in page.text
    assert re.findall(r"(?:src|href|action|url)\s*[=(][^ >]*", page.text) == ["href=openapi.json"]
    assert page.headers["content-security-policy"].startswith(
        "default-src 'none'; frame-ancestors 'none'; style-src 'sha2"
    )


def test_the_page_is_for_people_on_this_machine(open_house: Open) -> None:
    house = open_house(allow_hosts=("jobs.example",))

    for path in ("/docs", "/openapi.json"):
        assert code(house.client.get(path, headers={"Host": "jobs.example"})) == (401, "auth_missing")
