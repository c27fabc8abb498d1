"""Queries about database privileges; and the privileges that each role needs, from the file beside this one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "roles.sql")


@dataclass(frozen=True, slots=True)
class Place:
    """A database, and the account that is connected to it."""

    name: str
    owner: str
    account: str
    superuser: bool
    open_to_all: bool
    """Whether PUBLIC has privileges on the database."""
    open_schema: bool
    """Whether PUBLIC may create objects in the schema public, as before PostgreSQL 15."""
    lacks_vector: bool
    note: str | None
    """The comment on the schema."""
    enters: bool
    """Whether the account may use the schema."""
    owns: bool
    """Whether the account owns all our tables."""


@dataclass(frozen=True, slots=True)
class Role:
    """An existing role."""

    name: str
    beyond: list[str]
    """Privileges that come from no grant in this database."""
    connects: bool
    creates: bool


@dataclass(frozen=True, slots=True)
class Object:
    """A database object with an owner."""

    kind: str
    identity: str
    owner: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, a view or a sequence of ours."""

    name: str
    sequence: bool
    columns: list[str]

    def fitting(self, rights: str) -> str:
        """*rights* without the columns that this revision of the tables does not have."""

        def there(found: re.Match[str]) -> str:
            columns = [each for each in found[2].split(", ") if each in self.columns]
            return f"{found[1]} ({', '.join(columns)})" if columns else ""

        return ", ".join(filter(None, re.sub(r"\b(\w+) \(([^()]*)\)", there, rights).split(", ")))


@dataclass(frozen=True, slots=True)
class Privileges:
    """An account's privileges on one relation: on the whole, and on single columns ('update state')."""

    name: str
    whole: list[str]
    single: list[str]


def database() -> Query[Place]:
    return Query(SQL["database"], Place)


def named(names: Iterable[str]) -> Query[Role]:
    return Query(SQL["named"], Role, {"names": list(names)})


def objects(schemas: Iterable[str] | None) -> Query[Object]:
    """What is in *schemas*; None means all except those of PostgreSQL itself."""
    return Query(SQL["objects"], Object, {"schemas": None if schemas is None else list(schemas)})


def relations(schema: str = "retoma") -> Query[Relation]:
    return Query(SQL["relations"], Relation, {"schema": schema})


def held() -> Query[Privileges]:
    return Query(SQL["held"], Privileges)


@cache
def grants(package: str = "retoma.store.migrations") -> Mapping[str, Mapping[str, str]]:
    """The privileges of each role, by relation and then by role, from the file in *package*."""
    file = resources.files(package).joinpath("grants.toml")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    said: dict[str, dict[str, str]] = tomllib.loads(text)
    return {name: {part: " ".join(rights.split()) for part, rights in parts.items()} for name, parts in said.items()}
