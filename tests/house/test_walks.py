"""The walks of docs/walks.md: every name in them exists, and the figures under the tables are counted."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/retoma"
PAGE = (ROOT / "docs/walks.md").read_text(encoding="utf-8")
WALKS = {title: text for title, _, text in (part.partition("\n") for part in PAGE.split("\n## ")[1:])}
STEP = re.compile(r"(↩ )?`([a-z_/]+)\.(\w+)`")


def _steps(walk: str) -> list[tuple[str, str, str]]:
    rows = [line.split(" | ")[0] for line in walk.splitlines() if line.startswith(("| `", "| ↩"))]
    return [found.groups(default="") for row in rows for found in STEP.finditer(row)]  # type: ignore[misc]


@cache
def _defined(module: str) -> set[str]:
    file = SOURCE / f"{module}.py"
    text = (file if file.exists() else SOURCE / module / "__init__.py").read_text(encoding="utf-8")
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {each.name for each in ast.walk(ast.parse(text)) if isinstance(each, kinds)}


def test_there_are_four_walks() -> None:
    assert len(WALKS) == 4
    assert all(_steps(walk) for walk in WALKS.values())


@pytest.mark.parametrize("title", WALKS)
def test_every_place_of_a_walk_exists(title: str) -> None:
    missing = [f"{module}.{name}" for _, module, name in _steps(WALKS[title]) if name not in _defined(module)]

    assert missing == []


@pytest.mark.parametrize("title", WALKS)
def test_the_figures_of_a_walk_are_counted(title: str) -> None:
    visited: list[str] = []
    marked, returns = 0, 0
    for mark, module, _ in _steps(WALKS[title]):
        if visited[-1:] != [module]:
            back = visited[-2:-1] == [module]
            assert bool(mark) == back, f"a return to {module} is marked with ↩, and nothing else is"
            returns += back
            visited.append(module)
        marked += bool(mark)

    assert marked == returns
    told = f"{len(visited) - 1} hops, {len(set(visited))} modules, {returns} return{'' if returns == 1 else 's'}."
    assert f"**{told}**" in WALKS[title], told
