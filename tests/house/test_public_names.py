"""One list says what is public: sorted, complete, explained. Another one says it of the modules."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import retoma

DOCS = Path(__file__).parents[2] / "docs"


def test_the_list_is_sorted_and_has_nothing_twice() -> None:
    assert list(retoma.__all__) == sorted(set(retoma.__all__))


def test_what_stands_in_the_front_hall_is_on_the_list() -> None:
    standing = {
        name
        for name, value in vars(retoma).items()
        if not name.startswith("_") and name != "annotations" and not inspect.ismodule(value)
    }

    assert standing <= set(retoma.__all__)


def test_the_surface_stays_small() -> None:
    assert 1 <= len(retoma.__all__) <= 40


@pytest.mark.parametrize("name", getattr(retoma, "__all__", ["(retoma has no __all__)"]))
def test_a_public_name_exists_and_says_what_it_is(name: str) -> None:
    value = getattr(retoma, name)
    if isinstance(value, str | int | float | tuple | frozenset):  # a constant is explained by the docs alone
        return
    own = vars(value).get("__doc__") if isinstance(value, type) else inspect.getdoc(value)

    assert own, f"retoma.{name} has no docstring"
    # What dataclass writes when nobody else did: the signature.
    assert not own.startswith(f"{name}("), f"retoma.{name} has no docstring of its own"


@pytest.mark.parametrize("name", getattr(retoma, "__all__", ["(retoma has no __all__)"]))
def test_a_public_name_is_in_the_docs(name: str) -> None:
    pages = [page for page in DOCS.rglob("*.md") if "decisions" not in page.parts]

    assert any(re.search(rf"\b{name}\b", page.read_text(encoding="utf-8")) for page in pages)


# — public modules —

_API = (DOCS / "reference/api.md").read_text(encoding="utf-8").partition("## Public modules\n")[2].partition("\n## ")[0]
_ROW = re.compile(r"^\| (`retoma[^|]*) \| ([^|]*) \| [^|]+ \|$", re.MULTILINE)
_TICKED = re.compile(r"`([^`]+)`")


def told() -> dict[str, list[str]]:
    """The names of each public module; none where another list has them. A row may tell of several modules, with one
    name each.
    """
    found = {}
    for modules, names in _ROW.findall(_API):
        several, ticked = _TICKED.findall(modules), _TICKED.findall(names)
        pairs = zip(several, ([name] for name in ticked), strict=True) if len(several) > 1 else [(several[0], ticked)]
        found.update(pairs)
    return found


MODULES = told()


@pytest.mark.parametrize("module", MODULES)
def test_a_public_module_says_what_it_is_and_holds_the_names_that_are_told(module: str) -> None:
    found = importlib.import_module(module)

    assert found.__doc__
    assert MODULES[module] == sorted(set(MODULES[module]))
    assert [name for name in MODULES[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_a_public_module_with_a_list_of_its_own_has_the_same_list(module: str) -> None:
    listed = getattr(importlib.import_module(module), "__all__", None)
    if listed is None or not MODULES[module]:  # no list of its own, or the page has a table for it
        return

    assert set(MODULES[module]) == set(listed)


_IMPORT = re.compile(r"^from (retoma[a-z_.]*) import ([A-Za-z_, ]+)$", re.MULTILINE)


def is_public(module: str, name: str) -> bool:
    """A module whose names stand in another table has none here, and any of them will do."""
    if f"{module}.{name}" in MODULES:
        return True
    known = retoma.__all__ if module == "retoma" else MODULES.get(module)
    return known is not None and (not known or name in known)


def test_pages_examples_and_the_foreign_package_import_what_is_public() -> None:
    root = DOCS.parent
    files = [page for page in DOCS.rglob("*.md") if "decisions" not in page.parts and page.name != "style.md"]
    files += [root / "README.md", root / "LEIAME.md", *(root / "examples").glob("*.py")]
    files += (root / "tests/packaging/stamps").rglob("*.py")

    private = [
        f"{file.relative_to(root)}: {module}.{name}"
        for file in files
        for module, names in _IMPORT.findall(file.read_text(encoding="utf-8"))
        for name in names.split(", ")
        if not is_public(module, name)
    ]

    assert private == []
