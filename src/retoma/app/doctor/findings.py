"""What the doctor finds: one thing that was looked at, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: green, amber or red, what was seen, and the fix."""

    level: str
    what: str
    seen: str
    next: str = ""


def green(what: str, seen: str) -> Finding:
    return Finding("green", what, seen)


def amber(what: str, seen: str, next: str) -> Finding:
    return Finding("amber", what, seen, next)


def red(what: str, seen: str, next: str) -> Finding:
    return Finding("red", what, seen, next)
