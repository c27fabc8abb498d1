"""Events are values, and listeners receive them."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from retoma.telemetry.event import FrequentEvent
from retoma.telemetry.events import Event

__all__ = ["Event", "Listener", "Wants", "emit", "heard", "listen"]

Listener = Callable[[Event], None]
Wants = Callable[[type[Event]], bool]
Reader = Callable[[Sequence[Any]], None]
"""Takes the facts of many events of one kind at once, so that none of these events has to be built."""
Readers = Mapping[type[Event], Reader]

_listeners: list[tuple[Listener, Wants, Readers]] = []
_complained: list[Listener] = []
_by_kind: dict[type[Event], tuple[tuple[Listener, Reader | None], ...]] = {}
"""Who wants a kind of event, once it was looked up: events are frequent, and listeners hardly ever change."""


def listen(
    listener: Listener, *, wants: Wants = lambda _kind: True, readers: Readers | None = None
) -> Callable[[], None]:
    """Call the listener for every event from now on; the returned function ends it. *wants* says of which kinds: an
    event that nobody wants is not even built. *readers* are for kinds of which this listener reads the facts itself.
    """
    entry = listener, wants, readers or {}
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


def _wanted_by(kind: type[Event]) -> tuple[tuple[Listener, Reader | None], ...]:
    found = _by_kind.get(kind)
    if found is None:
        found = _by_kind[kind] = tuple(
            (listener, readers.get(kind)) for listener, wants, readers in _listeners if wants(kind)
        )
    return found


def emit(event: Event) -> None:
    """Send *event* to every listener that wants it. A listener that fails does not disturb the caller: its
    error goes to stderr, once.
    """
    for listener, _ in _wanted_by(type(event)):
        try:
            listener(event)
        except Exception:  # noqa: BLE001 - whatever it is, the work continues
            _complain(listener)


def emit_all(kind: type[FrequentEvent], facts: Sequence[Any]) -> None:
    """Send an event of *kind* for each of *facts*. The events are built for those listeners only that do not read
    facts: a busy executor ends 20,000 attempts in a second, and to build an event takes longer than to count it.
    """
    built: list[FrequentEvent] | None = None
    for listener, reader in _wanted_by(kind):
        try:
            if reader is not None:
                reader(facts)
                continue
            if built is None:
                built = [kind.of(each) for each in facts]
            for event in built:
                listener(event)
        except Exception:  # noqa: BLE001 - whatever it is, the work continues
            _complain(listener)


def _complain(listener: Listener) -> None:
    if listener in _complained:
        return
    _complained.append(listener)
    with contextlib.suppress(Exception):  # stderr itself may be closed
        sys.stderr.write(f"A listener to events failed, and is not told of again:\n{traceback.format_exc()}")
