"""What is forked from the nursery is killed as what was started is: it shares nothing with anybody."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from fleet import Fleet, lives, until
from nursery import FORKS

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not FORKS, reason="EXPLORE starts every program anew"),
]


def sockets(pid: int) -> set[str]:
    """Its connections, by their number in the kernel."""
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(each.readlink().name)
    return {each for each in found if each.startswith("socket:")}


async def test_a_forked_worker_has_its_own_group_connections_and_executors(fleet: Fleet) -> None:
    workers = [fleet.start(label) for label in ("ana", "bruno")]
    executors = [(await worker.ready())[0] for worker in workers]
    processes = [*(worker.pid for worker in workers), *executors]
    await until(lambda: all(sockets(pid) for pid in processes), what="each has connections")

    assert [psutil.Process(pid).ppid() for pid in executors] == [worker.pid for worker in workers]
    assert [os.getpgid(pid) for pid in processes] == 2 * [worker.pid for worker in workers]
    held = [sockets(pid) for pid in processes]
    assert len(set.union(*held)) == sum(map(len, held)), "two of them hold the same connection"


async def test_a_forked_worker_that_is_killed_takes_its_executors_along_and_no_other(fleet: Fleet) -> None:
    killed, other = fleet.start("ana"), fleet.start("bruno")
    mine, others = [[psutil.Process(pid) for pid in await worker.ready()] for worker in (killed, other)]

    killed.send(signal.SIGKILL)

    assert await killed.exit_code() == -signal.SIGKILL
    await until(lambda: not any(map(lives, mine)), what="its executors are gone")
    assert all(map(lives, others))
    assert await fleet.start("clara").ready(), "and the nursery goes on"


async def test_a_forked_program_ends_with_its_own_code_and_its_own_words(fleet: Fleet) -> None:
    refused = fleet.run("refused", {}, "no-such-command")
    told = fleet.run("told", {"LANGUAGE": "pt"}, "--help")

    assert (await refused.exit_code(), await told.exit_code()) == (2, 0)
    assert "no-such-command" in refused.words()
    assert "no-such-command" not in told.words()
