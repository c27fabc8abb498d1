"""SIGTERM and Ctrl-C: heard while there is something to stop, and without effect once it has stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Protocol

_HEARD = (signal.SIGTERM, signal.SIGINT)


class Restore(Protocol):
    """Ends the hearing; *ending* when the process is about to end."""

    def __call__(self, *, ending: bool) -> None: ...


def hear(heard: Callable[[], None]) -> Restore:
    """Have *heard* called for each of the two, until what comes back is called."""
    loop = asyncio.get_running_loop()
    try:
        for each in _HEARD:
            loop.add_signal_handler(each, heard)
    except (RuntimeError, ValueError):  # not in the main thread: whoever runs us there has other ways to stop us
        return lambda *, ending: None  # noqa: ARG005 - the shape of a Restore

    def restore(*, ending: bool) -> None:
        if not ending:
            for each in _HEARD:
                loop.remove_signal_handler(each)
            return
        # Said once more in the last moment, it must not turn an orderly end into a death by a signal. It is kept back
        # in between, for the loop leaves the system's own answer behind, and that is death.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        for each in _HEARD:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)

    return restore
