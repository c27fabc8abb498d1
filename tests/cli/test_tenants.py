"""Two customers on one server, by the commands of the page: what belongs to one is nothing to the other."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from retoma.postgres.embedded import server as embedded_server
from retoma.postgres.roles import Roles

# Several processes start here, and the machine may be busy.
pytestmark = pytest.mark.timeout(600)

PAGE = Path(__file__).parents[2] / "docs/operate/tenants.md"
STEPS = re.findall(r"^```sh run\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
CUSTOMERS = ("acme", "zenith")
PARTS = ("owner", "worker", "web", "reader")


def until(ready: Callable[[], Any], seconds: float = 150.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)
    return found


@dataclass
class Town:
    """The folder in which the page was followed."""

    folder: Path
    said: str

    def url(self, customer: str, part: str) -> str:
        return (self.folder / customer / "secrets" / f"{part}.url").read_text().strip()

    def key(self, customer: str) -> str:
        return (self.folder / customer / "secrets" / "key").read_text().strip()

    def address(self, customer: str) -> str:
        log = self.folder / customer / "serve.log"
        return str(until(lambda: (found := re.search(r"at (http://\S+)/api/v1", log.read_text())) and found[1]))


@pytest.fixture(scope="module")
def names(worker_id_of_run: str) -> dict[str, str]:
    """The databases of this run: others may follow the page on the same server at the same moment."""
    return {customer: f"{customer}_{worker_id_of_run}" for customer in CUSTOMERS}


@pytest.fixture(scope="module")
def town(server: str, names: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    script = "set -euo pipefail\n" + "\n".join(STEPS)
    for customer, name in names.items():
        script = re.sub(rf"\b{customer}\b", name, script)
    bin, _ = next(embedded_server.binaries())
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], str(bin)])
    if shutil.which("psql", path=path) is None:
        pytest.skip("there is no psql here")
    with (folder / "said").open("w") as said:
        shell = subprocess.Popen(
            ["bash", "-c", f"{script}\nwait"],
            cwd=folder,
            env={**os.environ, "SERVER": server.rpartition("/")[0], "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        for customer, name in names.items():

            def serving(name: str = name) -> bool:
                assert shell.poll() is None, (folder / "said").read_text()
                log = folder / name / "serve.log"
                return log.exists() and "/api/v1" in log.read_text()

            until(serving)
            (folder / customer).symlink_to(folder / name)
        yield Town(folder, (folder / "said").read_text())
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(timeout=240)
        with psycopg.connect(server, autocommit=True) as connection:
            for name in names.values():
                until(lambda name=name: _drop(connection, name))


def _drop(connection: psycopg.Connection, name: str) -> bool:
    connection.execute(f"drop database if exists {name} with (force)")
    for role in Roles.of(name).names:
        connection.execute(f"drop role if exists {role}")
    return True


def test_the_page_has_its_steps() -> None:
    assert len(STEPS) == 4


@pytest.mark.parametrize("customer", CUSTOMERS)
def test_each_customer_is_served(town: Town, customer: str) -> None:
    headers = {"Authorization": f"Bearer {town.key(customer)}"}
    with httpx2.Client(base_url=town.address(customer), headers=headers, timeout=60) as client:
        text = {"organisation": "o", "site": "s", "source_type": "page", "source_id": "1", "content": f"Of {customer}."}
        job = client.post("/api/v1/embeddings", json={"texts": [text]}).json()["texts"][0]["job_id"]
        until(lambda: client.get(f"/api/v1/jobs/{job}").json()["state"] == "completed")

        found = client.get("/api/v1/embeddings/search", params={"organisation": "o", "site": "s", "q": "of"}).json()

    assert f"Of {customer}." in str(found)
    assert not [other for other in CUSTOMERS if other != customer and f"Of {other}." in str(found)]


def test_a_key_of_one_customer_is_nobodys_at_the_other(town: Town) -> None:
    for customer, other in (CUSTOMERS, CUSTOMERS[::-1]):
        headers = {"Authorization": f"Bearer {town.key(other)}"}
        with httpx2.Client(base_url=town.address(customer), headers=headers, timeout=60) as client:
            answers = {
                path: client.get(path).status_code
                for path in ("/api/v1/jobs", "/api/v1/jobs/1", "/api/v1/batches", "/documents", "/api/v1/embeddings")
            }

        assert set(answers.values()) == {401}, answers


@pytest.mark.parametrize("part", PARTS)
def test_a_role_of_one_customer_cannot_enter_the_database_of_the_other(town: Town, part: str) -> None:
    for customer, other in (CUSTOMERS, CUSTOMERS[::-1]):
        url = town.url(customer, part)
        theirs = town.url(other, part)
        with psycopg.connect(url) as connection:
            assert connection.execute("select count(*) > 0 from pg_tables where schemaname = 'retoma'").fetchone()

        elsewhere = f"{url.rpartition('/')[0]}/{theirs.rpartition('/')[2]}"
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(elsewhere)


def test_homes_and_secrets_are_closed_to_other_accounts(town: Town) -> None:
    for customer in CUSTOMERS:
        for file in (town.folder / customer / "secrets").glob("*.url"):
            assert file.stat().st_mode & 0o777 == 0o600
        assert (town.folder / customer / "secrets").stat().st_mode & 0o777 == 0o700


def test_nothing_that_opens_a_door_was_printed(town: Town) -> None:
    for customer in CUSTOMERS:
        for part in PARTS:
            password = town.url(customer, part).split(":")[2].split("@")[0]
            logs = [path.read_text() for path in (town.folder / customer).glob("*.log")]
            assert password not in "".join([town.said, *logs])
