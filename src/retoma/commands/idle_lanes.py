"""Takes lanes without ready jobs out of the claim scan, and removes empty lanes, one page at a time."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.store import queues
from retoma.store.query import Command

_PAGE = 1000


def rest(after: int) -> Command[int]:
    """Put the idle lanes after *after* to rest, and return where the next page begins (0 after the last). Run it in one
    transaction: the second statement sees every job that the first had to wait for.
    """
    found: list[queues.Page] = yield queues.idle_lanes(after=after, limit=_PAGE)
    if ids := _ids(found):
        yield queues.rest_lanes(ids)
    return found[0][0] or 0


def wake(after: int) -> Command[int]:
    """Wake resting lanes that have ready jobs: a program of an older version enqueued into them."""
    found: list[queues.Page] = yield queues.wake_lanes(after=after, limit=_PAGE)
    return found[0][0] or 0


def remove(after: int) -> Command[int]:
    """Remove empty lanes without settings of their own. Run it in one transaction, as *rest*."""
    found: list[queues.Page] = yield queues.empty_lanes(after=after, limit=_PAGE)
    if ids := _ids(found):
        yield queues.remove_lanes(ids)
    return found[0][0] or 0


def _ids(found: Sequence[queues.Page]) -> list[int]:
    return [id for _, id in found if id is not None]
