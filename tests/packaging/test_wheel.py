"""What is built is what works: the wheel of Retoma in an environment of its own, and beside it the wheel of a package
that brings a product, with a table, a pipeline, a page in two languages and a command of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
STAMPS = Path(__file__).parent / "stamps"
Retoma = Callable[..., str]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with both wheels; what they depend on is taken from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    wheels = folder / "wheels"
    for project in (ROOT, STAMPS):
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, project)
    (site,) = (folder / "lib").glob("python*/site-packages")
    # A path and no more: the editable installation of this checkout has a file of its own there, and that is not read.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    _pip("install", "--no-deps", "--no-index", "--python", folder / "bin/python", *wheels.glob("*.whl"))
    return folder


def _pip(*args: object) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, args)]
    if "--python" in args:
        place = args.index("--python")
        command = [*command[:5], "--python", str(args[place + 1])]
        command += [str(each) for number, each in enumerate(args) if number not in (place, place + 1)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture
def retoma(environment: Path, empty_database_url: str, tmp_path: Path) -> Retoma:
    """Run the command of the wheel on an empty database; what it printed."""

    def run(*args: str) -> str:
        ran = subprocess.run(
            [environment / "bin/retoma", *args],
            cwd=tmp_path,
            env=_env(empty_database_url, tmp_path),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


def _env(url: str, home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RETOMA_", "PYTHONPATH"))}
    return {**kept, "DATABASE_URL": url, "RETOMA_HOME": str(home / ".retoma"), "RETOMA_TOKEN": "off", "LANG": "C.UTF-8"}


@contextmanager
def up(environment: Path, url: str, home: Path) -> Iterator[str]:
    """Worker and server of the wheel; where the server is."""
    said = home / "up.log"
    with said.open("w") as log:
        process = subprocess.Popen(
            [environment / "bin/retoma", "up", "--port", "0"], cwd=home, env=_env(url, home), stdout=log, stderr=log
        )
        try:
            end = time.monotonic() + 120
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", said.read_text())):
                assert process.poll() is None, said.read_text()
                assert time.monotonic() < end, said.read_text()
                time.sleep(0.1)
            yield found[0]
        finally:
            process.terminate()
            process.wait(240)


def test_the_code_that_runs_is_that_of_the_wheel(environment: Path) -> None:
    asked = "import retoma, stamps; print(retoma.__file__); print(stamps.__file__)"
    ran = subprocess.run([environment / "bin/python", "-c", asked], capture_output=True, text=True, check=True)

    assert [Path(line).is_relative_to(environment) for line in ran.stdout.split()] == [True, True]


def test_a_product_of_another_package_speaks_portuguese_in_the_terminal(environment: Path, tmp_path: Path) -> None:
    env = _env("", tmp_path) | {"LANG": "pt_BR.UTF-8"}
    ran = subprocess.run([environment / "bin/retoma", "-h"], env=env, capture_output=True, text=True, check=True)

    assert "Uso: retoma" in ran.stdout
    assert "Selos: carimbar, listar." in ran.stdout


def test_a_product_of_another_package_has_a_table_a_pipeline_a_page_and_a_command(
    environment: Path, retoma: Retoma, empty_database_url: str, tmp_path: Path
) -> None:
    assert "stamps" in retoma("--help")
    retoma("db", "upgrade")
    assert "stamps" in retoma("db", "status", "--json")

    retoma("stamps", "put", "dear ana")
    retoma("stamps", "put", "dear bruno")
    with up(environment, empty_database_url, tmp_path) as site:
        end = time.monotonic() + 120
        while retoma("stamps", "list").count("\n") < 2:
            assert time.monotonic() < end, (tmp_path / "up.log").read_text()
            time.sleep(0.2)
        english = _read(f"{site}/stamps", "en")
        portuguese = _read(f"{site}/stamps", "pt")
        api = _read(f"{site}/api/v1/stamps", "en")

    assert "2 letters were stamped." in english
    assert "2 cartas foram carimbadas." in portuguese
    assert "Carimbos" in portuguese
    assert re.search(r"/static/\w+/stamps\.css", english)
    assert '"dear ana"' in api
    assert "stamps" in retoma("doctor")
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select count(*), count(distinct job_id) from stamps.letters").fetchone() == (2, 2)


def test_its_tables_go_and_those_of_the_engine_stay(retoma: Retoma, empty_database_url: str) -> None:
    retoma("db", "upgrade")

    retoma("db", "downgrade", "--extension", "stamps", "--to", "base", "--yes")

    with psycopg.connect(empty_database_url) as connection:
        there = connection.execute("select to_regclass('stamps.letters'), to_regclass('retoma.jobs')").fetchone()
    assert there == (None, "retoma.jobs")


def test_the_roles_get_the_rights_on_its_tables_that_it_says(retoma: Retoma) -> None:
    retoma("db", "upgrade")

    said = retoma("db", "roles")

    assert re.search(r'grant select, insert on "stamps"\."letters" to "\w+_worker"', said)
    assert re.search(r'grant select on "stamps"\."letters" to "\w+_web"', said)


def _read(url: str, language: str) -> str:
    request = urllib.request.Request(
        url, headers={"Accept": "text/html, application/json", "Accept-Language": language}
    )
    with urllib.request.urlopen(request, timeout=240) as answer:
        text: str = answer.read().decode()
    return text
