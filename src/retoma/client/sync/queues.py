"""Queues over HTTP."""

# Made by tools/sync.py from client/queues.py; change that one.

from __future__ import annotations

from datetime import datetime

from retoma.client.sync.async_transport import Transport
from retoma.client.values import given, value_of, values_of
from retoma.model.machine import QueueState
from retoma.model.queue import Queue


class Queues:
    """Queues of a server: pause, resume and weight them; limit a lane."""

    def __init__(self, transport: Transport) -> None:
        self._server = transport

    def all(self) -> list[Queue]:
        """The queues, with how many jobs wait and run in each."""
        return values_of(Queue, (self._server.ask("listQueues"))["queues"])

    def get(self, name: str) -> QueueState:
        """A queue with its lanes, how fast it moves, and how long its jobs wait and run. The number of a lane, and
        whether somebody set its limit, stay on the server.
        """
        told = self._server.ask("getQueue", name=name)
        lanes = [{**each, "id": 0, "kept": False} for each in told["lanes"]]
        return value_of(QueueState, told, depth=told, pace={**told["pace"], "name": name}, lanes=lanes)

    def pause(
        self, name: str, *, reason: str = "person", until: datetime | None = None, seconds: float | None = None
    ) -> datetime | None:
        """Stop claims from a queue; running jobs continue. With *until*, or for so many *seconds*, it goes on by
        itself. Returns when that is.
        """
        body = {"reason": reason, **given(until=until, seconds=seconds)}
        self._server.ask("pauseQueue", name=name, body=body)
        return (self.get(name)).depth.paused_until

    def resume(self, name: str) -> None:
        """Allow claims from a queue again."""
        self._server.ask("resumeQueue", name=name)

    def weigh(self, name: str, weight: int) -> None:
        """Give a queue *weight* turns for one turn of the others."""
        self._server.ask("weighQueue", name=name, body={"weight": weight})

    def limit_lane(self, queue: str, lane: str, *, at_once: int | None) -> None:
        """Let at most *at_once* jobs of a lane run at the same time; None lifts the limit."""
        self._server.ask("limitLane", name=queue, body={"lane": lane, "at_once": at_once})
