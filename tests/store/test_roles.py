"""The blocks of roles.sql."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest

from retoma.postgres.database import fetch_sync
from retoma.store import roles


@pytest.fixture
def owner(parts: dict[str, str]):
    with psycopg.connect(parts["owner"], autocommit=True) as connection:
        yield connection


class TestDatabase:
    def test_where_we_are_as_whom_and_what_everybody_may_do(
        self, parts: dict[str, str], owner: psycopg.Connection
    ) -> None:
        (found,) = fetch_sync(owner, roles.database())

        assert found.name == urlsplit(parts["owner"]).path.removeprefix("/")
        assert (found.superuser, found.open_to_all, found.open_schema) == (False, False, False)
        assert str(found.note).startswith("roles ")
        assert (found.account, found.enters, found.owns) == (urlsplit(parts["owner"]).username, True, True)


class TestNamed:
    def test_those_that_are_there_and_what_they_may_beyond_their_grants(
        self, parts: dict[str, str], owner: psycopg.Connection
    ) -> None:
        worker = str(urlsplit(parts["worker"]).username)

        (found,) = fetch_sync(owner, roles.named([worker, "nobody of this name"]))

        assert (found.name, found.beyond, found.connects, found.creates) == (worker, [], True, False)


class TestObjects:
    def test_every_table_of_ours_belongs_to_the_owner(self, parts: dict[str, str], owner: psycopg.Connection) -> None:
        found = fetch_sync(owner, roles.objects(["retoma"]))

        assert {("table", "retoma.jobs"), ("schema", "retoma")} <= {(each.kind, each.identity) for each in found}
        assert {each.owner for each in found} == {urlsplit(parts["owner"]).username}
        assert fetch_sync(owner, roles.objects(["no_such_schema"])) == []


class TestRelations:
    def test_the_tables_and_sequences_with_their_columns(self, owner: psycopg.Connection) -> None:
        found = {each.name: each for each in fetch_sync(owner, roles.relations())}

        assert (found["jobs"].sequence, found["jobs_id_seq"].sequence) == (False, True)
        assert {"id", "state", "fence"} <= set(found["jobs"].columns)


class TestHeld:
    def test_rights_on_the_whole_and_on_single_columns(self, parts: dict[str, str], owner: psycopg.Connection) -> None:
        with psycopg.connect(parts["worker"]) as worker:
            found = {each.name: each for each in fetch_sync(worker, roles.held())}

        assert (found["events"].whole, found["events"].single) == (["select", "insert", "delete"], [])
        assert (found["audit"].whole, sorted(found["audit"].single)) == (
            ["insert", "delete"],
            ["select at", "select id"],
        )
        assert (found["jobs_id_seq"].whole, found["api_keys"].whole) == (["usage"], [])
        assert "truncate" in next(each.whole for each in fetch_sync(owner, roles.held()) if each.name == "jobs")
