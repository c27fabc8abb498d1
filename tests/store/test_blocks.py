"""Every block of the SQL room has the class that proves it, in the file of its noun."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src/retoma"
ROOMS = [SOURCE / "store/queries", *sorted((SOURCE / "pipelines").glob("**/queries"))]
QUERIES = sorted(file for room in ROOMS for file in room.glob("*.sql") if file.stem != "shared")


@pytest.mark.parametrize("queries", QUERIES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_each_block_has_a_class_of_its_name(queries: Path) -> None:
    blocks = re.findall(r"^-- name: (\w+)", queries.read_text(encoding="utf-8"), re.MULTILINE)
    tests = HERE.parent / queries.relative_to(SOURCE).parents[1]
    modules = [*tests.glob(f"test_{queries.stem}.py"), *tests.glob(f"test_{queries.stem}_*.py")]
    classes = {
        node.name
        for module in modules
        for node in ast.parse(module.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }

    missing = [block for block in blocks if "Test" + block.title().replace("_", "") not in classes]

    assert blocks
    assert not missing
