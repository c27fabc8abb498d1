"""How things stand, for the audit: what anybody may know who may look, and never an input, a text or a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg

from retoma.pipelines.classification import standing
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


class TestPrompt:
    def test_its_name_and_its_hash_and_not_its_text(self, psql: psycopg.Connection) -> None:
        [[id]] = psql.execute(
            "insert into retoma.prompts (name, description, sha256) values ('p', 'SECRET', 'h') returning id"
        ).fetchall()

        assert stands(psql, standing.prompt, id)["sha256"] == "h"
        psql.execute("delete from retoma.prompts where name = 'p'")


class TestProject:
    def test_its_settings(self, psql: psycopg.Connection) -> None:
        [[id]] = psql.execute(
            "insert into retoma.projects (name, description) values ('l', 'SECRET') returning id"
        ).fetchall()

        assert stands(psql, standing.project, id)["mode"] == "chunk"
        psql.execute("delete from retoma.projects where name = 'l'")


class TestCode:
    def test_of_which_project_it_is(self, psql: psycopg.Connection) -> None:
        [[project]] = psql.execute("insert into retoma.projects (name) values ('l') returning id").fetchall()
        [[id]] = psql.execute(
            f"insert into retoma.project_documents (project_id, code) values ({project}, 'SECRET') returning id"
        ).fetchall()

        assert stands(psql, standing.code, id)["project"] == project
        psql.execute("delete from retoma.project_documents")
        psql.execute("delete from retoma.projects")


class TestExample:
    def test_who_said_what(self, psql: psycopg.Connection) -> None:
        [[id]] = psql.execute(
            "insert into classification.examples (project_id, document_id, label, source, decided_by) "
            "values (1, 1, 'ata', 'api', 'ana') returning id"
        ).fetchall()

        assert stands(psql, standing.example, id)["label"] == "ata"
        psql.execute("delete from classification.examples")
