"""The SQL room: every block has its function, every function its block, and PostgreSQL accepts them all."""

import ast
import importlib
import inspect
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import psycopg
from psycopg.pq import ExecStatus

from retoma.store.query import load, numbered

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


class Row(NamedTuple):
    """What a row of a block becomes: the names of its parts, and how many of them must be there."""

    names: list[str]
    needed: int


def rows_of(module: Path) -> dict[str, list[Row]]:
    """What each ``Query(SQL["block"], row)`` of *module* makes of its rows; those that take one value are left out."""
    loaded = importlib.import_module(".".join(module.with_suffix("").relative_to(SOURCE).parts))
    found: dict[str, list[Row]] = {}
    for function in ast.parse(module.read_text(encoding="utf-8")).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        inner = {each.name: each for each in ast.walk(function) if isinstance(each, ast.FunctionDef)}
        for node in ast.walk(function):
            match node:
                case ast.Call(
                    func=ast.Name(id="Query"), args=[ast.Subscript(slice=ast.Constant(value=str(block))), row, *_]
                ):
                    found.setdefault(block, []).append(_row(loaded, inner, row))
    return found


def _row(module: ModuleType, inner: dict[str, ast.FunctionDef], row: ast.expr) -> Row:
    match row:
        case ast.Lambda(args=args):
            names = [each.arg for each in args.args]
            return Row(names, len(names))
        case ast.Name(id=name) if name in inner:
            names = [each.arg for each in inner[name].args.args]
            return Row(names, len(names) - len(inner[name].args.defaults))
        case ast.Name(id=name):
            made = getattr(module, name, None)
            if made is None or not callable(made):
                return Row([], 1)  # a type of one value, such as int
            taken = list(inspect.signature(made).parameters.values())
            named = [each for each in taken if each.kind is each.POSITIONAL_OR_KEYWORD]
            return Row([each.name for each in named], sum(each.default is each.empty for each in named))
    raise AssertionError(f"What a row becomes is a name or a lambda, not {ast.unparse(row)}.")


def test_the_columns_of_every_block_are_called_as_the_fields_they_become(database_url: str) -> None:
    """Rows become values by position, so a column in the wrong place would be a wrong value without an error."""
    wrong, compared = [], 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        for file in FILES:
            known = rows_of(file.parents[1] / f"{file.stem}.py")
            for name, sql in load(".".join(file.parent.relative_to(SOURCE).parts), file.name).items():
                connection.pgconn.prepare(b"", numbered(sql)[0].encode())
                told = connection.pgconn.describe_prepared(b"")
                columns = [(told.fname(place) or b"").decode() for place in range(told.nfields)]
                for row in known.get(name, ()):
                    if len(columns) < 2 or len(row.names) < 2:
                        continue
                    compared += 1
                    fields = [each.strip("_") for each in row.names]
                    if columns[: len(fields)] != fields[: len(columns)] or len(columns) < row.needed:
                        wrong.append(f"{short(file)}: {name}: {columns} become {fields}")

    assert compared > 100
    assert not wrong, "\n".join(wrong)


def test_postgresql_prepares_every_block(database_url: str) -> None:
    refused = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        for file in FILES:
            package = ".".join(file.parent.relative_to(SOURCE).parts)
            for name, sql in load(package, file.name).items():
                told = connection.pgconn.prepare(b"", numbered(sql)[0].encode())
                if told.status != ExecStatus.COMMAND_OK:
                    refused.append(f"{short(file)}: {name}: {told.error_message.decode()}")

    assert not refused, "\n".join(refused)
