"""Short hashes that are the same in every process: of a text, of a call's arguments, of any JSON value."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from retoma.errors import Unstorable


def checksum(text: str) -> str:
    """SHA-256 of exactly this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(*parts: object) -> str:
    """A short hash of *parts*, the same in every process whatever the order of keys and sets."""
    try:
        return _hash(parts)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unstorable(f"Cannot fingerprint this: {str(error)[:80]}.", next="Pass values of plain JSON.") from error


def input_hash(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """A short hash of a call's arguments; None when one of them is not a value (a function, a connection)."""
    if not args and not kwargs:
        return _NOTHING
    try:
        return _hash((args, kwargs))
    except Exception:  # noqa: BLE001 - an argument's own code may raise anything, and a hash is not worth a job
        return None


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case bytes() | bytearray():
            return hashlib.sha256(value).hexdigest()
        case set() | frozenset():
            return sorted(_CANONICAL.encode(each) for each in value)
        case date() | time() | timedelta() | Decimal() | UUID() | PurePath():
            return str(value)
        case BaseModel():
            return dict(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"a {type(value).__name__} is not a value of JSON")


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain)


def _hash(value: object) -> str:
    return hashlib.sha256(_CANONICAL.encode(value).encode()).hexdigest()[:32]


_NOTHING = _hash(((), {}))
