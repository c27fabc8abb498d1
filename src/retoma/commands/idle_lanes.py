"""Lanes that have nothing to give rest, so that no claim looks at them; those that are empty go. A page at a time."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.store import queues
from retoma.store.query import Command

_PAGE = 1000


def rest(after: int) -> Command[int]:
    """Let those of the lanes behind *after* rest that have nothing to give now. Where the next page begins; 0 after the
    last. In one transaction: the second statement sees every job that the first had to wait for.
    """
    found: list[queues.Page] = yield queues.idle_lanes(after=after, limit=_PAGE)
    if ids := _ids(found):
        yield queues.rest_lanes(ids)
    return found[0][0] or 0


def wake(after: int) -> Command[int]:
    """Wake those that rest although they have something to give: a program of an older version put it there."""
    found: list[queues.Page] = yield queues.wake_lanes(after=after, limit=_PAGE)
    return found[0][0] or 0


def remove(after: int) -> Command[int]:
    """Remove those that are empty and have no setting of their own. In one transaction, as *rest*."""
    found: list[queues.Page] = yield queues.empty_lanes(after=after, limit=_PAGE)
    if ids := _ids(found):
        yield queues.remove_lanes(ids)
    return found[0][0] or 0


def _ids(found: Sequence[queues.Page]) -> list[int]:
    return [id for _, id in found if id is not None]
