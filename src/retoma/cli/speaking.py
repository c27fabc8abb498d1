"""Which commands can ask a server over HTTP, and what the others say when they are told to."""

from __future__ import annotations

import os
from collections.abc import Sequence

SPEAKING = {
    "batch": (
        "list", "show", "explain", "errors", "events", "plan", "watch", "resume", "retry-failed", "pause", "cancel",
        "restart", "change", "seal", "new", "pilot", "release",
    ),
    "job": ("list", "show", "retry", "cancel", "restart", "signal"),
    "queue": ("list", "pause", "resume", "limit", "weight"),
    "schedule": ("list", "run", "pause", "resume"),
    "calls": ("list", "show", "spend"),
    "prices": ("list", "set"),
    "limits": ("list", "set", "close", "remove"),
    "operation": ("run", "list", "show", "cancel"),
    "review": ("list", "accept", "correct", "reject", "undo", "export"),
    **dict.fromkeys(("errors", "search", "status", "workers", "metrics"), ()),
    **dict.fromkeys(("travadas", "retomar", "reprocessar-erros"), ()),
}  # fmt: skip
"""Commands that can, with the words that follow."""
_ALONE = ("demo", "chaos", "bench", "accuracy", "token")
"""Commands that use no database of anybody's."""
_ASIDE = ("-h", "--help", "--version", "--debug")


def refuse_without_database(server: str | None, args: Sequence[str]) -> None:
    """Refuse a command that needs the database where a server is named. By RETOMA_API_URL it is only named for the
    commands that can ask it; the others use DATABASE_URL, and make no database where that is missing.
    """
    if any(each in args for each in ("-h", "--help", "--version")):
        return
    first, *rest = [each for each in args if each not in _ASIDE] or [""]
    if _speaks(first, rest[:1]) or not first:
        return
    named = os.environ.get("RETOMA_API_URL")
    has_database = os.environ.get("DATABASE_URL") or os.environ.get("RETOMA_DATABASE_URL")
    if server is None and (not named or has_database or first in _ALONE):
        return
    from retoma.cli.language import Phrase
    from retoma.errors import ConfigurationError

    command = " ".join(["retoma", first, *(each for each in rest[:1] if not each.startswith("-"))])
    raise ConfigurationError(
        Phrase("'{command}' needs the database, and cannot be asked of a server.", command=command),
        next=Phrase("set DATABASE_URL, without --api and RETOMA_API_URL."),
    )


def _speaks(first: str, second: Sequence[str]) -> bool:
    words = SPEAKING.get(first)
    return words is not None and (not words or not second or second[0].startswith("-") or second[0] in words)
