"""Ctrl-C in a terminal reaches every process that runs there, whatever that process is just doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from retoma import Settings
from retoma.system.signals import holding_ctrl_c
from retoma.worker.executor_process import Process

TOLD_AND_IGNORED = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
from retoma.system.signals import ignore_ctrl_c
ignore_ctrl_c()
"""


async def test_an_executor_that_is_still_starting_is_not_ended_by_ctrl_c(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    assert settings.database_url
    executor = Process(
        1, "nowhere:app", database_url=settings.database_url, settings=settings, queues=[], at_once=1, apart=False
    )

    os.kill(executor.pid, signal.SIGINT)  # it imports for a while before it can say that it ignores this
    await executor.gone
    executor.close()

    assert "nowhere" in capfd.readouterr().err, "it lives to say that there is no such program"


def test_ctrl_c_that_is_held_back_ends_no_child_and_is_not_lost_to_its_parent() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with holding_ctrl_c():
            child = subprocess.Popen([sys.executable, "-c", TOLD_AND_IGNORED])
            os.kill(os.getpid(), signal.SIGINT)
            held = not heard
    finally:
        signal.signal(signal.SIGINT, before)

    assert child.wait() == 0
    assert held
    assert heard == [signal.SIGINT]
