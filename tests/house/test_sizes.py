"""A file fits in one reading. A module is cut by its subject, and these are only walls; we aim at 250 lines and 40."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
MODULES = sorted(SOURCE.rglob("*.py"))

LINES_OF_A_MODULE = 450
LINES_OF_A_FUNCTION = 60
LINES_OF_A_BLOCK = 120
LONG_BLOCKS = {
    "store/queries/shared.sql: reckon": "what jobs make of their batch and its last step is decided under one lock",
    "store/queries/batches.sql: evidence": "all the facts of a stall come from one snapshot",
    "store/queries/calls.sql: open": (
        "whether a call is answered, under way, in doubt, affordable and recorded is decided under the same locks;"
        " a crash between two statements could pay twice, or leave an intent that nobody makes"
    ),
}
"""Each with why it is not cut in two."""


def test_no_module_is_too_long() -> None:
    sizes = {module: len(module.read_text(encoding="utf-8").splitlines()) for module in MODULES}

    too_long = [f"{module.relative_to(SOURCE)}: {size}" for module, size in sizes.items() if size > LINES_OF_A_MODULE]

    assert sizes
    assert not too_long, "\n".join(too_long)


def test_no_function_is_too_long() -> None:
    sizes = {
        f"{module.relative_to(SOURCE)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    too_long = [f"{where}: {size}" for where, size in sizes.items() if size > LINES_OF_A_FUNCTION]

    assert sizes
    assert not too_long, "\n".join(too_long)


def test_a_block_of_sql_is_short_or_has_a_reason() -> None:
    sizes = {
        f"{file.relative_to(SOURCE / 'retoma')}: {found[1]}": len(found[0].rstrip().splitlines())
        for file in sorted(SOURCE.rglob("queries/*.sql"))
        for found in re.finditer(
            r"^-- name: (\w+)\n(?:(?!-- name: ).*\n)*", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    }

    too_long = {block: size for block, size in sizes.items() if size > LINES_OF_A_BLOCK}

    assert sizes
    assert set(too_long) == set(LONG_BLOCKS), "\n".join(f"{block}: {size}" for block, size in too_long.items())
