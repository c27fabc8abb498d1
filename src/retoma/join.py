"""A caller's own connection: what is queued on it commits, or not, with the caller's rows."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg

from retoma.commands import Command
from retoma.database import fetch, fetch_sync
from retoma.errors import ConfigurationError
from retoma.query import Array, Query, numbered

T = TypeVar("T")


async def run_on(connection: object, command: Command[T]) -> T:
    """Run *command* on an async connection of psycopg, SQLAlchemy or asyncpg, or on a blocking one."""
    rows: list[Any] | None = None
    try:
        while True:
            query = next(command) if rows is None else command.send(rows)
            rows = await _rows(connection, query)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def run_on_sync(connection: object, command: Command[T]) -> T:
    """Run *command* on a blocking connection of psycopg or SQLAlchemy."""
    rows: list[Any] | None = None
    try:
        while True:
            query = next(command) if rows is None else command.send(rows)
            rows = _rows_sync(connection, query)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def _rows(connection: object, query: Query[T]) -> list[T]:
    if isinstance(connection, psycopg.AsyncConnection):
        return await fetch(connection, query)
    kind = type(connection).__module__.partition(".")[0]
    if kind == "asyncpg":
        return await _asyncpg(connection, query)
    if kind == "sqlalchemy" and hasattr(connection, "run_sync"):
        # An AsyncSession or AsyncConnection lends its blocking twin inside run_sync.
        return await connection.run_sync(_sqlalchemy, query)  # type: ignore[no-any-return]
    return _rows_sync(connection, query)


def _rows_sync(connection: object, query: Query[T]) -> list[T]:
    if isinstance(connection, psycopg.Connection):
        return fetch_sync(connection, query)
    kind = type(connection).__module__.partition(".")[0]
    if kind == "sqlalchemy" and not hasattr(connection, "run_sync") and _lends(connection):
        return _sqlalchemy(connection, query)
    raise ConfigurationError(
        f"Jobs cannot be queued on a {type(connection).__module__}.{type(connection).__qualname__}.",
        next="Pass a psycopg connection, an SQLAlchemy session or connection (on psycopg or asyncpg), or an "
        "asyncpg connection.",
    )


def _lends(connection: object) -> bool:
    """A Connection or a Session, and not an Engine, whose transaction would be nobody's."""
    return hasattr(connection, "exec_driver_sql") or hasattr(connection, "connection")


async def _asyncpg(connection: Any, query: Query[T]) -> list[T]:
    text, names = numbered(query.sql)
    rows = await connection.fetch(text, *_listed(query, names))
    return [query.row(*row.values()) for row in rows]


def _listed(query: Query[T], names: tuple[str, ...]) -> tuple[Any, ...]:
    """The parameters in order; asyncpg writes arrays from lists, not from their text."""
    values = (query.params[name] for name in names)
    return tuple(list(each.values) if isinstance(each, Array) else each for each in values)


def _sqlalchemy(connection: Any, query: Query[T]) -> list[T]:
    if hasattr(connection, "connection") and callable(connection.connection):  # a Session lends its Connection
        connection = connection.connection()
    if connection.dialect.driver == "asyncpg":
        text, names = numbered(query.sql)
        result = connection.exec_driver_sql(text, _listed(query, names))
    else:
        result = connection.exec_driver_sql(query.sql, dict(query.params))
    return [query.row(*row) for row in result.fetchall()]
