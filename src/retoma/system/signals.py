"""Handles SIGTERM and Ctrl-C while there is something to stop; both are ignored once it has stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Protocol

_HEARD = (signal.SIGTERM, signal.SIGINT)


class Restore(Protocol):
    """Ends the handling; *ending* when the process is about to end."""

    def __call__(self, *, ending: bool) -> None: ...


def hear(heard: Callable[[], None]) -> Restore:
    """Call *heard* for each of the two signals, until the returned function is called."""
    loop = asyncio.get_running_loop()
    try:
        for each in _HEARD:
            loop.add_signal_handler(each, heard)
    except (RuntimeError, ValueError):  # not in the main thread: the program that runs us has other ways to stop us
        return lambda *, ending: None  # noqa: ARG005 - the shape of a Restore

    def restore(*, ending: bool) -> None:
        if not ending:
            for each in _HEARD:
                loop.remove_signal_handler(each)
            return
        # A signal that arrives in the last moment must not turn an orderly end into a death by signal. It is blocked in
        # between, because the event loop restores the default action, which kills the process.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        for each in _HEARD:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)

    return restore
