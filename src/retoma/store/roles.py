"""Who may do what in the database, as queries; and what each role needs, as the file beside this one says it."""

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
    """A database, and who we are in it."""

    name: str
    owner: str
    account: str
    superuser: bool
    open_to_all: bool
    """Whether everybody has rights on the database that nobody gave them by name."""
    open_schema: bool
    """Whether everybody may create in the schema public, as before PostgreSQL 15."""
    lacks_vector: bool
    note: str | None
    """What is written beside the schema."""
    enters: bool
    """Whether we may use the schema."""
    owns: bool
    """Whether all tables of ours are this account's."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role that is there."""

    name: str
    beyond: list[str]
    """What it may do that no grant in this database says."""
    connects: bool
    creates: bool


@dataclass(frozen=True, slots=True)
class Object:
    """Something that has an owner."""

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
class Held:
    """What an account may do with one of them: with the whole, and with single columns ('update state')."""

    name: str
    whole: list[str]
    single: list[str]


def database() -> Query[Place]:
    return Query(SQL["database"], Place)


def named(names: Iterable[str]) -> Query[Role]:
    return Query(SQL["named"], Role, {"names": list(names)})


def objects(schemas: Iterable[str] | None) -> Query[Object]:
    """What is in *schemas*; None stands for all but those of PostgreSQL itself."""
    return Query(SQL["objects"], Object, {"schemas": None if schemas is None else list(schemas)})


def relations(schema: str = "retoma") -> Query[Relation]:
    return Query(SQL["relations"], Relation, {"schema": schema})


def held() -> Query[Held]:
    return Query(SQL["held"], Held)


@cache
def grants(package: str = "retoma.store.migrations") -> Mapping[str, Mapping[str, str]]:
    """What each role may do, by table, view or sequence and then by role, as the file in *package* says."""
    file = resources.files(package).joinpath("grants.toml")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    said: dict[str, dict[str, str]] = tomllib.loads(text)
    return {name: {part: " ".join(rights.split()) for part, rights in parts.items()} for name, parts in said.items()}
