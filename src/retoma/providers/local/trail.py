"""The position of a reader, noted while it reads, so that its last page is known when it is killed."""

from __future__ import annotations

import math
import time

from retoma.isolate import note

_WORD = 200


class Trail:
    """The trail of one call: written by the child that reads, followed by its parent; and the *seconds* it has."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left for the call, counted from when the child began."""
        return self._end - time.monotonic()

    def at(self, reader: str, page: int | None = None) -> None:
        """Note the current reader, and its page."""
        note([reader[:_WORD], page])


def last_of(noted: object) -> tuple[str | None, int | None]:
    """The last reader and page in what a child has *noted*; None when no reader had started."""
    match noted:
        case [str(reader), int(page)]:
            return reader[:_WORD], page
        case [str(reader), None]:
            return reader[:_WORD], None
    return None, None
