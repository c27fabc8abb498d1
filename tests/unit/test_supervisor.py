"""How long a supervisor rests before it starts the next executor."""

from __future__ import annotations

import pytest

from retoma import Retoma, Run, pipeline
from retoma.worker.supervisor import Worker

LIVES = 6


@pipeline("nothing")
async def nothing(_: int, run: Run) -> None:
    del run


async def rests(monkeypatch: pytest.MonkeyPatch, *, useful: bool) -> list[float]:
    """The pauses between executors that die as soon as they are started, *useful* when each completed a job."""
    worker: Worker = Retoma(pipelines=[nothing]).worker(reference="nowhere:app")
    lives, pauses = 0, []

    async def one_life(*_: object, **__: object) -> bool:
        nonlocal lives
        lives += 1
        worker._stopping = int(lives >= LIVES)
        return useful

    async def rest(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(worker, "_one_life", one_life)
    monkeypatch.setattr(worker, "_rest", rest)
    await worker._keep_one(0)
    return pauses


async def test_the_pause_grows_while_executors_die_before_they_have_done_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = await rests(monkeypatch, useful=False)

    assert len(pauses) == LIVES - 1, "the first death is mended at once"
    assert pauses == sorted(set(pauses))


async def test_an_executor_that_has_done_something_is_replaced_at_once_however_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await rests(monkeypatch, useful=True) == []
