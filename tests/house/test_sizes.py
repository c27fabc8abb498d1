"""A file fits in one reading. We aim at 250 lines and 40; these are the walls."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
MODULES = sorted(SOURCE.rglob("*.py"))

LINES_OF_A_MODULE = 350
LINES_OF_A_FUNCTION = 60


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
