"""A job believes nothing that it is told of itself: its session, its owner and the bytes of its input are compared."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest
from sample_books import CountingEditor, book_text

from retoma import Retoma
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import NewBook
from retoma.pipelines.books.pipeline import summarise_book
from retoma.providers import BlobStore
from retoma.testing import drain


async def pieces(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


async def victim(books: Books, psql: psycopg.Connection, text: str) -> NewBook:
    """What the job of a new session was given."""
    id = (await books.summarise("livro.md", pieces(text))).session.id
    [[given]] = psql.execute(
        "select job.input from retoma.jobs as job join books.sessions as session on session.job_id = job.id "
        "where session.id = %s",
        [id],
    ).fetchall()
    return NewBook(**(given if isinstance(given, dict) else json.loads(given)))


def error_of(psql: psycopg.Connection, job: int) -> str:
    [[state, error]] = psql.execute("select state::text, error::text from retoma.jobs where id = %s", [job]).fetchall()
    assert state == "failed"
    return str(error)


@pytest.mark.parametrize("how", ["the input of another", "its own"])
async def test_a_job_that_is_not_the_session_s_own_changes_nothing(
    app: Retoma, books: Books, editor: CountingEditor, psql: psycopg.Connection, how: str
) -> None:
    theirs = await victim(books, psql, book_text())
    other = await victim(books, psql, book_text().replace("Capítulo", "Parte"))
    await drain(app)
    asked = list(editor.summarised)
    before = psql.execute("select * from books.checkpoints order by id").fetchall()
    forged = theirs if how == "its own" else replace(theirs, sha256=other.sha256, blob=other.blob)

    job = await app.enqueue(summarise_book, forged)
    await drain(app)

    assert "input_mismatch" in error_of(psql, job.id)
    assert psql.execute("select * from books.checkpoints order by id").fetchall() == before
    assert editor.summarised == asked


async def test_an_input_that_was_changed_in_the_store_is_not_read(
    app: Retoma, books: Books, editor: CountingEditor, psql: psycopg.Connection
) -> None:
    book = await victim(books, psql, book_text())
    blobs = app.provider(BlobStore)
    await blobs.delete(book.blob)
    await blobs.put(book.blob, pieces("## Capítulo 1\n\nFORGED"))

    await drain(app)

    [[job]] = psql.execute("select job_id from books.sessions").fetchall()
    assert "content_changed" in error_of(psql, job)
    assert editor.summarised == []
