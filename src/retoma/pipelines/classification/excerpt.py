"""What is sent of a text: all of it, or so many tokens from its end or its start."""

from __future__ import annotations

from retoma.providers import Extraction

CHARACTERS_PER_TOKEN = 4
"""What a token is here: four characters. A model counts its own; the price is by that count."""
SHORTEST = 50
"""Characters; a text with fewer says nothing that could be classified."""
KEPT = 5000
"""Characters of what was sent that are kept with the result."""


def tokens_of(text: str) -> int:
    """About how many tokens *text* has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def cut(text: str, *, mode: str, position: str, tokens: int) -> str:
    """The part of *text* that is sent; never half a word, unless one word is all there is."""
    text = text.replace("\f", "\n").strip()
    most = tokens * CHARACTERS_PER_TOKEN
    if mode == "whole" or len(text) <= most:
        return text
    if position == "start":
        part = text[:most]
        if not text[most].isspace() and (space := max(part.rfind(" "), part.rfind("\n"))) > 0:
            part = part[:space]
        return part.strip()
    part = text[-most:]
    if not text[-most - 1].isspace():
        spaces = [place for place in (part.find(" "), part.find("\n")) if place >= 0]
        part = part[min(spaces) + 1 :] if spaces else part
    return part.strip()


def source_of(extraction: Extraction, kind: str) -> str:
    """Where the text came from: "ocr" when any page of it was a picture, else the kind of the file."""
    return "ocr" if any(page.source == "ocr" for page in extraction.pages) else kind
