"""The values of upkeep: how far the deletion of old rows is behind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Overstay:
    """How far the deletion of one kind of rows is behind: for how long the oldest is past its retention."""

    kind: str
    oldest_at: datetime | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Gauge:
    """One value of a metric that the tables tell, with the values of its labels in their order."""

    name: str
    labels: list[str]
    value: float
