"""Where a reader is: told while it reads, so that its last page is known when it is killed."""

from __future__ import annotations

from retoma.isolate import note

_WORD = 200


class Trail:
    """Of one call: kept by the child that reads, followed by its parent."""

    def at(self, reader: str, page: int | None = None) -> None:
        """Say who is reading now, and which page."""
        note([reader[:_WORD], page])


def last_of(noted: object) -> tuple[str | None, int | None]:
    """Who read last, and which page, of what a child has *noted*; nothing when nobody had begun."""
    match noted:
        case [str(reader), int(page)]:
            return reader[:_WORD], page
        case [str(reader), None]:
            return reader[:_WORD], None
    return None, None
