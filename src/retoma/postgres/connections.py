"""Runs commands on a caller's own connection, so that they commit or roll back with the caller's rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from retoma.errors import ConfigurationError
from retoma.postgres.database import Database, fetch, fetch_sync
from retoma.store.query import Array, Command, Query, numbered

T = TypeVar("T")


class _Marks(NamedTuple):
    """The statements around a command that must run as a whole."""

    begin: str
    undo: tuple[str, ...]
    keep: str


_RELEASE = "release savepoint retoma"
_SAVEPOINT = _Marks("savepoint retoma", ("rollback to savepoint retoma", _RELEASE), _RELEASE)
_TRANSACTION = _Marks("begin", ("rollback",), "commit")


async def run_on(connection: object, command: Command[T]) -> T:
    """Run *command* on an async connection of psycopg, SQLAlchemy or asyncpg, or on a blocking one."""
    rows: list[Any] | None = None
    try:
        while True:
            query = next(command) if rows is None else command.send(rows)
            rows = await _rows(connection, query)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


class CommandRunner:
    """Runs commands on an app's open database, or on a connection of the caller's own."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database

    async def _ask(self, command: Command[T], conn: object = None) -> T:
        if conn is not None:
            return await run_on(conn, command)
        async with self._database().connection() as connection:
            return await run_on(connection, command)


def run_on_sync(connection: object, command: Command[T]) -> T:
    """Run *command* on a blocking connection of psycopg or SQLAlchemy."""
    rows: list[Any] | None = None
    try:
        while True:
            query = next(command) if rows is None else command.send(rows)
            rows = _rows_sync(connection, query)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def run_whole_on(connection: object, command: Command[T]) -> T:
    """As run_on, all or none: when *command* raises, its changes are rolled back even if the caller then commits."""
    marks = await _begin(connection)
    try:
        done = await run_on(connection, command)
    except BaseException:
        with suppress(Exception):  # a lost connection has rolled back already, and the first error is the one to raise
            for each in marks.undo:
                await _say(connection, each)
        raise
    await _say(connection, marks.keep)
    return done


def run_whole_on_sync(connection: object, command: Command[T]) -> T:
    """The same, on a blocking connection."""
    marks = _begin_sync(connection)
    try:
        done = run_on_sync(connection, command)
    except BaseException:
        with suppress(Exception):
            for each in marks.undo:
                _say_sync(connection, each)
        raise
    _say_sync(connection, marks.keep)
    return done


def _kind(connection: object) -> str:
    """The driver of this connection; a subclass counts as its base class."""
    homes = (each.__module__.partition(".")[0] for each in type(connection).__mro__)
    return next((home for home in homes if home in ("asyncpg", "sqlalchemy")), "")


async def _begin(connection: Any) -> _Marks:
    if isinstance(connection, psycopg.AsyncConnection) or _kind(connection) == "asyncpg":
        marks = _marks(connection)
        await connection.execute(marks.begin)
        return marks
    if _kind(connection) == "sqlalchemy" and hasattr(connection, "run_sync"):
        return await connection.run_sync(_begin_sqlalchemy)  # type: ignore[no-any-return]
    return _begin_sync(connection)


def _begin_sync(connection: Any) -> _Marks:
    if isinstance(connection, psycopg.Connection):
        marks = _marks(connection)
        connection.execute(marks.begin)
        return marks
    if not _is_blocking(connection):
        raise _unfit(connection)
    return _begin_sqlalchemy(connection)


def _begin_sqlalchemy(connection: Any) -> _Marks:
    lent = _lent(connection)
    alone = lent.connection.dbapi_connection.autocommit and _marks(lent.connection.driver_connection) is _TRANSACTION
    marks = _TRANSACTION if alone else _SAVEPOINT
    lent.exec_driver_sql(marks.begin)
    return marks


def _marks(connection: Any) -> _Marks:
    """A transaction for a connection in autocommit, otherwise a savepoint in the caller's transaction."""
    if _kind(connection) == "asyncpg":
        return _SAVEPOINT if connection.is_in_transaction() else _TRANSACTION
    alone = connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
    return _TRANSACTION if alone else _SAVEPOINT


async def _say(connection: Any, text: str) -> None:
    if isinstance(connection, psycopg.AsyncConnection) or _kind(connection) == "asyncpg":
        await connection.execute(text)
    elif hasattr(connection, "run_sync"):
        await connection.run_sync(_say_sync, text)
    else:
        _say_sync(connection, text)


def _say_sync(connection: Any, text: str) -> None:
    if isinstance(connection, psycopg.Connection):
        connection.execute(text)
    else:
        _lent(connection).exec_driver_sql(text)


async def _rows(connection: object, query: Query[T]) -> list[T]:
    if isinstance(connection, psycopg.AsyncConnection):
        return await fetch(connection, query)
    kind = _kind(connection)
    if kind == "asyncpg":
        return await _asyncpg(connection, query)
    if kind == "sqlalchemy" and hasattr(connection, "run_sync"):
        # An AsyncSession or AsyncConnection provides its blocking counterpart inside run_sync.
        return await connection.run_sync(_sqlalchemy, query)  # type: ignore[no-any-return]
    return _rows_sync(connection, query)


def _rows_sync(connection: object, query: Query[T]) -> list[T]:
    if isinstance(connection, psycopg.Connection):
        return fetch_sync(connection, query)
    if _is_blocking(connection):
        return _sqlalchemy(connection, query)
    raise _unfit(connection)


def _is_blocking(connection: object) -> bool:
    """Whether this is a Connection or a Session of SQLAlchemy. An Engine does not count, because its transaction
    would not be the caller's.
    """
    lends = hasattr(connection, "exec_driver_sql") or hasattr(connection, "connection")
    return lends and not hasattr(connection, "run_sync") and _kind(connection) == "sqlalchemy"


def _unfit(connection: object) -> ConfigurationError:
    return ConfigurationError(
        f"Jobs cannot be queued on a {type(connection).__module__}.{type(connection).__qualname__}.",
        next="Pass a psycopg connection, an SQLAlchemy session or connection (on psycopg or asyncpg), or an "
        "asyncpg connection.",
    )


def _lent(connection: Any) -> Any:
    """The Connection of a Session, or the Connection itself."""
    lends = hasattr(connection, "connection") and callable(connection.connection)
    return connection.connection() if lends else connection


async def _asyncpg(connection: Any, query: Query[T]) -> list[T]:
    text, names = numbered(query.sql)
    rows = await connection.fetch(text, *_listed(query, names))
    return [query.row(*row.values()) for row in rows]


def _listed(query: Query[T], names: tuple[str, ...]) -> tuple[Any, ...]:
    """The parameters in order. asyncpg encodes arrays from lists, not from their text."""
    values = (query.params[name] for name in names)
    return tuple(list(each.values) if isinstance(each, Array) else each for each in values)


def _sqlalchemy(connection: Any, query: Query[T]) -> list[T]:
    connection = _lent(connection)
    if connection.dialect.driver == "asyncpg":
        text, names = numbered(query.sql)
        result = connection.exec_driver_sql(text, _listed(query, names))
    else:
        result = connection.exec_driver_sql(query.sql, dict(query.params))
    return [query.row(*row) for row in result.fetchall()]
