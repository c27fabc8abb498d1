"""Commands that read how queues move. Each one yields queries and receives their rows."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.errors import NotFound
from retoma.model.machine import Depth, Pace, QueueState
from retoma.store import flow
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


def paused_by(names: Sequence[str]) -> Command[dict[str, str]]:
    """Who paused each of these queues."""
    return dict((yield flow.paused_by(names))) if names else {}
