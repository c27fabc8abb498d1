"""The statement that is sent most often by itself, without the driver's cursor.

A cursor looks at the text, the parameters and the state of its connection anew for every statement, which costs as much
as all else that an enqueue does in this process. Here the statement is prepared once for each connection, and its
parameters are sent as text; the statement casts each one. Sending, waiting and cancelling stay with the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from retoma.store.query import Query, numbered

_PLAIN = frozenset((str, int, float, bool, type(None)))
_FORGOTTEN = frozenset(("26000", "0A000"))  # the server does not know the statement any more, or its tables changed


class Quick:
    """The prepared statements of one connection of ours."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self._names: dict[str, bytes] = {}
        self._reader = Transformer(connection)
        self._fit = connection.info.encoding == "utf-8" and connection.prepare_threshold is not None

    def can(self, query: Query[Any]) -> bool:
        """Whether *query* may be sent in this way now. In a transaction it may not: an error would end that."""
        connection = self._connection
        return (
            self._fit
            and query.plain
            and connection.pgconn.transaction_status == TransactionStatus.IDLE
            and not connection.pgconn.pipeline_status
            and not connection.lock.locked()
            and all(type(each) in _PLAIN for each in query.params.values())
        )

    async def rows(self, query: Query[Any]) -> list[tuple[Any, ...]] | None:
        """The rows; None when the cursor must send the statement after all. Nothing has happened then."""
        text, parameters = numbered(query.sql)
        values = [_text(query.params[each]) for each in parameters]
        connection, pgconn = self._connection, self._connection.pgconn
        async with connection.lock:
            if (name := self._names.get(text)) is None:
                name = b"retoma_%d" % len(self._names)
                pgconn.send_prepare(name, text.encode())
                _checked(await connection.wait(execute(pgconn)))
                self._names[text] = name
            pgconn.send_query_prepared(name, values)
            results = await connection.wait(execute(pgconn))
            try:
                result = _checked(results)
            except psycopg.Error as error:
                if error.sqlstate not in _FORGOTTEN:
                    raise
                self._fit = False  # the cursor serves this connection from now on
                return None
            self._reader.set_pgresult(result)
            return self._reader.load_rows(0, result.ntuples, tuple)


def _text(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, str) and "\0" in value:
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return str(value).encode()


def _checked(results: Sequence[PGresult]) -> PGresult:
    (result,) = results
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise error_from_result(result)
    return result
