"""What happens to a text on its way through printers, scanners and files."""

from __future__ import annotations

import random
import re
import textwrap
import unicodedata

_HEADS = {
    "pt": ("Página 1 de 3", "Documento assinado digitalmente. Confira no sítio oficial.", "fls. 27", "CÓPIA",
           "Este documento é cópia do original"),
    "en": ("Page 1 of 3", "Digitally signed. Check at the official site.", "sheet 27", "COPY", "Copy of the original"),
}  # fmt: skip
_MISREAD = {
    "l": "1",
    "o": "0",
    "e": "c",
    "i": "l",
    "ç": "c",
    "ã": "a",
    "é": "e",
    "m": "rn",
    "u": "n",
    "t": "f",
    " ": "  ",
}
_WORST = 0.03
"""The share of characters that a scanner reads wrong, at worst."""


def disturbed(text: str, language: str, chance: random.Random) -> str:
    """*text* clean, or as a scan, a print or an old program leaves it."""
    way = chance.choice(("clean", "clean", "wrapped", "scanned", "stamped", "plain", "joined", "cut"))
    if way == "wrapped":
        return "\n".join(piece for line in text.split("\n") for piece in textwrap.wrap(line, 78) or [""])
    if way == "scanned":
        return _scanned(text, chance)
    if way == "stamped":
        head, foot = chance.sample(_HEADS[language], 2)
        return f"{head}\n{text}\n{foot}\n{'_' * 30}"
    if way == "cut":  # the first lines are lost, and never more than a fifth
        lines = text.split("\n")
        return "\n".join(lines[max(1, len(lines) // 5) :]) if len(lines) > 5 else text  # noqa: PLR2004  # a short one stays
    return _plain(text) if way == "plain" else re.sub(r"\s+", " ", text) if way == "joined" else text


def _plain(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFD", text) if not unicodedata.combining(each))


def _scanned(text: str, chance: random.Random) -> str:
    share = chance.random() * _WORST
    return "".join(_MISREAD.get(letter, letter) if chance.random() < share else letter for letter in text)
