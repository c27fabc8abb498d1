"""How things stand, for the audit: what anybody may know who may look, and never an input, a text or a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg

from retoma.pipelines.documents import standing
from retoma.store.query import Query


def stands(psql: psycopg.Connection, ask: Callable[[str], Query[str]], id: object) -> dict[str, Any]:
    """How it stands; one that is not there, or whose id makes no sense, gives nothing."""
    for nobody in ("999999", "99999999999999999999", "no-such-thing", "00000000-0000-4000-8000-000000000000", ""):
        query = ask(nobody)
        assert psql.execute(query.sql, query.params).fetchall() == []
    query = ask(str(id))
    [[text]] = psql.execute(query.sql, query.params).fetchall()
    assert "SECRET" not in text
    found: dict[str, Any] = json.loads(text)
    return found


class TestDocument:
    def test_its_size_and_its_hash_and_not_its_name(self, psql: psycopg.Connection) -> None:
        psql.execute("delete from retoma.documents")
        [[id]] = psql.execute(
            "insert into retoma.documents (filename, kind, mime_type, size, sha256, blob)"
            " values ('SECRET.pdf', 'pdf', 'application/pdf', 9, 'h', 'b') returning id"
        ).fetchall()

        assert stands(psql, standing.document, id)["size"] == 9
        psql.execute("delete from retoma.documents")
