"""CONTRIBUTING.md keeps up: it names every command and every folder of tests, and the files that it names are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_command_of_the_makefile_is_told_and_no_other() -> None:
    offered = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    told = set(re.findall(r"^\| `make ([a-z]+)` \|", PAGE, re.MULTILINE))

    assert told == offered - {"help"}


def test_every_folder_of_tests_is_told_and_no_other() -> None:
    there = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    told = set(re.findall(r"^\| `tests/([a-z]+)` \|", PAGE, re.MULTILINE))

    assert told == there


def test_every_file_that_it_names_is_there() -> None:
    named = re.findall(r"`((?:[a-z]+/)*[a-z_]+\.(?:py|toml|md|sql))`", PAGE)
    roots = (ROOT, ROOT / "src/retoma", ROOT / "src/retoma/pipelines/documents", ROOT / "tests", ROOT / "tests/typing")

    assert named
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []
