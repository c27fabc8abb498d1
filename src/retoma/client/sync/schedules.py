"""Schedules over HTTP."""

# Made by tools/sync.py from client/schedules.py; change that one.

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

from retoma.client.sync.async_transport import Transport
from retoma.client.values import Queued, as_text, value_of, values_of
from retoma.model.ids import JobId
from retoma.model.machine import ScheduleRun
from retoma.model.schedule import Schedule


class Rescheduling(TypedDict, total=False):
    """What of a schedule may be changed; what is left out stays."""

    cron: str
    zone: str
    input: Any


class Schedules:
    """Schedules of a server: jobs that are enqueued by the clock."""

    def __init__(self, transport: Transport) -> None:
        self._server = transport

    def all(self) -> list[Schedule]:
        """The schedules, by name; their inputs are null where the key may not see content."""
        return [_schedule(each) for each in (self._server.ask("listSchedules"))["schedules"]]

    def get(self, name: str) -> Schedule:
        """A schedule; its input is null where the key may not see content."""
        return _schedule(self._server.ask("getSchedule", name=name))

    def runs(self, name: str | None = None) -> dict[str, list[ScheduleRun]]:
        """The jobs that each schedule queued last, five of each, newest first; or twenty of the one called *name*."""
        if name is None:
            told = (self._server.ask("listSchedules"))["schedules"]
        else:
            told = [self._server.ask("getSchedule", name=name)]
        return {each["name"]: values_of(ScheduleRun, each["runs"], schedule=each["name"]) for each in told}

    def create(self, pipeline: str, input: Any, *, name: str, cron: str, zone: str = "UTC") -> Schedule:
        """Enqueue a job of *pipeline* over *input*, a JSON value, at each time of *cron*. A taken name is refused."""
        body = {"name": name, "pipeline": pipeline, "input": input, "cron": cron, "zone": zone}
        return _schedule(self._server.ask("createSchedule", body=body))

    def change(self, name: str, **changes: Unpack[Rescheduling]) -> Schedule:
        """Let a schedule come at another time, or with another input."""
        return _schedule(self._server.ask("changeSchedule", name=name, body=changes))

    def remove(self, name: str) -> None:
        """Forget a schedule; jobs that it enqueued stay."""
        self._server.ask("deleteSchedule", name=name)

    def run(self, name: str) -> JobId:
        """Enqueue a schedule's job now and return its id; the next regular time stays."""
        return value_of(Queued, self._server.ask("runSchedule", name=name)).id

    def pause(self, name: str) -> None:
        """Pause a schedule."""
        self._server.ask("pauseSchedule", name=name)

    def resume(self, name: str) -> Schedule:
        """Resume a schedule from its next regular time."""
        return _schedule(self._server.ask("resumeSchedule", name=name))


def _schedule(told: Mapping[str, Any]) -> Schedule:
    return value_of(Schedule, as_text(told, "input"), now=datetime.now(UTC))
