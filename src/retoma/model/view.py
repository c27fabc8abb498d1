"""A saved view, and what a search finds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class View:
    """The query of a page under a name: of one person, or of everybody."""

    id: int
    name: str
    page: str
    query: str
    owner: str
    shared: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that a search found, and by what: "id", "key" or "correlation"."""

    kind: str
    """"job" or "batch"."""
    id: int
    by: str
    title: str
    state: str
    pipeline: str
