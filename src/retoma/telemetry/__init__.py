"""What happened is a value; whoever wants to know listens."""

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
    """Hear of every event from now on; calling what comes back ends it."""
    _listeners.append(listener)

    def end() -> None:
        _listeners.remove(listener)
        if listener in _complained:
            _complained.remove(listener)

    return end


def heard() -> bool:
    """Whether anybody listens: what nobody hears need not be put into words."""
    return bool(_listeners)


def emit(event: Event) -> None:
    """Say that *event* happened. A listener that fails is nobody's fault who speaks: it is told on stderr, once."""
    for listener in tuple(_listeners):  # one of them may end meanwhile
        try:
            listener(event)
        except Exception:  # noqa: BLE001 - whatever it is, the work goes on
            _complain(listener)


def _complain(listener: Listener) -> None:
    if listener in _complained:
        return
    _complained.append(listener)
    with contextlib.suppress(Exception):  # stderr may be the one that is gone
        sys.stderr.write(f"A listener to events failed, and is not told of again:\n{traceback.format_exc()}")
