"""The ledger: every requirement has its row, and every test that a page names exists."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "docs/ledger.md"

# How many requirements each of the five documents has, and how many digits their numbers have.
RANGES = {"S0": (82, 2), "S1": (100, 3), "S2": (120, 3), "S3": (82, 2), "S4": (52, 2)}
EXPECTED = [f"{seed}-{number:0{digits}d}" for seed, (count, digits) in RANGES.items() for number in range(1, count + 1)]
AREAS = "batches|providers|documents|classification|quotes|books|console|observability"

ROW = re.compile(r"^\| (S\d-\d+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"tests/[\w/]+\.py::[\w:]+")


def rows() -> list[tuple[str, str, str]]:
    return [(id, asked.strip(), shown.strip()) for id, asked, shown in ROW.findall(LEDGER.read_text(encoding="utf-8"))]


@cache
def told_by(file: Path) -> frozenset[str]:
    """Every test of *file*, those in a class as ``Class::test``."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        above = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            f"{above}{each.name}"
            for each in inside
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test")
        }
    return frozenset(found)


def exists(reference: str) -> bool:
    file, _, name = reference.partition("::")
    return (ROOT / file).is_file() and name in told_by(ROOT / file)


def test_there_are_436_requirements() -> None:
    assert len(EXPECTED) == 436
    assert (EXPECTED[0], EXPECTED[-1]) == ("S0-01", "S4-52")


def test_each_requirement_has_one_row_in_order() -> None:
    ids = [id for id, _, _ in rows()]

    assert [id for id, times in Counter(ids).items() if times > 1] == []
    assert set(EXPECTED) - set(ids) == set()
    assert ids == EXPECTED


def test_a_row_says_what_is_asked_and_what_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [
        id
        for id, asked, shown in rows()
        if not asked
        or not (
            re.fullmatch(rf"later: ({AREAS})", shown)
            or shown == "missing"
            or re.fullmatch(rf"`{TEST.pattern}`(, `{TEST.pattern}`)*", shown)
        )
    ]
    later = Counter(shown for _, _, shown in rows() if shown.startswith("later"))
    missing = [id for id, _, shown in rows() if shown == "missing"]
    with capsys.disabled():
        print(f"\nledger: {later.total()} of {len(EXPECTED)} rows come later, {len(missing)} are missing {missing}")  # noqa: T201

    assert wrong == []


def test_a_test_that_is_not_there_is_noticed() -> None:
    assert exists("tests/house/test_ledger.py::test_a_test_that_is_not_there_is_noticed")
    assert not exists("tests/house/test_ledger.py::test_something_else")
    assert not exists("tests/nowhere.py::test_something")
    assert not exists("tests/store/test_jobs.py::test_atomic_claim_works"), "it is in a class, which must be named"


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]


@pytest.mark.parametrize(
    "page",
    [page for page in sorted(PAGES) if TEST.search(page.read_text(encoding="utf-8"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = sorted(set(TEST.findall(page.read_text(encoding="utf-8"))))

    assert [each for each in named if not exists(each)] == []
