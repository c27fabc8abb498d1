"""What was read is stored whole, given back as it was, and replaced, never added to."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest

from retoma.pipelines.documents import contents
from retoma.pipelines.documents.model import Chunk
from retoma.providers import Field, Table
from retoma.store.query import Query

T = TypeVar("T")
FIELDS = [
    Field(name="Valor", value='R$ 10 "à vista"', confidence=0.5, page=2),
    Field(name="b", value="c", confidence=1),
]
TABLES = [Table(rows=[["a", "b"], ["1", ""]], page=1), Table(rows=[["ç"]])]
CHUNKS = [
    Chunk(0, "A rescisão do contrato", "cláusula", "Cláusula 1ª", 1, 2, 8),
    Chunk(1, "O resto", "texto_geral", None, 2, 2, 3),
]


def ask(connection: psycopg.Connection, query: Query[T]) -> list[T]:
    return [query.row(*row) for row in connection.execute(query.sql, query.params).fetchall()]


@pytest.fixture
def id(psql: psycopg.Connection) -> UUID:
    row = psql.execute(
        "insert into retoma.documents (filename, kind, mime_type, size, sha256, blob)"
        " values ('a', 'txt', 'text/plain', 1, 'a', 'a') returning id"
    ).fetchone()
    assert row is not None
    return row[0]


def put(psql: psycopg.Connection, id: UUID) -> None:
    ask(psql, contents.put_fields(id, FIELDS))
    ask(psql, contents.put_tables(id, TABLES))
    ask(psql, contents.put_chunks(id, CHUNKS, [[0.25, -1.5], [1, 0]], provider="local", model="m"))


class TestPutFields:
    def test_places_are_in_order(self, psql: psycopg.Connection, id: UUID) -> None:
        assert ask(psql, contents.put_fields(id, FIELDS)) == [0, 1]
        assert ask(psql, contents.put_fields(uuid4(), [])) == []


class TestPutTables:
    def test_places_are_in_order(self, psql: psycopg.Connection, id: UUID) -> None:
        assert ask(psql, contents.put_tables(id, TABLES)) == [0, 1]


class TestPutChunks:
    def test_a_chunk_is_kept_with_its_vector_and_its_words(self, psql: psycopg.Connection, id: UUID) -> None:
        put(psql, id)

        rows = psql.execute(
            "select provider, model, dimensions, vector, words @@ to_tsquery('portuguese', 'rescisao')"
            " from retoma.document_chunks order by place"
        ).fetchall()
        assert rows == [("local", "m", 2, [0.25, -1.5], True), ("local", "m", 2, [1.0, 0.0], False)]

    def test_a_section_of_no_known_type_is_refused(self, psql: psycopg.Connection, id: UUID) -> None:
        with pytest.raises(psycopg.errors.CheckViolation):
            ask(psql, contents.put_chunks(id, [Chunk(0, "a", "verso", None, 1, 1, 1)], [[1]], provider="p", model="m"))

    def test_what_has_no_document_is_refused(self, psql: psycopg.Connection) -> None:
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            put(psql, uuid4())


class TestFields:
    def test_they_come_back_as_they_were(self, psql: psycopg.Connection, id: UUID) -> None:
        put(psql, id)

        assert ask(psql, contents.fields(id)) == FIELDS


class TestTables:
    def test_they_come_back_as_they_were(self, psql: psycopg.Connection, id: UUID) -> None:
        put(psql, id)

        assert ask(psql, contents.tables(id)) == TABLES


class TestChunks:
    def test_they_come_back_as_they_were(self, psql: psycopg.Connection, id: UUID) -> None:
        put(psql, id)

        assert ask(psql, contents.chunks(id)) == CHUNKS


class TestClear:
    def test_nothing_of_the_document_is_left_and_nothing_of_others_is_touched(
        self, psql: psycopg.Connection, id: UUID
    ) -> None:
        put(psql, id)
        assert ask(psql, contents.clear(uuid4())) == [0]
        assert ask(psql, contents.chunks(id)) == CHUNKS

        assert ask(psql, contents.clear(id)) == [2]

        assert [ask(psql, each(id)) for each in (contents.fields, contents.tables, contents.chunks)] == [[], [], []]
