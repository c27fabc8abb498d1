"""Finds the user's app by module:attribute."""

from __future__ import annotations

from retoma.app.retoma import Retoma
from retoma.errors import AppNotFound
from retoma.worker.loader import find_program


def find_app(reference: str) -> Retoma:
    """The Retoma app at *reference*."""
    found = find_program(reference)
    if not isinstance(found, Retoma):
        raise AppNotFound(
            f"{reference!r} is a {type(found).__module__}.{type(found).__qualname__}, and not a retoma.Retoma.",
            next="Make the app with retoma.Retoma; code without await may have one of retoma.sync beside it.",
        )
    return found
