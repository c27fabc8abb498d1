"""Events are values, and listeners receive them."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable

from retoma.telemetry.events import Event

__all__ = ["Event", "Listener", "Wants", "emit", "heard", "listen"]

Listener = Callable[[Event], None]
Wants = Callable[[type[Event]], bool]

_listeners: list[tuple[Listener, Wants]] = []
_complained: list[Listener] = []
_by_kind: dict[type[Event], tuple[Listener, ...]] = {}
"""Who wants a kind of event, once it was looked up: events are frequent, and listeners hardly ever change."""


def listen(listener: Listener, *, wants: Wants = lambda _kind: True) -> Callable[[], None]:
    """Call the listener for every event from now on; the returned function ends it. *wants* says of which kinds: an
    event that nobody wants is not even built.
    """
    entry = listener, wants
    _listeners.append(entry)
    _by_kind.clear()

    def end() -> None:
        _listeners.remove(entry)
        _by_kind.clear()
        if listener in _complained:
            _complained.remove(listener)

    return end


def heard(kind: type[Event]) -> bool:
    """Whether anybody wants events of this kind; if not, one need not be built."""
    return bool(_listeners) and bool(_wanted_by(kind))


def _wanted_by(kind: type[Event]) -> tuple[Listener, ...]:
    found = _by_kind.get(kind)
    if found is None:
        found = _by_kind[kind] = tuple(listener for listener, wants in _listeners if wants(kind))
    return found


def emit(event: Event) -> None:
    """Send *event* to every listener that wants it. A listener that fails does not disturb the caller: its
    error goes to stderr, once.
    """
    for listener in _wanted_by(type(event)):
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
