"""What callers send: counted while it comes in, and read as JSON that can be kept."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from fastapi import Request

from retoma.values.text import unstorable_mark
from retoma.web.api.schemas.responses import Fault
from retoma.web.http.errors import Refusal, pointer_to

DEEPEST = 100
"""Levels of nesting; what is deeper could not be kept either."""

Steps = tuple[str | int, ...]


class Sent(Request):
    """A request whose body is read once, up to a limit, and strictly."""

    async def read(self, *, limit: int) -> bytes:
        """The body; it is JSON, or empty, or refused before anything is done."""
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise Refusal("payload_too_large", limit=limit)
        raw = bytearray()
        async for chunk in self.stream():
            raw += chunk
            if len(raw) > limit:
                raise Refusal("payload_too_large", limit=limit)
        # Where Starlette keeps them: whoever asks for body or JSON afterwards gets these.
        self._body = bytes(raw)
        if raw:
            kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
                raise Refusal("unsupported_media_type")
            self._json = parsed(self._body)
        return self._body


def parsed(raw: bytes) -> Any:
    """The value of *raw*, when it is JSON that PostgreSQL and every reader after it can take."""
    try:
        value = json.loads(raw.decode(), parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise Refusal("json_too_deep", most=DEEPEST) from None
    except ValueError as error:
        fault = Fault(pointer="", code="json_invalid", detail=f"This is not JSON: {error}.")
        raise Refusal("validation_failed", faults=[fault]) from None
    # Most bodies have few brackets and no escapes, and need no second look.
    if b"\\u" in raw or raw.count(b"[") + raw.count(b"{") > DEEPEST:
        _examine(value)
    return value


def _no_number(name: str) -> NoReturn:
    raise Refusal("invalid_text", what=name, place="a number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text[:20])


def _examine(value: Any) -> None:
    """Refuse what is too deep, and halves of characters and NUL wherever they are."""
    waiting: list[tuple[Any, Steps]] = [(value, ())]
    while waiting:
        each, steps = waiting.pop()
        if isinstance(each, str):
            _refuse_unkeepable(each, steps)
        elif isinstance(each, dict | list):
            if len(steps) >= DEEPEST:
                raise Refusal("json_too_deep", most=DEEPEST)
            if isinstance(each, dict):
                for name in each:
                    _refuse_unkeepable(name, steps)
            pairs = each.items() if isinstance(each, dict) else enumerate(each)
            waiting += [(part, (*steps, step)) for step, part in pairs]


def _refuse_unkeepable(text: str, steps: Steps) -> None:
    wrong = unstorable_mark(text)
    if wrong is not None:
        raise Refusal("invalid_text", what=f"U+{ord(wrong):04X}", place=pointer_to(steps) or "/")
