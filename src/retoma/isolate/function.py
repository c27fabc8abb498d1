"""A function that keeps its signature and runs in a child process."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from retoma.errors import ConfigurationError, Unstorable
from retoma.isolate import child
from retoma.isolate.child import Given
from retoma.values.annotations import return_annotation

if TYPE_CHECKING:
    from retoma.isolate.ending import Call, Target

# What only a parent needs is imported where it is used: it would take each child half a second to load.

P = ParamSpec("P")
T = TypeVar("T")


def isolated(*, seconds: float = 120, megabytes: int = 1024) -> Callable[[Callable[P, T]], Isolated[P, T]]:
    """Run the function in a child process that may use *seconds* of time and *megabytes* of memory.

    The seconds start when the function does, not while it waits for a child. The megabytes are address space in
    addition to what the interpreter and the function's own module take once loaded: what the call itself may add.
    Libraries reserve more than they use, so be generous (OCR: 2,000 to 3,000).

    The child can read an argument that is the ``Path`` of a file. The return value comes back as JSON, decoded by its
    annotation. Everything else on this machine is closed to the child, as far as the kernel can do that
    (docs/guides/isolate.md). On macOS the memory is not limited, and nothing is closed.
    """
    if seconds <= 0 or megabytes <= 0:
        raise ConfigurationError(
            f"@isolated(seconds={seconds}, megabytes={megabytes}) allows nothing.",
            next="Both must be above 0.",
        )
    return lambda function: Isolated(function, seconds=seconds, megabytes=megabytes)


class Isolated(Generic[P, T]):
    """A function that runs in a child; call it to wait for the result, or await its *run*."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, T], *, seconds: float, megabytes: int, alone: bool = False) -> None:
        """*alone*: each call has a child of its own that ends with it."""
        functools.update_wrapper(self, function)
        self.function = function
        self.seconds = seconds
        self.megabytes = megabytes
        self.alone = alone
        if reason := unreachable(function):
            raise ConfigurationError(
                f"{getattr(function, '__qualname__', function)} cannot be isolated: {reason}, and a child "
                "finds its function by name.",
                next="Make it a plain function at the top level of a module that can be imported.",
            )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        if child.inside:
            return self.function(*args, **kwargs)
        future = self.ask(*args, **kwargs).future
        try:
            value: T = future.result()
        except BaseException:  # Ctrl-C: nothing waits for the child any more
            future.cancel()
            raise
        return value

    async def run(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it without blocking the event loop; cancelling the wait kills the child."""
        if child.inside:
            return self.function(*args, **kwargs)
        import asyncio  # noqa: PLC0415

        value: T = await asyncio.wrap_future(self.ask(*args, **kwargs).future)
        return value

    def ask(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Start it in a child; the returned call also shows its progress."""
        from retoma.isolate.ending import Call  # noqa: PLC0415
        from retoma.isolate.pool import submit  # noqa: PLC0415
        from retoma.values.codec import codec_of  # noqa: PLC0415

        files: list[Path] = []
        told = [_given(each, files) for each in args], {name: _given(each, files) for name, each in kwargs.items()}
        try:
            # Here and not in the thread that keeps the child, where an error would have no caller.
            arguments = pickle.dumps(told)
        except Exception as error:
            raise Unstorable(
                f"An argument of {self.__qualname__} cannot be sent to its child: {error}.",
                next="Send plain data: a path, text, bytes, numbers, lists, dictionaries.",
            ) from error
        call = Call(
            target=target_of(self.function),
            codec=codec_of(return_annotation(self.function)),
            arguments=arguments,
            files=tuple(files),
            seconds=self.seconds,
            megabytes=self.megabytes,
            alone=self.alone,
        )
        submit(call)
        return call

    def __reduce__(self) -> str:
        return self.__qualname__


def _given(argument: Any, files: list[Path]) -> Any:
    """A placeholder for a file, which is added to *files*."""
    if not isinstance(argument, Path) or not argument.is_file():
        return argument
    files.append(argument.absolute())
    return Given(len(files) - 1)


def unreachable(function: Callable[..., Any]) -> str:
    """Why a child could not run *function*, or None."""
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        return "it is not a plain function"
    if not function.__qualname__.isidentifier():  # <lambda>, outer.<locals>.inner, Class.method
        return "it is a lambda, or defined inside a function or a class"
    if function.__module__ == "__main__" and not main_module():
        return "it was typed into a session that has no file"
    return ""


def target_of(function: Callable[..., Any]) -> Target:
    from retoma.isolate.ending import Target  # noqa: PLC0415

    main = main_module() if function.__module__ == "__main__" else {}
    path = tuple(str(Path(each).absolute()) for each in sys.path)  # an empty entry means the current folder
    return Target(module=function.__module__, name=function.__qualname__, main=main, path=path)


def main_module() -> dict[str, str]:
    """How a child can load the script that was started, in the format of multiprocessing."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return {"init_main_from_name": main.__spec__.name}
    file = getattr(main, "__file__", None)
    return {"init_main_from_path": str(Path(file).absolute())} if file else {}
