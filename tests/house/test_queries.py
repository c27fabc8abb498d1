"""The SQL room: every block has its function, every function its block, and PostgreSQL accepts them all."""

import ast
import re
from collections import Counter
from pathlib import Path

import psycopg

from retoma.query import load, numbered

SOURCE = Path(__file__).parents[2] / "src"
SHARED = sorted(SOURCE.glob("retoma/**/queries/shared.sql"))
FILES = sorted(set(SOURCE.glob("retoma/**/queries/*.sql")) - set(SHARED))


def short(file: Path) -> str:
    return str(file.relative_to(SOURCE))


def blocks(file: Path) -> list[str]:
    return re.findall(r"^-- name: (.*?)\s*$", file.read_text(encoding="utf-8"), re.MULTILINE)


def uses(module: Path) -> list[tuple[str, str]]:
    """Every ``SQL["block"]`` of *module*, as (function around it, block)."""
    found: list[tuple[str, str]] = []

    def visit(node: ast.AST, function: str) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not function:
                function = node.name
            case ast.Subscript(value=ast.Name(id="SQL"), slice=ast.Constant(value=str(block))):
                found.append((function or "(no function)", block))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(module.read_text(encoding="utf-8")), "")
    return found


def test_there_are_queries_to_look_after() -> None:
    assert FILES, "No .sql file was found under src/retoma/**/queries; has the room moved?"


def test_each_file_of_queries_has_the_module_of_its_name() -> None:
    alone = [short(file) for file in FILES if not (file.parents[1] / f"{file.stem}.py").is_file()]

    assert not alone


def test_each_shared_part_is_used_by_several_statements() -> None:
    for shared in SHARED:
        texts = [file.read_text(encoding="utf-8") for file in shared.parent.glob("*.sql")]
        used = Counter(name for text in texts for name in re.findall(r"^-- include: ([a-z_]+)$", text, re.MULTILINE))

        assert set(used) == set(blocks(shared))
        assert min(used.values()) > 1


def test_a_block_name_is_plain_and_used_once_in_its_file() -> None:
    # load() keeps the last of two blocks with one name, and takes a name it cannot read for SQL.
    wrong = [
        f"{short(file)}: {name}"
        for file in FILES
        for name, times in Counter(blocks(file)).items()
        if times > 1 or not re.fullmatch(r"[a-z_]+", name)
    ]

    assert not wrong


def test_each_block_has_one_function_of_its_name_and_each_function_its_block() -> None:
    complaints = []
    for file in FILES:
        module = file.parents[1] / f"{file.stem}.py"
        if not module.is_file():
            continue
        used = uses(module)
        functions = Counter(block for _, block in set(used))
        complaints += [f"{short(file)}: {name} has no function" for name in blocks(file) if not functions[name]]
        complaints += [
            f"{short(module)}: {function} uses the block {block}" for function, block in used if function != block
        ]
        complaints += [
            f"{short(module)}: {block} is not in {file.name}" for block in functions if block not in blocks(file)
        ]

    assert not complaints, "\n".join(complaints)


def test_postgresql_prepares_every_block(database_url: str) -> None:
    refused = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        for file in FILES:
            package = ".".join(file.parent.relative_to(SOURCE).parts)
            for name, sql in load(package, file.name).items():
                text, _ = numbered(sql)
                try:
                    connection.execute(f"prepare checked as {text.rstrip().removesuffix(';')}")
                    connection.execute("deallocate checked")
                except psycopg.Error as error:
                    refused.append(f"{short(file)}: {name}: {error.diag.message_primary or error}")

    assert not refused, "\n".join(refused)
