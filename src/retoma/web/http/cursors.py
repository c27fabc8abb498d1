"""Pages: a cursor that says where the next one begins, and means nothing to anybody else."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from retoma.values.cursors import cursor_of
from retoma.values.text import unstorable_mark
from retoma.web.http.errors import Refusal

__all__ = ["cursor_of", "opened", "place_of", "placed", "point_to_next"]


def opened(cursor: str) -> int:
    """The id that *cursor* holds."""
    try:
        word, _, id = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).partition(b":")
        before = int(id)
    except (ValueError, binascii.Error):
        raise Refusal("invalid_cursor") from None
    if word != b"before" or not 0 < before < 2**63:
        raise Refusal("invalid_cursor")
    return before


def place_of(*parts: str | int) -> str:
    """The cursor of the page that begins behind a row that these say."""
    return base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")


def placed(cursor: str, *kinds: type) -> list[Any]:
    """What such a cursor says, part by part; each is of its kind."""
    try:
        parts: Any = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise Refusal("invalid_cursor") from None
    fits = isinstance(parts, list) and len(parts) == len(kinds)
    if not fits or not all(type(part) is kind for part, kind in zip(parts, kinds, strict=True)):
        raise Refusal("invalid_cursor")
    if any(isinstance(part, str) and unstorable_mark(part) for part in parts):
        raise Refusal("invalid_cursor")
    return list(parts)


def point_to_next(request: Request, response: Response, following: str | None) -> None:
    """Say where the next page is, when there is one."""
    if following:
        url = request.url.include_query_params(cursor=following)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
