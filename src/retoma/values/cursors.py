"""The cursor of a page of rows that have numbers, the newest first. The server and the client both write it."""

from __future__ import annotations

import base64


def cursor_of(id: int) -> str:
    """The cursor of the page that begins below *id*."""
    return base64.urlsafe_b64encode(b"before:%d" % id).decode().rstrip("=")
