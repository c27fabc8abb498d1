"""The lock files hold what pyproject.toml asks for, with hashes; the demo gets what the tests tested."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

RUN = [
    *PROJECT["project"]["dependencies"],
    *PROJECT["project"]["optional-dependencies"]["embedded"],
    *PROJECT["build-system"]["requires"],
]
ALL = [*RUN, *(each for group in PROJECT["dependency-groups"].values() for each in group)]


def locked(file: str) -> dict[str, Version]:
    text = (ROOT / file).read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all("--hash=sha256:" in entry for entry in entries)
    pins = [re.match(r"([\w.-]+)(?:\[.*\])?==([^\s;]+)", entry) for entry in entries]
    return {canonicalize_name(pin[1]): Version(pin[2]) for pin in pins if pin}


@pytest.mark.parametrize(("file", "wanted"), [("requirements.lock", ALL), ("requirements-demo.lock", RUN)])
def test_a_lock_holds_what_is_asked_for(file: str, wanted: list[str]) -> None:
    pins = locked(file)
    requirements = [Requirement(each) for each in wanted]

    missing = [str(each) for each in requirements if canonicalize_name(each.name) not in pins]
    old = [str(each) for each in requirements if pins.get(canonicalize_name(each.name)) not in each.specifier]

    assert not missing, "Try: make lock"
    assert not old, "Try: make lock"


def test_the_demo_runs_on_the_versions_that_were_tested() -> None:
    tested = locked("requirements.lock")

    assert locked("requirements-demo.lock").items() <= tested.items()
