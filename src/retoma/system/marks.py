"""Which job's code runs in each thread of this process, written where another process can read it after a crash.

The marks are small numbers in shared memory: the first belongs to the event loop's thread, one more to each thread of a
pool. A number is the place of a job, counted from one, and 0 when no job's code runs in that thread. Writing one costs
no system call. An executor drives the coroutine of each job, and of each task that a job starts, through ``Marked``,
which sets the mark for as long as that coroutine runs and no longer.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LOOP = 0
"""The mark of the event loop's thread."""


class Mark:
    """The job that the current context belongs to: its number on the marks, and 0 once it has ended."""

    __slots__ = ("number", "threads")

    def __init__(self, number: int) -> None:
        self.number = number
        self.threads: set[int] | None = None
        """The marks of the threads that run its code; None before the first."""

    def over(self, marks: memoryview) -> None:
        """The job has ended: neither what the event loop does now nor a thread that it left behind is its code."""
        self.number = marks[LOOP] = 0
        for thread in tuple(self.threads or ()):
            marks[thread] = 0


MARK: contextvars.ContextVar[Mark | None] = contextvars.ContextVar("retoma_mark", default=None)


class Marked(Coroutine[Any, Any, T]):
    """A coroutine that is marked as its job's code whenever it runs."""

    __slots__ = ("_coroutine", "_mark", "_marks", "_send")

    def __init__(self, coroutine: Coroutine[Any, Any, T], mark: Mark, marks: memoryview) -> None:
        self._coroutine = coroutine
        self._mark = mark
        self._marks = marks
        self._send = coroutine.send

    def send(self, value: Any) -> Any:
        marks = self._marks
        before = marks[LOOP]
        marks[LOOP] = self._mark.number
        try:
            return self._send(value)
        finally:
            marks[LOOP] = before

    def throw(self, *error: Any) -> Any:
        marks = self._marks
        before = marks[LOOP]
        marks[LOOP] = self._mark.number
        try:
            return self._coroutine.throw(*error)
        finally:
            marks[LOOP] = before

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """What debuggers and libraries ask of a coroutine: cr_frame, cr_running, cr_await, and so on."""
        return getattr(self._coroutine, name)


class Marks:
    """The marks of one process that runs jobs."""

    def __init__(self, marks: memoryview) -> None:
        self._marks = marks
        self._next = itertools.count(LOOP + 1)
        self._own = threading.local()

    def task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, /, **more: Any) -> asyncio.Task[Any]:
        """A task factory: a task that a job starts is marked as that job is."""
        context: contextvars.Context | None = more.get("context")
        mark = MARK.get() if context is None else context.get(MARK)
        if mark is not None and type(coroutine) is not Marked:
            coroutine = Marked(coroutine, mark, self._marks)
        return asyncio.Task(coroutine, loop=loop, **more)

    def call(self, mark: Mark, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call *function* in this thread of a pool, marked as the code of a job."""
        own = self._slot()
        if own is None:
            return function(*args, **kwargs)
        if mark.threads is None:
            mark.threads = set()
        mark.threads.add(own)
        self._own.mark = mark
        self._marks[own] = mark.number
        try:
            return function(*args, **kwargs)
        finally:
            self._marks[own] = 0
            mark.threads.discard(own)
            self._own.mark = None

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """While this thread only waits for the event loop, it runs no code of its job."""
        mark: Mark | None = getattr(self._own, "mark", None)
        if mark is None:
            yield
            return
        self._marks[self._own.slot] = 0
        try:
            yield
        finally:
            self._marks[self._own.slot] = mark.number

    def _slot(self) -> int | None:
        """The mark of this thread; None for more threads than there are marks."""
        own: int | None = getattr(self._own, "slot", None)
        if own is None:
            own = self._own.slot = next(self._next)
        return own if own < len(self._marks) else None


_here: Marks | None = None


def use(marks: memoryview) -> Marks:
    """Mark, from now on, what runs in this process."""
    global _here  # noqa: PLW0603 - a process has one set of marks, as it has one supervisor
    _here = Marks(marks)
    return _here


def here() -> Marks | None:
    """The marks of this process; None where nobody reads any."""
    return _here


def unmarked() -> contextvars.Context:
    """The current context for a task that serves many jobs: whichever job starts it, it is none of that job's code."""
    context = contextvars.copy_context()
    context.run(MARK.set, None)
    return context
