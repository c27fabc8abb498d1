"""What a handler says to the person who must decide, as the review desk stores it."""

from __future__ import annotations

import json
from typing import Any

from retoma.model.endings import Review
from retoma.values.codec import codec_of
from retoma.values.text import storable

LONGEST_TEXT = 200_000
"""Characters of a text that the desk shows."""
_LONGEST_WORD = 500


def details_of(review: Review, *, what: str) -> str | None:
    """The JSON of what *review* says beside its proposal, if it says more; *what* names a choice in an error."""
    evidence: dict[str, Any] = {}
    if review.text is not None:
        evidence["text"] = storable(review.text)[:LONGEST_TEXT]
    if review.passage is not None:
        evidence["passage"] = storable(review.passage)[:LONGEST_TEXT]
    if review.choices:
        evidence["choices"] = [
            {"label": _word(label), "value": json.loads(codec_of(type(value)).encode(value, what=what).text)}
            for label, value in review.choices.items()
        ]
    details = {
        "title": review.title and _word(review.title),
        "label": review.label and _word(review.label),
        "version": review.version and _word(review.version),
        "margin": review.margin,
        "confidence": review.confidence,
        "evidence": evidence or None,
    }
    said = {name: value for name, value in details.items() if value is not None}
    return json.dumps(said, ensure_ascii=False) if said else None


def _word(text: str) -> str:
    return storable(str(text))[:_LONGEST_WORD]
