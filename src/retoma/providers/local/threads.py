"""Work that takes long, in a thread beside the loop, and that stops when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from retoma.providers import ProviderTimeout

T = TypeVar("T")


class Abandoned(Exception):
    """Nobody waits for this work; raised inside its thread, and seen by nobody."""


class Waiting:
    """Whether somebody still waits."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def check(self) -> None:
        """Go on only when somebody does."""
        if self._over.is_set():
            raise Abandoned

    def end(self) -> None:
        """Say that nobody does."""
        self._over.set()


async def beside(work: Callable[[Waiting], T], *, timeout: float, what: str) -> T:
    """What *work* returns; a thread cannot be killed, so it asks now and then whether to go on."""
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
