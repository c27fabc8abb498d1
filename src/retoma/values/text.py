"""Text that PostgreSQL can hold: it takes every character but NUL, and no half of one."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def unstorable_mark(text: str) -> str | None:
    """The first mark of *text* that PostgreSQL cannot hold: NUL, or half of a character (a lone surrogate)."""
    found = _UNSTORABLE.search(text)
    return found and found[0]


def storable(text: str) -> str:
    """*text* with U+FFFD for what PostgreSQL cannot hold."""
    if _UNSTORABLE.search(text) is None:
        return text
    # By way of UTF-16, two halves that belong together become their character again.
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
