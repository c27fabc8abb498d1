"""Makes foreign text harmless: control characters for a terminal are shown, formulas for a spreadsheet are quoted, and
invisible characters are removed from what a model is sent.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

# C0 except tab and newline, DEL, C1; marks, overrides and isolates of the writing direction; line separators.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# Characters without width or sound: soft hyphens, joiners, directions, tags, variation selectors.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_FORMULA = frozenset("=+-@")


def visible(text: str) -> str:
    r"""*text* with terminal control characters written out: ``\x1b``, ``\u202e``."""
    return _STEERING.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - two digits, or four


def visible_json(text: str) -> str:
    """The same for JSON, whose meaning stays. The encoder has escaped only what JSON requires."""
    return text if text.isascii() and "\x7f" not in text else _STEERING.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def cell(value: Any) -> Any:
    """*value* as a cell of a table that people open in a spreadsheet: a text that would be read as a formula is quoted,
    however its sign is hidden.
    """
    if not isinstance(value, str):
        return "" if value is None else value
    text = visible(value)
    # Spreadsheets skip blanks and invisible characters, and accept the full-width forms of the signs.
    bare = _INVISIBLE.sub("", _STEERING.sub("", value)).lstrip()
    sign = unicodedata.normalize("NFKC", bare[:1])[:1]
    return f"'{text}" if sign in _FORMULA or value[:1] in ("\t", "\r", "\n") else text


def spoken(text: str) -> tuple[str, int]:
    """*text* without its invisible characters, and how many were removed: a person who reads the document and a model
    that is asked about it then see the same.
    """
    return _INVISIBLE.subn("", text)
