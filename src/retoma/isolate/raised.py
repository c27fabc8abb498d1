"""Serialises an error of a child, and decides which errors may be raised in the parent."""

from __future__ import annotations

import json
import sys
import types
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from retoma.errors import DatabaseError, LeaseLost, RetomaError

_WORDS = 100_000
_OURS = "retoma"
_OF_THE_ENGINE = frozenset({"psycopg", "psycopg_pool", "asyncio", "concurrent"})
"""Errors that the engine itself acts upon: a child must not be able to imitate the database or the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An error as the name of its class, its arguments and its attributes, all plain JSON."""

    module: str = ""
    name: str = ""
    args: list[Any] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)


def tell(error: BaseException) -> Told | None:
    """*error* in this form; None when its arguments or attributes are not plain data."""
    module = type(error).__module__.replace("__mp_main__", "__main__")  # multiprocessing's name for a main module
    with suppress(Exception):
        words = json.dumps([error.args, error.__dict__])
        if len(words) < _WORDS:
            args, state = json.loads(words)
            return Told(module=module, name=type(error).__qualname__, args=args, state=state)
    return None


def rebuild(told: Told) -> Exception | None:
    """The error itself, if its class is loaded here and a child may cause it; nothing is imported and no
    constructor is called.
    """
    found: Any = sys.modules.get(told.module)
    for part in told.name.split("."):
        found = vars(found).get(part) if found is not None else None
    if not isinstance(found, type) or not issubclass(found, Exception) or not _may_be_raised(found):
        return None
    with suppress(Exception):
        error: Exception = found.__new__(found, *told.args)
        state = {name: each for name, each in told.state.items() if _is_free(found, name)}
        error.__dict__.update(state)
        str(error)
        return error
    return None


def _may_be_raised(kind: type[Exception]) -> bool:
    if issubclass(kind, StopIteration | StopAsyncIteration):  # futures refuse the one, generators the other
        return False
    if isinstance(kind.__new__, types.FunctionType):
        return False
    if any(each.__module__.partition(".")[0] in _OF_THE_ENGINE for each in kind.__mro__):
        return False
    if kind.__module__.partition(".")[0] == _OURS:
        return issubclass(kind, RetomaError) and not issubclass(kind, DatabaseError | LeaseLost)
    return True


def _is_free(kind: type, name: str) -> bool:
    """Whether *name* may be set as an attribute: it must not replace a method."""
    return name == "__notes__" or not (name.startswith("__") or callable(getattr(kind, name, None)))
