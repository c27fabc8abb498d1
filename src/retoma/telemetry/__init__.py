"""What happened is a value; whoever wants to know listens."""

from __future__ import annotations

from collections.abc import Callable

from retoma.telemetry.events import Event

__all__ = ["Event", "Listener", "emit", "heard", "listen"]

Listener = Callable[[Event], None]

_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Hear of every event from now on; calling what comes back ends it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def heard() -> bool:
    """Whether anybody listens: what nobody hears need not be put into words."""
    return bool(_listeners)


def emit(event: Event) -> None:
    """Say that *event* happened."""
    for listener in _listeners:
        listener(event)
