"""Group commits: what comes while a statement is on its way goes with the next one."""

import asyncio

import psycopg
import pytest
from psycopg_pool import PoolClosed

from retoma.postgres.group_commit import GroupCommit
from retoma.system.concurrency import Coalescer, cancel_and_wait, finish_before_cancel, wait_for_leader


class Statements:
    """Writes down what was written; a statement takes until the gate is open."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, batch: list[int]) -> None:
        await self.gate.wait()
        self.written.append(batch)


async def test_one_alone_is_written_at_once() -> None:
    statements = Statements()
    commits = GroupCommit(statements.write)
    commits.put(1)
    await commits.idle()

    assert statements.written == [[1]]


async def test_those_who_are_ready_at_the_same_moment_go_together() -> None:
    statements = Statements()
    commits = GroupCommit(statements.write)
    for number in range(5):
        commits.put(number)
    await commits.idle()

    assert statements.written == [[0, 1, 2, 3, 4]]


async def test_what_comes_while_a_statement_is_on_its_way_goes_with_the_next() -> None:
    statements = Statements()
    statements.gate.clear()
    commits = GroupCommit(statements.write)
    commits.put(1)
    await asyncio.sleep(0.01)
    for number in (2, 3, 4):
        commits.put(number)
        await asyncio.sleep(0)
    assert len(commits) == 3
    statements.gate.set()
    await commits.idle()

    assert statements.written == [[1], [2, 3, 4]]
    assert len(commits) == 0


async def test_a_statement_has_a_largest_size_and_the_order_is_kept() -> None:
    statements = Statements()
    commits = GroupCommit(statements.write, most=3)
    for number in range(8):
        commits.put(number)
    await commits.idle()

    assert statements.written == [[0, 1, 2], [3, 4, 5], [6, 7]]


async def test_nothing_to_write_is_idle_at_once() -> None:
    commits = GroupCommit(Statements().write)

    await commits.idle()


async def test_what_is_put_while_somebody_waits_for_idleness_is_waited_for_too() -> None:
    statements = Statements()
    statements.gate.clear()
    commits = GroupCommit(statements.write)
    commits.put(1)
    idle = asyncio.create_task(commits.idle())
    await asyncio.sleep(0.01)
    commits.put(2)
    statements.gate.set()
    await idle

    assert statements.written == [[1], [2]]


async def test_one_that_is_refused_for_its_own_data_goes_alone_and_the_others_are_written() -> None:
    written: list[int] = []
    refused: list[tuple[int, str]] = []
    statements = 0

    async def write(batch: list[int]) -> None:
        nonlocal statements
        statements += 1
        if 57 in batch:
            raise ValueError("not this one")
        written.extend(batch)

    def refuse(each: int, error: Exception) -> int | None:
        refused.append((each, str(error)))
        return 1057

    commits = GroupCommit(write, most=200, refuse=refuse)
    for number in range(200):
        commits.put(number)
    async with asyncio.timeout(20):
        await commits.idle()

    assert refused == [(57, "not this one")]
    assert sorted(written) == sorted({*range(200), 1057} - {57})
    assert statements < 40, "it is found by halves, not one by one"


async def test_a_group_that_the_database_could_not_write_is_kept_and_written_in_halves() -> None:
    tried: list[int] = []
    written: list[int] = []

    async def write(batch: list[int]) -> None:
        tried.append(len(batch))
        if len(tried) <= 3:
            raise psycopg.errors.QueryCanceled("statement timeout")
        written.extend(batch)

    commits = GroupCommit(write, most=8)
    for number in range(20):
        commits.put(number)
    async with asyncio.timeout(20):
        await commits.idle()

    assert tried == [8, 4, 2, 1, 2, 4, 8, 5]
    assert sorted(written) == list(range(20))


async def test_one_that_cannot_be_written_does_not_hold_up_the_others() -> None:
    written: list[int] = []
    gate = False

    async def write(batch: list[int]) -> None:
        if 0 in batch and not gate:
            raise psycopg.errors.InternalError_("cache lookup failed")
        written.extend(batch)

    commits = GroupCommit(write, most=4)
    for number in range(10):
        commits.put(number)
    async with asyncio.timeout(20):
        while len(written) < 9:
            await asyncio.sleep(0.01)
    assert set(commits) == {0}
    gate = True
    async with asyncio.timeout(20):
        await commits.idle()

    assert sorted(written) == list(range(10))


async def test_groups_are_cut_by_bytes_and_a_long_one_goes_alone() -> None:
    statements = Statements()
    commits = GroupCommit(statements.write, most=100, most_bytes=10, size=lambda number: number)
    for number in (4, 4, 4, 50, 3, 3, 3):
        commits.put(number)
    await commits.idle()

    assert statements.written == [[4, 4], [4], [50], [3, 3, 3]]


async def test_what_write_gives_back_is_written_with_the_next_statement() -> None:
    written: list[list[int]] = []

    async def write(batch: list[int]) -> list[int]:
        written.append(batch)
        return batch[1:] if len(written) == 1 else []

    commits = GroupCommit(write)
    for number in range(3):
        commits.put(number)
    await commits.idle()

    assert written == [[0, 1, 2], [1, 2]]


async def test_a_pool_that_was_closed_is_not_waited_for() -> None:
    refused: list[int] = []

    async def write(_batch: list[int]) -> None:
        raise PoolClosed("closed")

    commits = GroupCommit(write, refuse=lambda each, _error: refused.append(each))
    for number in range(5):
        commits.put(number)
    async with asyncio.timeout(20):
        await commits.idle()

    assert refused == list(range(5))


async def test_when_one_in_the_background_fails_its_leader_s_caller_hears_of_it() -> None:
    async def fail() -> None:
        raise ValueError("the ticks have stopped")

    async def nothing() -> None: ...

    leader = asyncio.create_task(asyncio.sleep(60))
    with pytest.raises(ValueError, match="the ticks have stopped"):
        await wait_for_leader(leader, asyncio.create_task(nothing()), asyncio.create_task(fail()))
    leader.cancel()

    await wait_for_leader(asyncio.create_task(nothing()), other := asyncio.create_task(asyncio.sleep(60)))
    other.cancel()


async def test_seeing_through_gives_what_the_future_gives() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(finish_before_cancel(future))
    await asyncio.sleep(0)
    future.set_result(7)

    assert await waiting == 7


async def test_who_is_cancelled_while_seeing_through_still_waits_until_it_is_done() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(finish_before_cancel(future))
    await asyncio.sleep(0)
    for _ in range(3):
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done()
    future.set_exception(ValueError("nobody asks for it any more"))

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_many_want_at_once_is_done_at_once_and_each_gets_its_own() -> None:
    done: list[list[int]] = []

    async def double(numbers: list[int]) -> list[int]:
        done.append(numbers)
        await asyncio.sleep(0)
        return [2 * number for number in numbers]

    together = Coalescer(double, most=3)

    assert await asyncio.gather(*map(together, range(5))) == [0, 2, 4, 6, 8]
    assert done == [[0, 1, 2], [3, 4]]


async def test_a_failure_is_told_to_everybody_of_its_group_and_to_nobody_else() -> None:
    async def refuse_one(numbers: list[int]) -> list[int]:
        if 1 in numbers:
            raise ValueError("one")
        return numbers

    together = Coalescer(refuse_one, most=2)

    first, second, third = await asyncio.gather(*map(together, (0, 1, 2)), return_exceptions=True)
    assert (str(first), str(second), third) == ("one", "one", 2)
    assert await together(3) == 3


async def test_who_goes_away_does_not_keep_the_others_from_their_results() -> None:
    gate = asyncio.Event()

    async def slowly(numbers: list[int]) -> list[int]:
        await gate.wait()
        return numbers

    together = Coalescer(slowly)
    impatient, patient = asyncio.create_task(together(1)), asyncio.create_task(together(2))
    await asyncio.sleep(0.01)
    impatient.cancel()
    gate.set()

    assert await patient == 2
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_who_loses_the_word_to_stop_is_told_again() -> None:
    told = 0

    async def deaf() -> None:
        nonlocal told
        while told < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                told += 1  # as a wait with a time limit does that ends at this very moment
        raise ValueError("and ends badly")

    tasks = [asyncio.create_task(deaf()), asyncio.create_task(asyncio.sleep(60))]
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await cancel_and_wait(*tasks)

    assert told == 2
