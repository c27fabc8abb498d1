"""Every block of the SQL room has the class that proves it, in the file of its noun."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
QUERIES = sorted(file for file in (HERE.parents[1] / "src/retoma/store/queries").glob("*.sql") if file.stem != "shared")


@pytest.mark.parametrize("queries", QUERIES, ids=lambda file: file.stem)
def test_each_block_has_a_class_of_its_name(queries: Path) -> None:
    blocks = re.findall(r"^-- name: (\w+)", queries.read_text(encoding="utf-8"), re.MULTILINE)
    module = HERE / f"test_{queries.stem}.py"
    classes = {
        node.name for node in ast.parse(module.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
    }

    missing = [block for block in blocks if "Test" + block.title().replace("_", "") not in classes]

    assert blocks
    assert not missing
