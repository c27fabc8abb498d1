"""The plugin for pytest, used by a project that knows nothing else of Retoma's tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/test.md").read_text(encoding="utf-8")


def blocks(name: str) -> str:
    (found,) = re.findall(rf"```python(?: run)?\n(# {name}\n.*?)```", GUIDE, re.DOTALL)
    return found


@pytest.fixture
def project(pytester: pytest.Pytester, server: str, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a program, on the server of this run."""
    pytester.makepyfile(quotes=blocks("quotes.py"))
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\npythonpath = .")
    monkeypatch.setenv("RETOMA_TEST_SERVER", server)
    monkeypatch.delenv("PYTEST_RETOMA_HOME", raising=False)
    return pytester


@pytest.mark.timeout(600)
def test_the_test_of_the_guide_passes_as_it_stands_there(project: pytest.Pytester) -> None:
    project.makepyfile(test_app=blocks("test_app.py"))

    project.runpytest_subprocess("-q").assert_outcomes(passed=1)


@pytest.mark.timeout(600)
def test_each_test_has_an_empty_database_and_an_app_gets_its_own_back(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from quotes import Market, app, quote
        from retoma.testing import drain

        seen = set()

        async def test_one(retoma_app, retoma_database):
            seen.add(retoma_database)
            async with retoma_app(app):
                assert [job.id for job in [await app.enqueue(quote, ["a"])]] == [1]
                assert await drain(app) == 1

        async def test_two(retoma_app, retoma_database):
            assert app.settings.database_url not in seen
            seen.add(retoma_database)
            async with retoma_app(pipelines=[quote], providers={Market: Market()}) as fresh:
                assert (await fresh.enqueue(quote, ["a"])).id == 1

        async def test_three(retoma_app):
            assert len(seen) == 2
            try:
                retoma_app(app, pipelines=[quote])
            except TypeError as error:
                assert "either an app or these" in str(error)
        """
    )

    project.runpytest_subprocess("-q").assert_outcomes(passed=3)


@pytest.mark.timeout(600)
def test_without_a_server_one_is_started_and_leaves_nothing(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RETOMA_TEST_SERVER")
    project.makepyfile(
        """
        import os, pathlib, psycopg

        def test_one(retoma_database):
            with psycopg.connect(retoma_database) as connection:
                assert connection.execute("select count(*) from retoma.jobs").fetchone() == (0,)
            pathlib.Path("home").write_text(os.environ["PYTEST_RETOMA_HOME"])
        """
    )

    project.runpytest_subprocess("-q").assert_outcomes(passed=1)

    assert not Path((project.path / "home").read_text()).exists()


def test_the_plugin_imports_nothing_heavy() -> None:
    code = "import sys, retoma.testing.pytest_plugin; print([m for m in ('psycopg', 'pydantic') if m in sys.modules])"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout == "[]\n"
