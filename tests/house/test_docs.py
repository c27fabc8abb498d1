"""The reference keeps up with the code: every event, table, column, public name and signature is on its page.

A block opened as ```` ```python program ```` is run here: saved under the name in its first line and started as a
file, because a child process finds an isolated function by the file of its module. The blocks of a page share one
empty folder and one fresh database, as those marked ``run`` do (test_markdown).
"""

import dataclasses
import inspect
import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import programs
import psycopg
import pytest

import retoma
import retoma.testing
from retoma import errors
from retoma.app.batches import Batches
from retoma.app.calls import Calls
from retoma.app.jobs import Jobs
from retoma.app.queues import Queues
from retoma.app.schedules import Schedules
from retoma.app.system import System
from retoma.app.workers import Workers
from retoma.telemetry import events

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"


def read(page: str) -> str:
    return (REFERENCE / page).read_text(encoding="utf-8")


def flat(text: str) -> str:
    """*text* on one line, so that a signature may be broken where the page likes."""
    return re.sub(r"\s+", " ", text)


def spoken(function: Callable[..., Any]) -> str:
    """A signature as the page writes it: without self, and without quotes around annotations."""
    text = str(inspect.signature(function))
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"<class '(\w+)'>", r"\1", text)
    return re.sub(r"^\(self(, )?", "(", text)


# — events.md —

EVENTS = [each for each in vars(events).values() if isinstance(each, type) and issubclass(each, events.Event)]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_an_event_is_in_the_reference_with_its_fields(event: type[events.Event]) -> None:
    page = read("events.md")
    own = {field.name for field in dataclasses.fields(event)}
    for root in (events.JobEvent, events.CallEvent):
        if event is not root and issubclass(event, root):
            own -= {field.name for field in dataclasses.fields(root)}
    if event in (events.Event, events.JobEvent, events.FrequentEvent, events.CallEvent):
        assert f"`{event.__name__}`" in page
        told = page
    else:
        rows = [line for line in page.splitlines() if line.startswith(f"| `{event.__name__}` ")]
        assert len(rows) == 1, f"{event.__name__} should have one row in docs/reference/events.md"
        (told,) = rows
        assert f"| `{event.title()}` | {event.weight} |" in told

    assert [name for name in sorted(own) if f"`{name}`" not in told] == []


# — tables.md —


def columns_told(page: str) -> set[tuple[str, str]]:
    """(table, column) of every row, by the heading above it."""
    found = set()
    table = ""
    for line in page.splitlines():
        if heading := re.match(r"## (\w+)", line):
            table = heading[1]
        elif row := re.match(r"\| `(\w+)` \| \S", line):
            found.add((table, row[1]))
    return found


def test_every_column_of_every_table_is_in_the_reference_and_no_other(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        there = set(
            connection.execute(
                "select table_name, column_name from information_schema.columns where table_schema = 'retoma'"
            ).fetchall()
        )

    assert there
    assert there - columns_told(read("tables.md")) == set(), "these are not explained"
    assert columns_told(read("tables.md")) - there == set(), "these are not there"


# — api.md —


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_") and inspect.isfunction(value)}


@pytest.mark.parametrize("name", retoma.__all__)
def test_a_public_name_is_in_the_api(name: str) -> None:
    assert re.search(rf"`{name}`|^## .*\b{name}\b", read("api.md"), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in methods(retoma.Retoma) if name != "transaction"])
def test_a_method_of_the_front_door_is_in_the_api_with_its_signature(name: str) -> None:
    function = methods(retoma.Retoma)[name]
    awaited = "await " if inspect.iscoroutinefunction(function) else ""

    assert f"{awaited}app.{name}{spoken(function)}" in flat(read("api.md"))


NAMESPACES = (Batches, Calls, Jobs, Queues, Schedules, System, Workers)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [(each, name) for each in NAMESPACES for name in methods(each)],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_method_of_a_namespace_is_in_the_api_with_its_signature(namespace: type, name: str) -> None:
    function = methods(namespace)[name]
    awaited = "await " if inspect.iscoroutinefunction(function) else ""

    assert f"{awaited}app.{namespace.__name__.lower()}.{name}{spoken(function)}" in flat(read("api.md"))


@pytest.mark.parametrize("name", [name for name in retoma.testing.__all__ if name != "Rehearsal"])
def test_a_word_of_the_testing_kit_is_in_the_api_with_its_signature(name: str) -> None:
    assert f"await {name}{spoken(getattr(retoma.testing, name))}" in flat(read("api.md"))


@pytest.mark.parametrize(
    ("name", "maker"),
    [
        ("Retoma", retoma.Retoma.__init__),
        ("Postpone", retoma.Postpone.__init__),
        ("Review", retoma.Review.__init__),
        ("isolated", retoma.isolated),
        ("fingerprint", retoma.fingerprint),
    ],
)
def test_how_a_thing_is_made_is_in_the_api(name: str, maker: Callable[..., Any]) -> None:
    asked, _, given = spoken(maker).rpartition(" -> ")

    assert f"{name}{asked}" in flat(read("api.md")) or f"{name}{asked} -> {given}" in flat(read("api.md"))


@pytest.mark.parametrize("maker", [retoma.pipeline, retoma.Retry], ids=["pipeline", "Retry"])
def test_every_argument_and_its_default_are_in_the_api(maker: Callable[..., Any]) -> None:
    page = flat(read("api.md"))
    name = re.escape(getattr(maker, "__name__", ""))
    (asked,) = re.findall(rf"``` {name}\((.*?)\)(?: ->.*?)? ```", page)

    for parameter in inspect.signature(maker).parameters.values():
        default = parameter.default
        if isinstance(default, retoma.Retry):
            said = "Retry()"
        elif isinstance(default, tuple):
            said = "(Exception,)" if default else "()"
        else:
            said = repr(default)
        assert re.search(
            rf"\b{parameter.name}: .*?" + ("" if default is parameter.empty else re.escape(f"= {said}")), asked
        ), f"{parameter.name} = {said}"


@pytest.mark.parametrize("run", [retoma.Run, retoma.SyncRun])
def test_every_word_of_a_run_is_in_the_api(run: type) -> None:
    page = read("api.md")
    words = [name for kind in run.__mro__ for name in vars(kind) if not name.startswith("_")]

    assert words
    assert [name for name in words if not re.search(rf"^{name}\(|\| `{name}: ", page, re.MULTILINE)] == []


VALUES = [retoma.Attempt, retoma.Checkpoint, retoma.Job, retoma.Metrics, retoma.Presence, retoma.Queue]
VALUES += [retoma.Receipt, retoma.Schedule]


@pytest.mark.parametrize("value", VALUES)
def test_every_field_of_a_value_is_in_the_api(value: type) -> None:
    page = read("api.md")
    told = page[page.index(f"**`{value.__name__}`**") :]
    told = re.split(r"\n\*\*`|\n## ", told)[0]

    assert [field.name for field in dataclasses.fields(value) if f"`{field.name}`" not in told] == []


def test_every_error_is_in_the_api() -> None:
    page = read("api.md")
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]

    assert [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in page] == []


# — programs in pages —

PROGRAM = re.compile(r"^```python program\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {
    page: [textwrap.dedent(text) for text in PROGRAM.findall(page.read_text(encoding="utf-8"))]
    for page in sorted((ROOT / "docs").rglob("*.md"))
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page", [page for page in PROGRAMS if PROGRAMS[page]], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_programs_of_a_page_run(page: Path, tmp_path: Path, database_url: str) -> None:
    env = {**os.environ, "DATABASE_URL": database_url, "RETOMA_HOME": str(tmp_path / ".retoma")}
    env.pop("RETOMA_TOKEN", None)  # pages are for those who have set nothing
    for number, text in enumerate(PROGRAMS[page]):
        named = re.match(r"# ([a-z_]+\.py)\s*$", text.partition("\n")[0])
        program = tmp_path / (named[1] if named else f"program_{number}.py")
        program.write_text(text, encoding="utf-8")
        ran = programs.run([str(program)], folder=tmp_path, environment=env, timeout=120)

        assert ran.returncode == 0, f"{page.relative_to(ROOT)}\n{ran.stdout}{ran.stderr}"
