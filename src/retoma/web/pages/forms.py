"""What a form of a page says: the plain kind, which a browser sends with JavaScript switched off."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import Request

from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import paid

_MOST_FIELDS = 50


async def fields_of(request: Request, *, largest: int) -> dict[str, str]:
    """The fields of a form of at most *largest* bytes; of several with one name, the last."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > largest:
            raise Refusal("payload_too_large", limit=largest)
    await paid(request, len(raw))
    try:
        fields = parse_qs(raw.decode(), max_num_fields=_MOST_FIELDS)
        # Halves of characters can be written with %, and nobody could keep them.
        said = {name: values[-1].encode().decode() for name, values in fields.items()}
    except ValueError:
        raise Refusal("validation_failed") from None
    if any("\0" in value for value in said.values()):
        raise Refusal("invalid_text", what="U+0000", place="a field")
    return said
