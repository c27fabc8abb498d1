"""Rows of books, made and asked for by hand."""

from __future__ import annotations

from typing import TypeVar

import psycopg

from retoma.pipelines.books import sessions
from retoma.pipelines.books.model import Input
from retoma.store.query import Query

T = TypeVar("T")


def ask(connection: psycopg.Connection, query: Query[T]) -> list[T]:
    return [query.row(*row) for row in connection.execute(query.sql, query.params).fetchall()]


def kept(psql: psycopg.Connection, sha256: str = "a") -> str:
    ask(psql, sessions.keep_input(Input(sha256, "livro.md", "txt", 10, f"files/{sha256}")))
    return sha256


def begun(psql: psycopg.Connection, id: str = "s", sha256: str | None = "a", configuration: str = "c") -> list[str]:
    if sha256 is not None:
        kept(psql, sha256)
    new = sessions.begin(
        id, title="Livro", input_sha256=sha256, configuration={"model": "one"}, configuration_hash=configuration
    )
    return ask(psql, new)


def job(psql: psycopg.Connection, state: str = "queued") -> int:
    """A row of the engine's, in a state that it allows."""
    row = psql.execute(
        "insert into retoma.jobs (queue, pipeline, input, max_attempts, timeout_seconds, state, finished_at) "
        "values ('books', 'books', '{}', 5, 60, %s, case when %s = 'queued' then null else now() end) returning id",
        [state, state],
    ).fetchone()
    assert row is not None
    return int(row[0])
