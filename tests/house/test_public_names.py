"""One list says what is public: sorted, complete, explained."""

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
