"""Queries about checkpoints: what the steps of a job have returned."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.model.job import Checkpoint, NewCheckpoint, Redone, Saved, Stood
from retoma.store.query import Query, array, load

SQL = load("retoma.store.queries", "checkpoints.sql")


def _job_and_step(job_id: int, step: str) -> tuple[int, str]:
    return job_id, step


def _step_and_generation(step: str, generation: int) -> tuple[str, int]:
    return step, generation


def of(job_id: int, *, short: int = 65_536, together: int = 4_000_000) -> Query[Saved]:
    """The values longer than *short* bytes, and those past the first *together* bytes in total, are left out."""
    return Query(SQL["of"], Saved, {"job_id": job_id, "short": short, "together": together})


def value(job_id: int, step: str, generation: int) -> Query[str]:
    return Query(SQL["value"], str, {"job_id": job_id, "step": step, "generation": generation})


def save(worker_id: int, new: Sequence[NewCheckpoint]) -> Query[tuple[int, str]]:
    """*new* must be sorted by job id: that is the lock order."""
    params = {
        "worker_id": worker_id,
        "jobs": array([each.job_id for each in new]),
        "fences": array([each.fence for each in new]),
        "steps": array([each.step for each in new]),
        "saved_values": array([each.value for each in new]),
        "checksums": array([each.checksum for each in new]),
        "fingerprints": array([each.fingerprint for each in new]),
        "input_hashes": array([each.input_hash for each in new]),
        "seconds": array([each.seconds for each in new]),
    }
    return Query(SQL["save"], _job_and_step, params)


def saved(new: Sequence[NewCheckpoint]) -> Query[tuple[int, str]]:
    params = {
        "jobs": [each.job_id for each in new],
        "fences": [each.fence for each in new],
        "steps": [each.step for each in new],
        "checksums": [each.checksum for each in new],
    }
    return Query(SQL["saved"], _job_and_step, params)


def set_aside(
    job_id: int,
    *,
    reason: str,
    step: str | None = None,
    generation: int | None = None,
    fence: int | None = None,
) -> Query[tuple[str, int]]:
    params = {"job_id": job_id, "step": step, "generation": generation, "reason": reason, "fence": fence}
    return Query(SQL["set_aside"], _step_and_generation, params)


def history(
    job_id: int, *, values: bool = True, after: Stood | None = None, limit: int | None = None
) -> Query[Checkpoint]:
    saved_at, step, generation = after or (None, None, None)
    place = {"saved_at": saved_at, "step": step, "generation": generation}
    return Query(SQL["history"], Checkpoint, {"job_id": job_id, "values": values, **place, "limit": limit})


def again(job_id: int, *, step: str | None) -> Query[Redone]:
    return Query(SQL["again"], Redone, {"job_id": job_id, "step": step})
