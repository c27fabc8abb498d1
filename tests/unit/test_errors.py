"""The tree of errors that is drawn is the tree that is there."""

from __future__ import annotations

import importlib
import pkgutil
import re

import retoma
from retoma import errors
from retoma.errors import RetomaError

ENGINE, OTHERS = (errors.__doc__ or "").split("Others stand beside")


def drawn(text: str) -> dict[str, str]:
    """Each class of a drawn tree, with the one above it."""
    above: list[str] = []
    found = {}
    for line in text[text.index("RetomaError") :].splitlines():
        if not (branch := re.match(r"^((?:[│ ] {3})*(?:[├└]── )?)(\w+)", line)):
            continue
        depth = len(branch[1]) // 4
        above[depth:] = [branch[2]]
        if depth:
            found[branch[2]] = above[depth - 1]
    return found


def test_the_errors_of_the_engine_are_drawn_as_they_are() -> None:
    there = {
        each.__name__: each.__bases__[0].__name__
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, RetomaError) and each is not RetomaError
    }

    assert drawn(ENGINE) == there


def test_every_other_error_hangs_from_one_that_is_drawn_with_its_place() -> None:
    for module in pkgutil.walk_packages(retoma.__path__, "retoma."):
        if module.name.startswith(("retoma.providers", "retoma.pipelines.")) and ".migrations." not in module.name:
            importlib.import_module(module.name)
    named = drawn(OTHERS)
    places = dict(re.findall(r"(\w+) {2,}.*: (retoma[\w.]+)$", OTHERS, re.MULTILINE))

    assert named.keys() == places.keys()
    for name, place in places.items():
        assert getattr(importlib.import_module(place), name).__mro__[1].__name__ == named[name]
    roots = [each for each in RetomaError.__subclasses__() if each.__module__ != "retoma.errors"]
    ours = {each.__name__ for each in roots if each.__module__.startswith("retoma.")}
    assert ours == {name for name, above in named.items() if above == "RetomaError"}
