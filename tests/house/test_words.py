"""A name says what it names: words that could name anything are in no name of ours."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

# They could name any module. The words of the field (task, poll, lock, retry, …) say something, and are free.
SAYS_NOTHING = {"manager", "helper", "util", "common", "misc"}

# What callers have in their programs already, and import under this name.
GIVEN = {"CheckpointManager", "AsyncCheckpointManager"}


def words(name: str) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)


def says_nothing(name: str) -> bool:
    spoken = {word.lower() for word in words(name)}
    return bool(SAYS_NOTHING & (spoken | {word.removesuffix("s") for word in spoken}))


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
    assert all(says_nothing(name) for name in ("run_helper", "JobManager", "someUtils"))
    assert not [name for name in ("commonly", "TaskGroup", "poll_locks", "utilise") if says_nothing(name)]
    assert [name for _, name in names(ast.parse("class A:\n  x: int\n  def f(self, b): self.c = 1"))] == [
        "A", "x", "f", "self", "b", "c",
    ]  # fmt: skip


def test_no_module_or_folder_says_nothing() -> None:
    called = [str(path.relative_to(ROOT)) for path in SOURCE.rglob("*") if says_nothing(path.stem)]

    assert not called


def test_no_name_in_the_source_says_nothing() -> None:
    called = [
        f"{module.relative_to(ROOT)}:{line} {name}"
        for module in sorted(SOURCE.rglob("*.py"))
        for line, name in names(ast.parse(module.read_text(encoding="utf-8")))
        if says_nothing(name) and name not in GIVEN
    ]

    assert not called, "\n".join(called)


def test_no_query_says_nothing() -> None:
    called = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted(SOURCE.rglob("queries/*.sql"))
        for name in re.findall(r"^-- name: (\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        if says_nothing(name)
    ]

    assert not called, "\n".join(called)


def test_no_table_or_column_says_nothing(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select table_name, column_name from information_schema.columns where table_schema = 'retoma'"
        ).fetchall()

    assert rows, "The migrated database has no table in schema retoma"
    assert not [f"{table}.{column}" for table, column in rows if says_nothing(table) or says_nothing(column)]


def test_only_one_module_knows_by_what_names_other_programs_call_things() -> None:
    foreign = re.compile(r"\bseeds?_names\b|\bas_seed\b|\bthe seed\b|scale-out document|\bJOB_[A-Z_]+_MS\"")
    speaking = [
        str(module.relative_to(SOURCE))
        for module in SOURCE.rglob("*.py")
        if foreign.search(module.read_text(encoding="utf-8"))
    ]

    assert speaking == ["retoma/model/compat.py"]
