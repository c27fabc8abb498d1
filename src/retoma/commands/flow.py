"""Commands that read how queues move, and pause them. Each one yields queries and receives their rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from retoma.errors import ConfigurationError, NotFound
from retoma.model import validation
from retoma.model.machine import Depth, Pace, QueueState
from retoma.store import flow
from retoma.store import queues as store_queues
from retoma.store.query import Command


def queues() -> Command[list[QueueState]]:
    """Every queue, without its lanes."""
    depths: list[Depth] = yield flow.depths()
    paces: list[Pace] = yield flow.pace([each.name for each in depths])
    return [QueueState(depth, pace) for depth, pace in zip(depths, paces, strict=True)]


def queue(name: str) -> Command[QueueState]:
    """One queue, with its lanes."""
    found: list[Depth] = yield flow.depths(name=name)
    if not found:
        raise NotFound(f"There is no queue {name!r}.", next="'retoma queue list' shows them.")
    paces: list[Pace] = yield flow.pace([name])
    return QueueState(found[0], paces[0], lanes=(yield flow.lanes(name)))


def pause(name: str, *, reason: str, until: datetime | None, seconds: float | None) -> Command[datetime | None]:
    """Stop claims from a queue, until a time, for some seconds, or until somebody resumes it."""
    validation.text("reason", reason)
    validation.seconds("seconds", seconds)
    if until is not None and seconds is not None:
        raise ConfigurationError("until and seconds both say when the pause ends.", next="Say one of them.")
    if until is not None and until.tzinfo is None:
        raise ConfigurationError(f"{until.isoformat()} has no time zone.", next="Give it one.")
    ((ends, over),) = yield store_queues.pause(name, reason=reason, until=until, seconds=seconds)
    if over:
        raise ConfigurationError(
            f"A pause until {ends:%Y-%m-%d %H:%M:%S} UTC would be over already.", next="Name a later time."
        )
    return ends  # type: ignore[no-any-return]


def paused_by(names: Sequence[str]) -> Command[dict[str, str]]:
    """Who paused each of these queues."""
    return dict((yield flow.paused_by(names))) if names else {}
