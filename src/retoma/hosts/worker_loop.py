"""A worker as the child of a cluster's process: started, kept alive, stopped.

The cluster keeps its own process alive and knows nothing of jobs; claims, leases, attempts and endings are
in PostgreSQL. The worker is a separate process, because a host may fork, and may run its code in threads
that receive no signals.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from retoma.app.loader import find_app
from retoma.errors import RetomaError
from retoma.telemetry.logs import log_to_stderr
from retoma.worker.supervisor import Worker

_log = logging.getLogger(__name__)

_YOUNG = 30.0  # seconds: a worker that dies sooner is restarted after a growing pause
_LONGEST_PAUSE = 30.0
_LOOK = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a loop works on: the arguments of ``app.worker``."""

    reference: str
    processes: int | None = None
    at_once: int | None = None
    queues: Sequence[str] | None = None
    label: str | None = None


class WorkerLoop:
    """Keeps one worker process alive until it is stopped."""

    def __init__(self, orders: Orders, environment: Mapping[str, str] | None = None) -> None:
        self._orders = orders
        self._environment = dict(environment or {})
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread(target=self._keep, name="retoma-worker-loop", daemon=True)

    def start(self) -> None:
        """Start the worker, and keep it alive in the background."""
        self._keeper.start()

    @property
    def pid(self) -> int | None:
        """The process of the worker, while there is one."""
        with self._lock:
            return self._child.pid if self._child and self._child.poll() is None else None

    def stop(self, within: float | None = None) -> None:
        """Drain the worker: running steps finish, the rest is released; after *within* seconds, without
        waiting for the steps.
        """
        self._stopping.set()
        with self._lock:
            child = self._child
        if child and child.stdin:
            with suppress(OSError, ValueError):  # it has ended already
                child.stdin.write(b"stop\n")
                child.stdin.flush()
        if child:
            try:
                child.wait(within)
            except subprocess.TimeoutExpired:
                child.kill()
        if self._keeper.is_alive():
            self._keeper.join()

    def _keep(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            with self._lock:
                if self._stopping.is_set():
                    return
                self._child = self._born()
            code = self._child.wait()
            if self._child.stdin:
                with suppress(OSError):
                    self._child.stdin.close()
            if self._stopping.is_set():
                return
            pause = 0.0 if time.monotonic() - began > _YOUNG else min(_LONGEST_PAUSE, 2 * pause + 0.1)
            _log.warning("The worker of %s ended with %s; another starts.", self._orders.reference, code)
            self._stopping.wait(pause)

    def _born(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "retoma.hosts.worker_loop", str(os.getpid()), json.dumps(asdict(self._orders))]
        return subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, **self._environment})


def main() -> int:
    """The child: work until its parent says stop, or is gone."""
    parent, orders = int(sys.argv[1]), Orders(**json.loads(sys.argv[2]))
    try:
        app = find_app(orders.reference)
        settings = app.settings
        label = orders.label or settings.worker_label
        log_to_stderr(level=settings.log_level, format=settings.log_format, label=label)
        asyncio.run(_work(app.worker(**asdict(orders)), parent))
    except RetomaError as error:
        _log.error("%s", error)
        return error.exit_code
    return 0


async def _work(worker: Worker, parent: int) -> None:
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _heard, worker)
    watch = asyncio.create_task(_watch(worker, parent))
    try:
        await worker.run()
    finally:
        watch.cancel()


def _heard(worker: Worker) -> None:
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    worker.stop()


async def _watch(worker: Worker, parent: int) -> None:
    """Check for the parent itself, because other children of the host may hold the pipe open."""
    while os.getppid() == parent:
        await asyncio.sleep(_LOOK)
    worker.stop()


if __name__ == "__main__":
    sys.exit(main())
