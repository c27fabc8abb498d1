"""The door without await is made from the one with it, and both have the same words."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest

import retoma.app.retoma
import retoma.sync.retoma

TOOL = Path(__file__).parents[2] / "tools/sync.py"


def test_what_is_made_is_fresh() -> None:
    spec = importlib.util.spec_from_file_location("sync_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    assert [str(each) for each in tool.stale()] == [], "Try: make sync"


@pytest.mark.parametrize("name", ["jobs", "batches", "calls", "queues", "schedules", "workers", "system"])
def test_a_namespace_has_the_same_words_with_and_without_await(name: str) -> None:
    ours, theirs = (
        {each: method for each, method in vars(type(getattr(app, name))).items() if not each.startswith("_")}
        for app in (retoma.app.retoma.Retoma("postgresql://x/y"), retoma.sync.retoma.Retoma("postgresql://x/y"))
    )

    assert ours.keys() == theirs.keys()
    for each, method in ours.items():
        assert inspect.signature(method).parameters.keys() == inspect.signature(theirs[each]).parameters.keys()
        assert method.__doc__


def test_the_front_class_is_small() -> None:
    members = [name for name in vars(retoma.Retoma) if not name.startswith("_")]

    assert len(members) <= 16, members
