"""Thread pools for handlers, with a lower priority than latency-sensitive threads."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor


def pool(most: int, name: str, *, nice: int) -> ThreadPoolExecutor:
    """At most *most* threads. Their priority is lower, so that an executor's event loop, which claims
    and writes, runs first.
    """
    return ThreadPoolExecutor(most, name, initializer=_give_way, initargs=(nice,))


def _give_way(nice: int) -> None:
    if sys.platform == "linux":  # where each thread has its own niceness
        os.nice(nice)
