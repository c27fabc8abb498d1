"""Thread pools for handlers, with a lower priority than latency-sensitive threads."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from retoma.system import marks

P = ParamSpec("P")
T = TypeVar("T")


class MarkedPool(ThreadPoolExecutor):
    """Threads that are marked as the code of the job that hands them work."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call *fn* in a thread."""
        kept, mark = marks.here(), marks.MARK.get()
        if kept is None or mark is None:
            return super().submit(fn, *args, **kwargs)
        return super().submit(functools.partial(kept.call, mark, fn, *args, **kwargs))


def pool(most: int, name: str, *, nice: int) -> ThreadPoolExecutor:
    """At most *most* threads. Their priority is lower, so that an executor's event loop, which claims
    and writes, runs first.
    """
    return MarkedPool(most, name, initializer=_give_way, initargs=(nice,))


def _give_way(nice: int) -> None:
    if sys.platform == "linux":  # where each thread has its own niceness
        os.nice(nice)
