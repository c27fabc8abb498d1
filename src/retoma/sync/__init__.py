"""The public API without `await`."""

from retoma.sync.retoma import Retoma

__all__ = ["Retoma"]
