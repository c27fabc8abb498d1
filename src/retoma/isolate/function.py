"""A function that keeps its signature and runs in a child process."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Future  # as a type; its executors break when a child dies
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from retoma.errors import ConfigurationError, Unstorable
from retoma.isolate import child
from retoma.isolate.child import Target
from retoma.isolate.ending import Call
from retoma.isolate.pool import submit

P = ParamSpec("P")
T = TypeVar("T")


def isolated(*, seconds: float = 120, megabytes: int = 1024) -> Callable[[Callable[P, T]], Isolated[P, T]]:
    """Run the function in a child process that may use *seconds* of time and *megabytes* of memory.

    The seconds begin when the function does, not while it waits for a child. The megabytes are address
    space on top of what the interpreter and the function's own module take once loaded: what the call itself
    may add. Libraries reserve more than they touch, so be generous (OCR: 2,000 to 3,000).

    A child is launched without the secrets of its parent, yet it runs as the same user: this guards against
    accidents, not against code that means harm. On macOS the memory is not limited.
    """
    if seconds <= 0 or megabytes <= 0:
        raise ConfigurationError(
            f"@isolated(seconds={seconds}, megabytes={megabytes}) allows nothing.",
            next="Both must be above 0.",
        )
    return lambda function: Isolated(function, seconds=seconds, megabytes=megabytes)


class Isolated(Generic[P, T]):
    """A function that runs in a child; call it to wait for it, or await its *run*."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, T], *, seconds: float, megabytes: int) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.seconds = seconds
        self.megabytes = megabytes
        if reason := unreachable(function):
            raise ConfigurationError(
                f"{getattr(function, '__qualname__', function)} cannot be isolated: {reason}, and a child "
                "finds its function by name.",
                next="Make it a plain function at the top level of a module that can be imported.",
            )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        if child.inside:
            return self.function(*args, **kwargs)
        future = self._ask(args, kwargs)
        try:
            return future.result()
        except BaseException:  # Ctrl-C: nobody waits for the child any more
            future.cancel()
            raise

    async def run(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it without blocking the loop; cancelling the wait kills the child."""
        if child.inside:
            return self.function(*args, **kwargs)
        return await asyncio.wrap_future(self._ask(args, kwargs))

    def __reduce__(self) -> str:
        return self.__qualname__

    def _ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[T]:
        try:
            # Here and not in pebble's thread, where a failure would have no caller to tell.
            arguments = pickle.dumps((args, kwargs))
        except Exception as error:
            raise Unstorable(
                f"An argument of {self.__qualname__} cannot be sent to its child: {error}.",
                next="Send plain data: a path, text, bytes, numbers, lists, dictionaries.",
            ) from error
        call = Call(
            target=target_of(self.function),
            arguments=arguments,
            seconds=self.seconds,
            megabytes=self.megabytes,
        )
        submit(call)
        return call.future


def unreachable(function: Callable[..., Any]) -> str:
    """Why a child could not run *function*, or nothing."""
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        return "it is not a plain function"
    if not function.__qualname__.isidentifier():  # <lambda>, outer.<locals>.inner, Class.method
        return "it is a lambda, or defined inside a function or a class"
    if function.__module__ == "__main__" and not main_module():
        return "it was typed into a session that has no file"
    return ""


def target_of(function: Callable[..., Any]) -> Target:
    main = main_module() if function.__module__ == "__main__" else {}
    return Target(module=function.__module__, name=function.__qualname__, main=main, path=tuple(sys.path))


def main_module() -> dict[str, str]:
    """How a child can load the script that was started, in the words of multiprocessing."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return {"init_main_from_name": main.__spec__.name}
    file = getattr(main, "__file__", None)
    return {"init_main_from_path": str(Path(file).absolute())} if file else {}
