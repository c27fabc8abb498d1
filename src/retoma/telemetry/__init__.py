"""Events are values, and listeners receive them."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable

from retoma.telemetry.events import Event

__all__ = ["Event", "Listener", "emit", "heard", "listen"]

Listener = Callable[[Event], None]

_listeners: list[Listener] = []
_complained: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Call the listener for every event from now on; the returned function ends it."""
    _listeners.append(listener)

    def end() -> None:
        _listeners.remove(listener)
        if listener in _complained:
            _complained.remove(listener)

    return end


def heard() -> bool:
    """Whether anybody listens; if not, an event need not be built."""
    return bool(_listeners)


def emit(event: Event) -> None:
    """Send *event* to every listener. A listener that fails does not disturb the caller: its
    error goes to stderr, once.
    """
    for listener in tuple(_listeners):  # a listener may be removed meanwhile
        try:
            listener(event)
        except Exception:  # noqa: BLE001 - whatever it is, the work continues
            _complain(listener)


def _complain(listener: Listener) -> None:
    if listener in _complained:
        return
    _complained.append(listener)
    with contextlib.suppress(Exception):  # stderr itself may be closed
        sys.stderr.write(f"A listener to events failed, and is not told of again:\n{traceback.format_exc()}")
