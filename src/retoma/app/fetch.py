"""Run a query on a connection that the caller holds, inside the caller's transaction."""

from __future__ import annotations

from typing import TypeVar

from retoma.commands.jobs import only
from retoma.postgres.connections import run_on
from retoma.store.query import Query

T = TypeVar("T")


async def fetch(connection: object, query: Query[T]) -> list[T]:
    """The rows of *query* on a connection of psycopg, SQLAlchemy or asyncpg, such as the one from ``run.transact``."""
    return await run_on(connection, only(query))
