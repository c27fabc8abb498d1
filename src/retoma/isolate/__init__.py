"""Runs dangerous functions in a child process: they may crash, hang, exhaust memory or be hostile,
and only the call fails.
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from retoma.isolate.child import note
    from retoma.isolate.function import Isolated, isolated
    from retoma.isolate.policy import Policy
    from retoma.isolate.pool import adopt, configure, shutdown

__all__ = ["Isolated", "Policy", "adopt", "configure", "isolated", "note", "shutdown"]

_ROOM_OF = {
    "Isolated": "function",
    "Policy": "policy",
    "adopt": "pool",
    "configure": "pool",
    "isolated": "function",
    "note": "child",
    "shutdown": "pool",
}


def __getattr__(name: str) -> typing.Any:
    # A child needs few of these names, and starts in half the time without the others.
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
