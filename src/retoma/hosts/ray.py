"""Worker loops on Ray: actors that Ray restarts wherever it has room, each with a worker of Retoma.

No job passes through Ray. An actor that is lost with its node comes back on another; its jobs are in PostgreSQL.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from retoma.hosts.worker_loop import Orders, WorkerLoop

NAMESPACE = "retoma"


class LoopActor:
    """One worker of Retoma, as long as its actor lives."""

    def __init__(self, orders: Orders, environment: Mapping[str, str]) -> None:
        self._loop = WorkerLoop(orders, environment)
        self._loop.start()

    def pid(self) -> int | None:
        """The process of the worker, while there is one."""
        return self._loop.pid

    def stop(self) -> None:
        """Drain the worker: running steps finish, the rest is released."""
        self._loop.stop()


def start(
    reference: str,
    *,
    loops: int = 1,
    processes: int | None = None,
    at_once: int | None = None,
    queues: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    name: str = "worker",
    **options: Any,
) -> list[Any]:
    """Run *loops* workers of the Retoma app at *reference* on the cluster that this program is connected to.

    The actors are named *name*-1, *name*-2, … and outlive this program; existing ones are left alone. They are spread
    over the nodes, and restarted without limit. *options* go to Ray: num_cpus, resources, runtime_env.
    """
    ray = importlib.import_module("ray")
    kept = {"max_restarts": -1, "max_task_retries": 0, "num_cpus": 1, "scheduling_strategy": "SPREAD", **options}
    actors = []
    for number in range(1, loops + 1):
        label = f"{name}-{number}"
        orders = Orders(reference=reference, processes=processes, at_once=at_once, queues=queues, label=label)
        actor = ray.remote(LoopActor).options(
            name=label, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, max_concurrency=2, **kept
        )
        actors.append(actor.remote(orders, dict(environment or {})))
    return actors


def stop(*, loops: int = 1, name: str = "worker") -> None:
    """Drain the workers that *start* started under *name*, and remove their actors."""
    ray = importlib.import_module("ray")
    found = []
    for number in range(1, loops + 1):
        try:
            found.append(ray.get_actor(f"{name}-{number}", namespace=NAMESPACE))
        except ValueError:  # there is no such actor
            continue
    asked = [(actor, actor.stop.remote()) for actor in found]
    for actor, stopped in asked:
        with suppress(ray.exceptions.RayActorError):  # between two lives: a loop ends with its actor
            ray.get(stopped)
        ray.kill(actor, no_restart=True)
