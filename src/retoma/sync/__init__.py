"""The front door without `await`."""

from retoma.sync.retoma import Retoma

__all__ = ["Retoma"]
