"""Faults for real workers: kill -9, a freeze beyond the lease, connections that are cut."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from retoma.bench.machine import family
from retoma.demo.stage import LEASE, Worker

KINDS = {"executor killed": 4, "worker killed": 2, "executor frozen": 2, "worker frozen": 1, "connections cut": 2}
"""What is done to workers, and how often beside the others."""
LABELS = ("ana", "bruno", "clara")
_FREEZE = (0.2, 1.5)
"""How long a process stands still, in leases: some are taken for dead meanwhile, and some are not."""


class Death(NamedTuple):
    """A process that held jobs, and when it was killed."""

    pid: int
    at: float


class Frozen(NamedTuple):
    """Processes that stand still until a time of the monotonic clock."""

    pids: list[int]
    until: float


@dataclass(slots=True)
class Faults:
    """Three workers, what was done to them, and what has yet to be undone."""

    start: Callable[[str], Worker]
    cut: Callable[[], object]
    tell: Callable[[str, str], None]
    """Called with the kind of a fault and the label of its worker."""
    chance: Random
    exits: ExitStack
    done: Counter[str] = field(default_factory=Counter)
    deaths: list[Death] = field(default_factory=list)
    workers: dict[str, Worker] = field(default_factory=dict)
    frozen: list[Frozen] = field(default_factory=list)

    def keep_alive(self) -> None:
        """Start who has ended, and let go on who stood still for long enough."""
        for label in LABELS:
            if label not in self.workers or self.workers[label].ended():
                self.workers[label] = self.exits.enter_context(self.start(label))
        now = time.monotonic()
        for each in [each for each in self.frozen if each.until <= now]:
            self.frozen.remove(each)
            _send(each.pids, signal.SIGCONT)

    def strike(self) -> bool:
        """One fault, by chance; False when the worker that was chosen had no executor yet."""
        kind = self.chance.choices(list(KINDS), weights=list(KINDS.values()))[0]
        label = self.chance.choice(LABELS)
        worker, executors = self.workers[label], executors_of(self.workers[label].pid)
        if not executors:
            return False
        match kind:
            case "executor killed":
                self._kill([self.chance.choice(executors)])
            case "worker killed":
                self._kill([worker.pid, *executors])
            case "executor frozen":
                self._freeze([self.chance.choice(executors)])
            case "worker frozen":
                self._freeze([worker.pid, *executors])
            case _:
                self.cut()
        self.done[kind] += 1
        self.tell(kind, label)
        return True

    def heal(self) -> None:
        """Wake all that stand still."""
        for each in self.frozen:
            _send(each.pids, signal.SIGCONT)
        self.frozen.clear()

    def _kill(self, pids: list[int]) -> None:
        # Stopped first, so that a supervisor cannot say a last word for the executors that die before it.
        _send(pids, signal.SIGSTOP)
        self.deaths += [Death(pid, time.time()) for pid in pids]
        _send(pids, signal.SIGKILL)

    def _freeze(self, pids: list[int]) -> None:
        _send(pids, signal.SIGSTOP)
        self.frozen.append(Frozen(pids, time.monotonic() + self.chance.uniform(*_FREEZE) * LEASE))


def executors_of(supervisor: int) -> list[int]:
    """The executors of a worker that live."""
    found = []
    for pid in family(supervisor)[1:]:
        with suppress(OSError):
            if b"retoma.worker.executor_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
