"""A pilot over HTTP and on the command line: some run first, the rest is held, and one release lets it go on."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import retoma.cli
from retoma.errors import BatchConflict, ConfigurationError

from .conftest import PROGRAM, SECRET, Served

pytestmark = pytest.mark.timeout(600)


def test_a_pilot_is_made_looked_at_and_released_over_http(served: Served) -> None:
    with served.client() as client:
        id = client.batches.create("double", list(range(40)), name="piloted", pilot=5).id
        served.work()
        found, why = client.batches.pilot(id), client.batches.explain(id)

        assert (found.jobs, found.ended, found.held, found.over, found.released) == (5, 5, 35, True, False)
        assert found.cost is not None
        assert (found.cost.likely, found.failure_rate.likely if found.failure_rate else None) == (0.0, 0.0)
        assert found == served.app(lambda app: app.batches.pilot(id))
        assert (why.verdict, why.action) == ("piloted", "release")

        with ThreadPoolExecutor(4) as pool:
            released = list(pool.map(lambda _: client.batches.release(id), range(4)))
        served.work()

        assert {each.held_at for each in released} == {None}
        assert [each.kind for each in client.batches.events(id)].count("released") == 1
        assert client.batches.progress(id).completed == 40
        assert client.batches.pilot(id).released


def test_an_open_batch_gets_its_pilot_with_the_seal(served: Served) -> None:
    with served.client() as client:
        with pytest.raises(ConfigurationError):
            client.batches.open("double", name="early", pilot=5)
        id = client.batches.open("double", name="later").id
        client.batches.fill(id, range(10))
        sealed = client.batches.seal(id, pilot=4)
        served.work()

        assert sealed.held_at is not None
        assert client.batches.progress(id).completed == 4
        client.batches.cancel(id)
        with pytest.raises(BatchConflict):
            client.batches.release(id)


@pytest.fixture(params=["api", "database"])
def run(request: pytest.FixtureRequest, served: Served, monkeypatch: pytest.MonkeyPatch) -> object:
    def invoke(*args: str) -> Result:
        if request.param == "api":
            monkeypatch.setenv("RETOMA_API_KEY", SECRET)
            args = (*args, "--api", served.url)
        else:
            monkeypatch.setenv("DATABASE_URL", served.settings.database_url or "")
            monkeypatch.setenv("RETOMA_APP", PROGRAM)
        return CliRunner().invoke(retoma.cli.main, args, prog_name="retoma")

    return invoke


def test_a_file_becomes_a_batch_whose_pilot_is_told_and_released(served: Served, run: object, tmp_path: Path) -> None:
    assert callable(run)
    file = tmp_path / "numbers.jsonl"
    file.write_text("\n".join(map(str, range(30))))

    made = run("batch", "new", "double", str(file), "--pilot", "6", "--label", "team=x")
    id = made.stdout.strip()
    served.work()
    told = json.loads(run("batch", "pilot", id, "--json").stdout)
    plain = run("batch", "pilot", id)
    released, again = run("batch", "release", id), run("batch", "release", id)
    served.work()

    assert made.exit_code == 0, made.stderr
    assert (told["jobs"], told["held"], told["batch"]["name"]) == (6, 24, "numbers.jsonl")
    assert "6 of 6 jobs ended, 0 failed" in plain.stdout
    assert (released.exit_code, "24 jobs are left" in released.stderr) == (0, True)
    assert (again.exit_code, "holds nothing" in again.stderr) == (0, True)
    assert served.app(lambda app: app.batches.progress(int(id))).completed == 30


def test_a_file_with_inputs_that_do_not_fit_makes_nothing(served: Served, run: object, tmp_path: Path) -> None:
    assert callable(run)
    file = tmp_path / "numbers.json"
    file.write_text('[1, "two", 3, "four"]')
    before = served.app(lambda app: app.batches.find(limit=1))

    refused = run("batch", "new", "double", str(file))

    assert refused.exit_code == 2
    assert served.app(lambda app: app.batches.find(limit=1)) == before
