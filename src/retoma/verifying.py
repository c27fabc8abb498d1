"""Whether the tables are sound: every invariant, recomputed from the rows."""

from __future__ import annotations

from retoma.batch import Breach
from retoma.commands import Command
from retoma.fingerprints import checksum
from retoma.store import verify

_SWEEPS = 6.0  # times the pause between two sweeps: a lease that ended longer ago should have been found


def breaches(*, sweep_seconds: float) -> Command[list[Breach]]:
    """What does not hold; nothing, when all is well."""
    found: list[Breach] = yield verify.breaches(sweep=_SWEEPS * sweep_seconds)
    after = (0, "", 0)
    while rows := (yield verify.saved(after)):
        after = (rows[-1].job_id, rows[-1].step, rows[-1].generation)
        found += [
            Breach("a checkpoint is as it was saved", f"job {each.job_id}, step {each.step}", "its checksum is another")
            for each in rows
            if checksum(each.value) != each.checksum
        ]
    return found
