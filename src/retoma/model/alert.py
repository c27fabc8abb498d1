"""Alerts: rules of the watchdog, the incidents that they find, and their sentences."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

RULES = (
    "queue_without_workers",
    "queue_late",
    "batch_stalled",
    "budget_reached",
    "dead_letters",
    "worker_silent",
    "jobs_stuck",
)
"""Every rule, by its name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule has found. *subject* is what it is about: a queue, a batch, a worker's label, or nothing."""

    rule: str
    subject: str
    severity: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """An incident that was opened or resolved just now; *what* says which."""

    id: int
    rule: str
    subject: str
    severity: str
    what: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message about an incident, acquired by one sender."""

    alert_id: int
    channel: str
    what: str
    tries: int
    rule: str
    subject: str
    severity: str
    facts: dict[str, Any]
    opened_at: datetime
    resolved_at: datetime | None

    @property
    def id(self) -> str:
        """The same for each try, so that a receiver can recognise a message that it has already."""
        return f"alert-{self.alert_id}-{self.what}"


@dataclass(frozen=True, slots=True)
class Alert:
    """An incident. *sent* are the channels that were told; *error* is why one of them was not."""

    id: int
    rule: str
    subject: str
    severity: str
    facts: dict[str, Any]
    opened_at: datetime
    seen_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    note: str | None
    resolved_at: datetime | None
    sent: list[str]
    error: str | None

    @property
    def state(self) -> str:
        """Whether it is open, acknowledged or resolved."""
        if self.resolved_at is not None:
            return "resolved"
        return "acknowledged" if self.acknowledged_at is not None else "open"


def sentence(rule: str, facts: dict[str, Any], language: str = "en") -> str:
    """What is wrong, in one sentence; a sentence of its own tells of one job."""
    said = _said(language)["what"]
    one = facts.get("jobs", facts.get("due")) == 1
    return str(said.get(f"{rule}_one", said[rule]) if one else said[rule]).format(**facts)


def advice(rule: str, facts: dict[str, Any], language: str = "en") -> str:
    """What to do first."""
    return str(_said(language)["next"][rule]).format(**facts)


def word(kind: str, language: str = "en") -> str:
    """A word of a message, such as that of a severity."""
    return str(_said(language)["word"][kind])


@cache
def _said(language: str) -> dict[str, dict[str, str]]:
    text = resources.files("retoma.model").joinpath("alerts.toml").read_text(encoding="utf-8")
    said: dict[str, dict[str, str]] = tomllib.loads(text)[language]
    return said
