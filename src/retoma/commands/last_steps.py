"""The last step of a batch: the row of its job follows what was decided in the row of its batch.

The statement that ends the last of the other jobs opens the last step; nothing here is needed for that. When other jobs
come back after it began, the batch says so at once and the job follows here: its checkpoints are set aside, and it
waits again. The command that brings jobs back does this, and the watchdog does what was left.
"""

from __future__ import annotations

from collections.abc import Collection

from retoma.store import batches
from retoma.store.batches import Owing, Piece
from retoma.store.query import Command


def follow(ids: Collection[int] | None = None) -> Command[list[int]]:
    """Let the last steps of these batches follow, or of all that need it. Returns the batches that were settled."""
    found: list[Owing] = yield batches.owing(ids)
    settled = []
    for each in found:
        # A job that somebody has locked at this moment is left to the next round.
        if not each.owed or (yield from _moved(each)):
            yield batches.settle(each.id, followed=True)
            settled.append(each.id)
    return settled


def _moved(owing: Owing) -> Command[bool]:
    if owing.finishing == "waiting":
        return any(seen.moved for seen in (yield batches.restart(owing.id, Piece(ids=[owing.job_id]))))
    return bool((yield batches.dismiss(owing.id, owing.job_id)))
