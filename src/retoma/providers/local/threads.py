"""Runs long work in a thread beside the event loop, and stops it when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from retoma.providers import ProviderTimeout

T = TypeVar("T")


class Abandoned(Exception):
    """Nobody waits for this work any more; raised inside its thread, and ends it silently."""


class Waiting:
    """Whether somebody still waits for the result."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def check(self) -> None:
        """Raise Abandoned when nobody waits any more."""
        if self._over.is_set():
            raise Abandoned

    def end(self) -> None:
        """Record that nobody waits any more."""
        self._over.set()


async def beside(work: Callable[[Waiting], T], *, timeout: float, what: str) -> T:
    """The result of *work*. A thread cannot be killed, so the work checks now and then whether to continue."""
    waiting = Waiting()
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.to_thread(work, waiting)
    except TimeoutError as error:
        raise ProviderTimeout(
            f"{what} took longer than {timeout:g} s.",
            next="Ask for less at once, or allow more time.",
            provider="local",
            paid=False,
        ) from error
    finally:
        waiting.end()
