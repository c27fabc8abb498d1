"""A user's program is found by module:attribute, and named so that another process finds it too."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retoma import Retoma
from retoma.app.loader import find_app
from retoma.errors import AppNotFound, ConfigurationError
from retoma.worker.loader import find_program, reference_to

PROGRAM = """
from retoma import Retoma, Run, pipeline

@pipeline("double")
async def double(number: int, run: Run) -> int:
    return 2 * number

app = Retoma(pipelines=[double])

class Inner:
    app = app

not_an_app = 3
"""


@pytest.fixture
def program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], str]]:
    """Writes a module of a name of its own into the current folder; the name is given back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def write(text: str = PROGRAM) -> str:
        name = f"program_{abs(hash(request.node.name)) % 10**9}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("program_"):
            del sys.modules[name]


def test_an_app_is_found_by_module_and_attribute(program: Callable[[], str]) -> None:
    name = program()

    app = find_app(f"{name}:app")
    assert list(app.registry.own) == ["double"]
    assert find_app(f"{name}:Inner.app") is app


def test_an_app_is_found_by_file_and_attribute(program: Callable[[], str], tmp_path: Path) -> None:
    name = program()

    assert find_app(f"{tmp_path / name}.py:app") is find_app(f"{name}.py:app")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("app", "does not say where the app is"),
        (":app", "does not say where the app is"),
        ("module:", "does not say where the app is"),
        ("no_such_module:app", "There is no module 'no_such_module'"),
        ("no/such/file.py:app", "There is no file no/such/file.py"),
    ],
)
def test_a_reference_that_leads_nowhere_is_told(reference: str, words: str) -> None:
    with pytest.raises(AppNotFound, match=words) as caught:
        find_app(reference)

    assert "module:attribute" in caught.value.next


def test_who_has_no_program_is_told_to_leave_it_out() -> None:
    with pytest.raises(AppNotFound) as caught:
        find_app("myapp:app")  # as commands write it that advise to start a worker

    assert "for the ready pipelines leave --app out" in caught.value.next


def test_what_is_not_an_app_is_told_with_what_there_is(program: Callable[[], str]) -> None:
    name = program()
    for attribute in ("not_an_app", "missing"):
        with pytest.raises(AppNotFound, match="is not a Retoma app") as caught:
            find_app(f"{name}:{attribute}")
        assert "app" in caught.value.message.partition("there is:")[2]


def test_an_app_without_await_works_and_is_not_commanded(program: Callable[[str], str]) -> None:
    name = program("from retoma.sync import Retoma\napp = Retoma()")

    assert find_program(f"{name}:app").registry.own == []
    with pytest.raises(AppNotFound, match=r"is a retoma\.sync\.retoma\.Retoma, and not a retoma\.Retoma"):
        find_app(f"{name}:app")


def test_a_program_that_cannot_be_imported_is_told_with_its_reason(program: Callable[[str], str]) -> None:
    with pytest.raises(AppNotFound, match="failed with ZeroDivisionError: division by zero"):
        find_app(f"{program('1 / 0')}:app")


def test_the_reason_of_a_program_that_cannot_be_imported_ends_with_one_full_stop(program: Callable[[str], str]) -> None:
    name = program("raise ValueError('It is closed.')")

    with pytest.raises(AppNotFound) as caught:
        find_app(f"{name}:app")

    assert caught.value.message.endswith("failed with ValueError: It is closed.")
    assert caught.value.next == "Correct that, and try again."


def test_a_program_that_needs_what_is_not_installed_is_told_what(program: Callable[[str], str]) -> None:
    with pytest.raises(AppNotFound, match="needs 'not_installed_here'"):
        find_app(f"{program('import not_installed_here')}:app")


def test_an_app_in_a_modules_global_can_be_named(program: Callable[[], str]) -> None:
    name = program()
    app = find_app(f"{name}:app")

    assert reference_to(app) == f"{name}:app"


def test_an_app_that_nobody_holds_cannot_be_named() -> None:
    with pytest.raises(ConfigurationError, match="cannot find this app") as caught:
        reference_to(Retoma())

    assert "module's global" in caught.value.next


def test_an_app_in_the_program_that_was_started_is_named_by_its_file(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    name = program(PROGRAM + "\nfrom retoma.worker.loader import reference_to\nprint(reference_to(app))\n")
    ran = subprocess.run(
        [sys.executable, f"{name}.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30
    )

    assert ran.stdout.strip().endswith(f"{name}.py:app")
