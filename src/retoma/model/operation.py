"""Operations over all batches: which jobs they concern, and what a dry run finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import orjson

ACTIONS = {
    "retry": ("failed",),
    "cancel": ("queued", "running"),
    "restart": ("failed",),
    "move": ("queued",),
    "priority": ("queued",),
    "discard": ("failed",),
    "reinstate": ("failed",),
}
"""What can be done to many jobs, and to jobs in which states unless the filter says more."""

ALLOWED = {
    "retry": frozenset({"failed", "cancelled", "review"}),
    "cancel": frozenset({"queued", "running"}),
    "restart": frozenset({"completed", "skipped", "failed", "review", "cancelled"}),
    "move": frozenset({"queued"}),
    "priority": frozenset({"queued"}),
    "discard": frozenset({"failed"}),
    "reinstate": frozenset({"failed"}),
}
"""To jobs in which states it can be done at all."""

SKIPPED = ("already", "busy", "discarded", "house", "in_batch", "in_lane", "later", "pruned", "state")
"""Why an operation passes over a job that its filter finds: it is so already; another operation works on its batch; a
person has settled it as not to be retried; it is the engine's own; it waits in the lane of its batch, or in another
lane, which belongs to a queue; it ended after the decision; its batch is being deleted; its state has changed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs of any batch; what is None or empty does not filter. With *ids*, those jobs alone."""

    states: tuple[str, ...] = ()
    pipeline: str | None = None
    queue: str | None = None
    batch_id: int | None = None
    fingerprint: str | None = None
    """The group of equal errors."""
    key_prefix: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    ids: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """As JSON, without what does not filter."""
        return orjson.dumps({name: value for name, value in asdict(self).items() if value not in (None, ())}).decode()

    @classmethod
    def read(cls, text: str) -> JobFilter:
        """Back from JSON."""
        said: dict[str, Any] = orjson.loads(text)
        for name in ("states", "ids"):
            said[name] = tuple(said.get(name, ()))
        for name in ("created_after", "created_before"):
            if said.get(name):
                said[name] = datetime.fromisoformat(said[name])
        return cls(**said)


@dataclass(frozen=True, slots=True)
class Sampled:
    """One of the jobs that an operation would change."""

    id: int
    pipeline: str
    key: str | None
    state: str
    batch_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What an operation would do now. When it is not *exact*, there is more than was counted."""

    action: str
    filter: JobFilter
    jobs: int
    skipped: dict[str, int] = field(default_factory=dict)
    sample: list[Sampled] = field(default_factory=list)
    batches: int = 0
    """In how many batches, of those that were counted."""
    exact: bool = True
