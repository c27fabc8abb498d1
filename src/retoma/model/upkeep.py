"""The nouns of upkeep: how far behind the removal of what is old is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Overstay:
    """How far the removal of one kind of rows is behind: for how long the oldest is there past its time."""

    kind: str
    oldest_at: datetime | None
    seconds: float
