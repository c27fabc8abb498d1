"""Hints that there is work. A hint may be lost without harm, because workers also poll."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from uuid import uuid4

import psycopg

from retoma.postgres.database import connection_options
from retoma.postgres.dedicated import Line
from retoma.system.settings import Settings
from retoma.telemetry import emit
from retoma.telemetry.events import HintsUnheard

CHANNEL = "retoma"


def listening(
    url: str, settings: Settings, queues: Collection[str], wake: Callable[[], None], *, hint: int | None = None
) -> Line:
    """A dedicated connection for claims. It calls *wake* when a job is enqueued in one of
    *queues* while no claim runs.
    """
    if settings.pooler == "transaction":
        emit(HintsUnheard(reason="a transaction pooler stands in between", poll=settings.poll_seconds))

    def heard(queue: str) -> None:
        if queue in queues:
            wake()

    def lost() -> None:
        emit(HintsUnheard(reason="the listening connection was lost", poll=settings.poll_seconds))

    return Line(url, settings, hot=True, hint=hint, channel=CHANNEL, heard=heard, made=wake, lost=lost)


def echo(url: str, settings: Settings, *, timeout: float = 2.0) -> float | None:
    """How many seconds a notification takes to come back to its sender; None when it does not come."""
    if settings.pooler == "transaction":
        return None
    # A channel of its own, so that no worker is woken.
    channel = f"{CHANNEL}_echo_{uuid4().hex}"
    with psycopg.connect(url, **connection_options(settings)) as connection:
        connection.execute(f"listen {channel}")
        began = time.monotonic()
        connection.execute(f"notify {channel}")
        for _hint in connection.notifies(timeout=timeout, stop_after=1):
            return time.monotonic() - began
    return None
