"""What the doctor, the page of the system and the API know of a database, asked for at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retoma.app.extension import branches_of
from retoma.app.retoma import Retoma
from retoma.model.health import Health
from retoma.model.machine import DutyRound, TableSize
from retoma.model.schedule import Schedule
from retoma.model.upkeep import Overstay
from retoma.model.worker import Presence
from retoma.store import duties, health, schedules, workers
from retoma.store.health import Revision
from retoma.store.together import together


class Facts(NamedTuple):
    """A database as it is now."""

    health: Health
    """Without the path of a job, which *app.system.tried* adds."""
    revision: Revision
    sizes: Sequence[TableSize]
    rounds: Sequence[DutyRound]
    overstays: Sequence[Overstay]
    unserved: Sequence[Schedule]
    """The schedules that do not rest and whose jobs none of those who work now would take."""


async def facts(app: Retoma) -> Facts:
    """The facts, in one statement."""
    schemas = [branch.schema for branch in branches_of(app.extensions)]
    query = together(
        health.look(),
        health.revision(),
        health.sizes(schemas),
        duties.all(),
        health.overstays(app.settings.retention_days * 86_400.0),
        schedules.all(),
        workers.all(),
    )
    (found,) = await app.fetch(query)
    looked, revision, sizes, rounds, overstays, every, working = found
    return Facts(looked[0], revision[0], sizes, rounds, overstays, unserved(every, working))


def unserved(every: Sequence[Schedule], working: Sequence[Presence]) -> Sequence[Schedule]:
    """Of *every* schedule those that do not rest and whose jobs none of those who work now would take."""
    served = {name for worker in working if worker.alive for name in worker.pipelines}
    found = [each for each in every if not each.paused_at and each.pipeline not in served]
    return found if served else []  # when nobody works, it is not the schedules that are wrong
