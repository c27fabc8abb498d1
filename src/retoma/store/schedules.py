"""Queries about schedules."""

from __future__ import annotations

from datetime import datetime

from retoma.model.machine import ScheduleRun
from retoma.model.schedule import DueSchedule, Schedule
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "schedules.sql")


def _name(name: str) -> str:
    return name


def _id(id: int, *_: object) -> int:
    return id


def put(
    *,
    name: str,
    pipeline: str,
    queue: str,
    cron: str,
    zone: str,
    input: str,
    priority: int,
    max_attempts: int,
    timeout: float,
    next_run_at: datetime,
    declared: bool = False,
) -> Query[str]:
    params = {
        "name": name,
        "pipeline": pipeline,
        "queue": queue,
        "cron": cron,
        "zone": zone,
        "input": input,
        "priority": priority,
        "max_attempts": max_attempts,
        "timeout": timeout,
        "next_run_at": next_run_at,
        "declared": declared,
    }
    return Query(SQL["put"], _name, params)


def now() -> Query[datetime]:
    return Query(SQL["now"], lambda at: at)


def change(name: str, *, cron: str, zone: str, next_run_at: datetime) -> Query[str]:
    params = {"name": name, "cron": cron, "zone": zone, "next_run_at": next_run_at}
    return Query(SQL["change"], _name, params)


def due() -> Query[DueSchedule]:
    return Query(SQL["due"], DueSchedule)


def fire(name: str, due_at: datetime, next_run_at: datetime) -> Query[int]:
    return Query(SQL["fire"], _id, {"name": name, "due_at": due_at, "next_run_at": next_run_at})


def run_now(name: str) -> Query[int]:
    return Query(SQL["run_now"], _id, {"name": name})


def pause(name: str) -> Query[str]:
    return Query(SQL["pause"], _name, {"name": name})


def resume(name: str, next_run_at: datetime) -> Query[str]:
    return Query(SQL["resume"], _name, {"name": name, "next_run_at": next_run_at})


def remove(name: str) -> Query[str]:
    return Query(SQL["remove"], _name, {"name": name})


def all() -> Query[Schedule]:
    return Query(SQL["all"], Schedule)


def runs(*, each: int = 5) -> Query[ScheduleRun]:
    """*each* is how many of every schedule."""
    return Query(SQL["runs"], ScheduleRun, {"each": each})
