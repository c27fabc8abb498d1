"""The return annotations of functions."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from retoma.errors import ConfigurationError


def return_annotation(function: Callable[..., Any]) -> Any:
    """The return annotation of *function*, awaited; Any where there is none."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return function
    spoken: Any = function if hasattr(function, "__annotations__") else type(function).__call__
    raw = getattr(spoken, "__annotations__", {}).get("return", Any)
    if raw is Any or raw is plain_class(raw):
        return raw
    plain = inspect.unwrap(getattr(spoken, "__func__", spoken))
    names = getattr(getattr(plain, "__code__", None), "co_freevars", ())
    try:
        # A nested function may name a type that only the outer one knows.
        known = {name: cell.cell_contents for name, cell in zip(names, plain.__closure__ or (), strict=True)}
        only = types.SimpleNamespace(__annotations__={"return": raw})
        hint = typing.get_type_hints(only, plain.__globals__, known, include_extras=True)["return"]
    except (NameError, TypeError, ValueError, SyntaxError, AttributeError) as error:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise ConfigurationError(
            f"The return annotation of {name} cannot be resolved: {error}.",
            next="Import the type at module level (not under TYPE_CHECKING), or define it there.",
        ) from error
    if typing.get_origin(hint) in (Awaitable, Coroutine):
        hint = typing.get_args(hint)[-1]
    return Any if hint in (typing.NoReturn, typing.Never) else hint


def plain_class(annotation: Any) -> type:
    """The annotation itself when it is a plain class, else object."""
    plain = isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias)
    return annotation if plain else object
