"""Text that PostgreSQL can store: every character except NUL and lone surrogates."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def unstorable_mark(text: str) -> str | None:
    """The first character of *text* that PostgreSQL cannot store: NUL, or a lone surrogate."""
    found = _UNSTORABLE.search(text)
    return found and found[0]


def storable(text: str) -> str:
    """*text* with U+FFFD in place of what PostgreSQL cannot store."""
    if _UNSTORABLE.search(text) is None:
        return text
    # Through UTF-16, two surrogates that belong together become their character again.
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
