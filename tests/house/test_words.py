"""One word, one meaning: what the glossary rules out is in no name of ours."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

RULED_OUT = {
    "task",
    "workflow",
    "item",
    "entity",
    "activity",
    "consumer",
    "dequeue",
    "stuck",
    "zombie",
    "orphan",
}
RULED_OUT |= {"rescue", "reaper", "snooze", "discard", "manager", "helper", "util", "common", "misc"}

# Names that hold such a word and are right all the same, each with its reason.
ALLOWED = {
    "create_task": "asyncio's own",
    "TaskGroup": "asyncio's own",
    "stuckJobCount": "one of the seven figures of a worker, as its users have always called it",
    "stuck_job_count": "the same figure, as Python writes it",
}


def words(name: str) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)


def ruled_out(name: str) -> bool:
    if name in ALLOWED:
        return False
    spoken = {word.lower() for word in words(name)}
    singular = {re.sub(r"ies$", "y", word).removesuffix("s") for word in spoken}
    return bool(RULED_OUT & (spoken | singular))


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names that a reader meets: functions, classes, arguments, fields, constants, ``as`` names."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
        if isinstance(node, ast.ClassDef | ast.Module):
            for each in node.body:
                targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
                yield from ((each.lineno, target.id) for target in targets if isinstance(target, ast.Name))


def test_the_words_are_told_apart() -> None:
    assert [name for name in ("run_task", "TaskBoard", "lastItems", "activities", "isStuck") if ruled_out(name)]
    assert not [name for name in ("multitasking", "itemize", "stuckJobCount", "commonly") if ruled_out(name)]
    assert [name for _, name in names(ast.parse("class A:\n  x: int\n  def f(self, b): self.c = 1"))] == [
        "A", "x", "f", "self", "b", "c",
    ]  # fmt: skip


def test_no_module_or_folder_is_called_so() -> None:
    called = [str(path.relative_to(ROOT)) for path in SOURCE.rglob("*") if ruled_out(path.stem)]

    assert not called


def test_no_name_in_the_source_is_called_so() -> None:
    called = [
        f"{module.relative_to(ROOT)}:{line} {name}"
        for module in sorted(SOURCE.rglob("*.py"))
        for line, name in names(ast.parse(module.read_text(encoding="utf-8")))
        if ruled_out(name)
    ]

    assert not called, "\n".join(called)


def test_no_query_is_called_so() -> None:
    called = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted(SOURCE.rglob("queries/*.sql"))
        for name in re.findall(r"^-- name: (\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        if ruled_out(name)
    ]

    assert not called, "\n".join(called)


def test_no_table_or_column_is_called_so(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select table_name, column_name from information_schema.columns where table_schema = 'retoma'"
        ).fetchall()

    assert rows, "The migrated database has no table in schema retoma"
    assert not [f"{table}.{column}" for table, column in rows if ruled_out(table) or ruled_out(column)]
