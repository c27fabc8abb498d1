"""Marks: whose code runs in each thread, as another process would read it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable

import pytest

from retoma.model.job import AttemptEnding
from retoma.store.jobs import BESIDE
from retoma.system import marks
from retoma.system.marks import LOOP, MARK, Mark, Marked, Marks
from retoma.system.threads import pool
from retoma.worker.executor_process import blamed_for_death
from retoma.worker.status_board import Note


@pytest.fixture
def view() -> memoryview:
    return memoryview(bytearray(16)).cast("H")


@pytest.fixture
def kept(view: memoryview, monkeypatch: pytest.MonkeyPatch) -> Marks:
    monkeypatch.setattr(marks, "_here", None)
    return marks.use(view)


async def as_job(kept: Marks, view: memoryview, number: int, work: Callable[[], Awaitable[object]]) -> Mark:
    """Run *work* as an executor runs the code of the job at place *number*."""
    mark = Mark(number)

    async def run() -> None:
        MARK.set(mark)
        await work()

    asyncio.get_running_loop().set_task_factory(kept.task)
    await asyncio.get_running_loop().create_task(Marked(run(), mark, view))
    return mark


async def test_a_job_is_marked_while_its_code_runs_and_not_while_it_waits(kept: Marks, view: memoryview) -> None:
    seen = []
    resume = asyncio.Event()

    async def work() -> None:
        seen.append(view[LOOP])
        await resume.wait()
        seen.append(view[LOOP])

    task = asyncio.create_task(as_job(kept, view, 4, work))
    while not seen:
        await asyncio.sleep(0)
    while_waiting = view[LOOP]
    resume.set()
    await task

    assert (seen, while_waiting, view[LOOP]) == ([4, 4], 0, 0)


async def test_the_tasks_that_a_job_starts_are_its_code_and_shared_work_is_not(kept: Marks, view: memoryview) -> None:
    seen: dict[str, int] = {}

    async def look(name: str) -> None:
        seen[name] = view[LOOP]

    async def work() -> None:
        await asyncio.gather(look("its own"), look("another of its own"))
        await asyncio.get_running_loop().create_task(look("shared"), context=marks.unmarked())
        await asyncio.create_task(look("after that"))

    await as_job(kept, view, 3, work)

    assert seen == {"its own": 3, "another of its own": 3, "shared": 0, "after that": 3}


async def test_a_thread_is_marked_for_the_time_of_the_call(kept: Marks, view: memoryview) -> None:
    seen: list[list[int]] = []
    threads = pool(2, "test", nice=0)

    def call() -> None:
        seen.append(list(view))
        with kept.lifted():
            seen.append(list(view))
        seen.append(list(view))

    async def work() -> None:
        await asyncio.get_running_loop().run_in_executor(threads, contextvars.copy_context().run, call)

    await as_job(kept, view, 2, work)
    threads.shutdown()

    assert [sorted(each[LOOP + 1 :]) for each in seen] == [[0] * 6 + [2], [0] * 7, [0] * 6 + [2]]
    assert not any(view)


async def test_a_thread_that_outlives_its_job_is_not_the_next_ones_code(kept: Marks, view: memoryview) -> None:
    go, begun = threading.Event(), threading.Event()
    threads = pool(1, "test", nice=0)

    def hang() -> None:
        begun.set()
        go.wait()

    async def work() -> None:
        asyncio.get_running_loop().run_in_executor(threads, hang)
        while not begun.is_set():
            await asyncio.sleep(0.001)

    mark = await as_job(kept, view, 2, work)
    marked = list(view)
    mark.over(view)
    after = list(view)
    go.set()
    threads.shutdown()

    assert (sum(marked), sum(after)) == (2, 0)


async def test_a_marked_coroutine_looks_like_any_other(kept: Marks, view: memoryview) -> None:
    async def fail() -> None:
        await asyncio.sleep(60)

    states = []

    async def work() -> None:
        task = asyncio.create_task(fail())
        await asyncio.sleep(0)
        states.append(inspect.getcoroutinestate(task.get_coro()))  # type: ignore[arg-type]
        task.cancel()
        states.append(await asyncio.gather(task, return_exceptions=True))

    await as_job(kept, view, 1, work)

    assert states[0] == inspect.CORO_SUSPENDED
    assert [type(each) for each in states[1]] == [asyncio.CancelledError]


def note(job: int, *, running: bool = False) -> Note:
    return Note(job, 1, 0.0, 60.0, "step", running=running)


def test_the_one_that_was_running_is_blamed_and_runs_alone_and_the_others_are_only_told() -> None:
    one, two, three = blamed_for_death([note(1), note(2, running=True), note(3)], "It died.", now=5.0)

    assert (two.ending, two.alone, two.reason) == (AttemptEnding.CRASHED, True, None)
    assert two.error == "It died. This job's code was running at that moment."
    for each in (one, three):
        assert (each.ending, each.alone, each.reason) == (AttemptEnding.RELEASED, False, BESIDE)
        assert each.error is not None
        assert "Job 2 was running" in each.error


def test_of_several_that_were_running_each_may_have_done_it_and_none_has_for_certain() -> None:
    one, two, three = blamed_for_death([note(1, running=True), note(2, running=True), note(3)], "It died.", now=5.0)

    assert [each.ending for each in (one, two, three)] == ["crashed", "crashed", "released"]
    assert not any(each.alone for each in (one, two, three))


def test_when_none_was_running_it_counts_against_each_that_had_begun() -> None:
    blamed = blamed_for_death([note(1), note(2)], "It died.", now=5.0)

    assert [(each.ending, each.alone) for each in blamed] == [("crashed", False), ("crashed", False)]
    assert all(each.error and "No job's code was running" in each.error for each in blamed)
