"""No pattern of ours takes longer than in proportion to its text, whatever the text."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hostile_texts import Grown, Words, texts

import retoma

pytestmark = pytest.mark.timeout(600)  # of a machine that is busy; what is measured is the time of this thread

ROOT = Path(retoma.__file__).parent
LENGTHS = (400, 1_500, 6_000)
SUSPECT_SECONDS = 0.001
"""Whoever takes so long for a text of these lengths is looked at more closely: how the time grows."""
LINEAR = 2.8
"""Twice the text takes twice the time, or four times where it grows by the square."""
STEEPER = 1.2
"""Four times the text takes 5.7 times the time or more where twice a long one takes LINEAR times its own."""

_WHOLE_TEXT = ("search", "finditer", "findall", "sub", "subn", "split")
_METHODS = ("match", "fullmatch", *_WHOLE_TEXT)


class Used(NamedTuple):
    """A pattern, and how it is put to a text."""

    where: str
    pattern: Words
    how: str

    def seconds(self, text: str | bytes) -> float:
        ask: Callable[[Any], Any] = getattr(self.pattern, self.how)
        begun = time.thread_time()
        found = ask(text)
        if self.how == "finditer":
            for _ in found:
                pass
        return time.thread_time() - begun


def modules() -> list[ModuleType]:
    """Every module of the package, but for the one that is a program."""
    names = [each.name for each in pkgutil.walk_packages([str(ROOT)], "retoma.")]
    left_out = ("__main__", ".migrations.env", ".migrations.versions.")
    return [importlib.import_module(name) for name in names if not any(each in name for each in left_out)]


def held(value: object, depth: int = 3) -> Iterator[Words]:
    """The patterns in *value*: itself, what it contains, what a class of ours keeps."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for each in value.values():
            yield from held(each, depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from held(each, depth - 1)
    elif depth and isinstance(value, type) and value.__module__.startswith("retoma"):
        for each in vars(value).values():
            yield from held(each, depth - 1)


class _Unknown(dict[str, Any]):
    """The names of a module; what only a function knows stands for any text."""

    def __missing__(self, name: str) -> str:
        return "x"


def written(module: ModuleType) -> Iterator[Used]:
    """The patterns that stand in calls such as ``re.sub(...)``."""
    source = Path(str(module.__file__))
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=how), args=[pattern, *_]) if how in (
                *_METHODS,
                "compile",
            ):
                given = eval(compile(ast.Expression(pattern), str(source), "eval"), {}, _Unknown(vars(module)))
                flags = [each for each in [*node.args[1:], *(word.value for word in node.keywords)] if _is_flags(each)]
                said = [eval(ast.unparse(each), {"re": re}) for each in flags]
                how = "finditer" if how in (*_WHOLE_TEXT, "compile") else how
                yield Used(f"{source.relative_to(ROOT)}:{node.lineno}", re.compile(given, *said), how)


def _is_flags(node: ast.expr) -> bool:
    return ast.unparse(node).startswith("re.") and "(" not in ast.unparse(node)


def ways(names: dict[int, set[str]], module: ModuleType) -> None:
    """Note how the patterns of *module* are used there, by the id of each."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    asked: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name) as named, attr=how) if how in _METHODS:
                known = vars(module).get(name)
                if isinstance(known, re.Pattern):
                    asked.add(id(named))
                    names.setdefault(id(known), set()).add("finditer" if how in _WHOLE_TEXT else how)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in asked:
            known = vars(module).get(node.id)
            if isinstance(known, re.Pattern):  # it is handed on: who knows how it is used there
                names.setdefault(id(known), set()).add("finditer")


@functools.cache
def used() -> list[Used]:
    """Every pattern of the package with every way it is used."""
    found: dict[tuple[Any, int, str], Used] = {}
    all_modules = modules()
    how: dict[int, set[str]] = {}
    for module in all_modules:
        ways(how, module)
    for module in all_modules:
        for name, value in vars(module).items():
            for pattern in held(value):
                for each in sorted(how.get(id(pattern), {"finditer"})):
                    where = f"{Path(str(module.__file__)).relative_to(ROOT)} {name}"
                    found.setdefault((pattern.pattern, pattern.flags, each), Used(where, pattern, each))
    compiled = {(pattern, flags) for pattern, flags, _ in found}
    for module in all_modules:
        for each in written(module):
            key = (each.pattern.pattern, each.pattern.flags, each.how)
            if each.how != "finditer" or key[:2] not in compiled:
                found.setdefault(key, each)
    return list(found.values())


def grows(one: Used, text: Grown) -> bool:
    """Whether *one* takes more than its part of the time for twice the text, and again for twice that, twice over."""
    before = 0.0  # how long each character of the text before this one took
    for length in LENGTHS:
        taken = one.seconds(text(length))
        # A text that takes no longer for each character than a shorter one did is not looked at more closely.
        if taken > SUSPECT_SECONDS and taken / length > STEEPER * before:
            return all(_ratio(one, text, length * times) > LINEAR for _ in range(2) for times in (1, 2))
        before = taken / length
    return False


def _ratio(one: Used, text: Grown, length: int) -> float:
    short, long = text(length), text(2 * length)
    of_short = max(min(one.seconds(short) for _ in range(3)), 1e-6)
    ratio = float("inf")
    for _ in range(3):
        # What else the machine does can only make it longer: one that is short enough is the truth.
        ratio = min(ratio, one.seconds(long) / of_short)
        if ratio <= LINEAR:
            break
    return ratio


FILES = sorted(str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if re.search(r"\bre\.", file.read_text()))


@pytest.mark.parametrize("file", FILES)
def test_a_pattern_takes_time_in_proportion_to_its_text(file: str) -> None:
    mine = [one for one in used() if re.split("[ :]", one.where)[0] == file]

    slow = [
        f"{one.where}, by {one.how}: {one.pattern.pattern!r} takes the square of its text, or more: {text.__doc__}"
        for one in mine
        for text in itertools.islice((text for text in texts(one.pattern) if grows(one, text)), 1)
    ]

    assert slow == []


@pytest.mark.parametrize(
    ("written", "how"),
    [
        (r"[ \t]+\n", "finditer"),
        (r"^- (?P<rest>\S.*?)[ \t]*$", "match"),
        (r"^```labels[ \t]*\n(.*?)^```$", "finditer"),
        (r"<(p|div)>.*</\1\s*>", "finditer"),
        (r"(\.{3,}|\s{3,})\s*\d+\s*$", "match"),
        (r"(?:a|a?b)*c", "finditer"),
        (r"stream <[^>]*>", "finditer"),
        (r"charset\s*=\s*[\"']?\s*(\w)", "match"),
    ],
)
def test_a_pattern_that_takes_longer_is_found_out(written: str, how: str) -> None:
    one = Used("here", re.compile(written, re.DOTALL | re.MULTILINE), how)

    assert any(grows(one, text) for text in texts(one.pattern))


def test_every_pattern_is_looked_at() -> None:
    found = used()
    where = {re.split("[ :]", one.where)[0] for one in found}

    # Patterns of a module, of a dictionary, of a call within a function, and of bytes.
    assert {
        "pipelines/documents/chunking.py",
        "providers/local/kinds.py",
        "cli/params.py",
        "web/server/server.py",
    } <= where
    assert where <= set(FILES)
