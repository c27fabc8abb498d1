"""Dangerous functions in a child process: they may crash, hang or eat memory, and only the call fails."""

from retoma.isolate.function import Isolated, isolated
from retoma.isolate.pool import configure, shutdown

__all__ = ["Isolated", "configure", "isolated", "shutdown"]
