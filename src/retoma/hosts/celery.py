"""Worker loops beside Celery: every ``celery worker`` of an app also runs a worker of Retoma.

Celery's broker carries none of our jobs. Whatever restarts ``celery worker`` after a crash restarts the loop, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from celery import Celery, bootsteps  # type: ignore[import-untyped]  # it has no types

from retoma.hosts.worker_loop import Orders, WorkerLoop


def host(
    celery: Celery,
    reference: str,
    *,
    processes: int | None = None,
    at_once: int | None = None,
    queues: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Make each ``celery worker`` of *celery* run a worker of the Retoma app at *reference* (module:attribute).

    The worker has the name of the Celery node. A warm shutdown of the node drains it; after a cold one, or the loss of
    the node, other workers take its jobs.
    """

    class RetomaLoop(bootsteps.StartStopStep):  # type: ignore[misc]  # its base has no types
        """Starts with the node, and stops with it."""

        requires = ("celery.worker.components:Pool",)

        def __init__(self, node: Any, **_: Any) -> None:
            orders = Orders(
                reference=reference, processes=processes, at_once=at_once, queues=queues, label=node.hostname
            )
            self._loop = WorkerLoop(orders, environment)

        def start(self, _: Any) -> None:
            self._loop.start()

        def stop(self, _: Any) -> None:
            self._loop.stop()

        def terminate(self, _: Any) -> None:
            self._loop.stop(within=0)

    celery.steps["worker"].add(RetomaLoop)
