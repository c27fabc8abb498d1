"""An ending gets out of every room that Python has: handlers, groups, threads and other processes."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from retoma.errors import ConfigurationError
from retoma.model.endings import Ending, Postpone, Reject, Review, Skip, Suspend, ending_in
from retoma.model.job import AttemptEnding

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def stop() -> None:
    raise Skip("already classified")


async def stop_soon() -> None:
    await asyncio.sleep(0)
    stop()


async def test_a_handler_that_catches_every_exception_lets_an_ending_pass() -> None:
    async def handler() -> None:
        try:
            await stop_soon()
        except Exception:  # noqa: BLE001
            pytest.fail("swallowed")

    with pytest.raises(Skip):
        await handler()


async def test_an_ending_passes_gather_and_leaves_the_others_alone() -> None:
    with pytest.raises(Skip):
        await asyncio.gather(stop_soon(), asyncio.sleep(0))

    first, second = await asyncio.gather(stop_soon(), asyncio.sleep(0, "paid"), return_exceptions=True)
    assert isinstance(first, Skip)
    assert second == "paid"


async def test_an_ending_in_a_task_group_is_found_in_its_group() -> None:
    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            group.create_task(stop_soon())

    with pytest.raises(BaseExceptionGroup) as caught:
        await both()

    found = ending_in(BaseExceptionGroup("outer", [ValueError(), caught.value]))
    assert isinstance(found, Skip)
    assert ending_in(ValueError()) is None


async def test_an_ending_passes_threads_tasks_timeouts_and_shields() -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        ways: list[Any] = [
            asyncio.to_thread(stop),
            loop.run_in_executor(pool, stop),
            asyncio.create_task(stop_soon()),
            asyncio.wait_for(stop_soon(), 5),
            asyncio.shield(stop_soon()),
        ]
        for way in ways:
            with pytest.raises(Skip, match="already classified"):
                await way


def test_asyncio_run_hands_an_ending_on() -> None:
    with pytest.raises(Skip):
        asyncio.run(stop_soon())


@pytest.mark.parametrize(
    "ending",
    [
        Skip("done"),
        Reject("the PDF is encrypted"),
        Postpone(minutes=10),
        Postpone("closed", until=NOON),
        Review({"kind": "other"}, "confidence below 0.6"),
    ],
)
def test_an_ending_travels_between_processes(ending: Ending) -> None:
    for arrived in (pickle.loads(pickle.dumps(ending)), copy.copy(ending)):
        assert type(arrived) is type(ending)
        assert arrived.__dict__ == ending.__dict__
        assert str(arrived) == str(ending)


def test_endings_are_matched_by_what_they_say() -> None:
    def told(ending: Ending) -> tuple[Any, ...]:
        match ending:
            case Skip(reason) | Reject(reason):
                return (reason,)
            case Postpone(seconds, until, reason):
                return seconds, until, reason
            case Review(value, reason):
                return value, reason
        raise AssertionError

    assert told(Skip("a")) == ("a",)
    assert told(Reject("b")) == ("b",)
    assert told(Postpone("c", seconds=1, minutes=2, hours=3)) == (10921, None, "c")
    assert told(Postpone(until=NOON)) == (None, NOON, "")
    assert told(Review(7, "d")) == (7, "d")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"seconds": -1},
        {"minutes": float("nan")},
        {"hours": 10**9},
        {"until": NOON.replace(tzinfo=None)},
        {"until": NOON, "seconds": 1},
    ],
)
def test_a_postponement_needs_to_say_until_when(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="Postpone"):
        Postpone(**wrong)


def test_every_ending_of_the_tables_has_a_name() -> None:
    tables = (Path(__file__).parents[2] / "docs/reference/tables.md").read_text()
    row = next(line for line in tables.splitlines() if line.startswith("| `ending` |"))

    assert set(re.findall(r"`(\w+)`", row)) - {"ending"} == set(AttemptEnding)


def test_a_suspension_has_one_of_the_endings() -> None:
    assert Suspend("postponed").ending is AttemptEnding.POSTPONED
    with pytest.raises(ValueError, match="asleep"):
        Suspend("asleep")
