"""Handles SIGTERM and Ctrl-C while there is something to stop; both are ignored once it has stopped. Lets a child start
that Ctrl-C does not concern.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def holding_ctrl_c() -> Iterator[None]:
    """Hold Ctrl-C back inside the block. A child that is started there inherits that, so that Ctrl-C in a terminal does
    not end it in the middle of an import; it calls ``ignore_ctrl_c`` as soon as it can.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_ctrl_c() -> None:
    """Ignore Ctrl-C, also one that was held back since this process started. What it starts is not held back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
