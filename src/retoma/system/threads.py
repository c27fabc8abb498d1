"""Threads that compute for others, and give way to those who wait for an answer."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor


def pool(most: int, name: str, *, nice: int) -> ThreadPoolExecutor:
    """At most *most* threads. An executor's loop, which claims and writes, comes before them."""
    return ThreadPoolExecutor(most, name, initializer=_give_way, initargs=(nice,))


def _give_way(nice: int) -> None:
    if sys.platform == "linux":  # where a thread has a niceness of its own
        os.nice(nice)
