"""Roles: four database accounts, each with exactly the privileges that its part of the system needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any, Self

import psycopg
from psycopg import sql

from retoma.errors import ConfigurationError
from retoma.postgres.database import fetch_sync
from retoma.store import roles
from retoma.store.roles import Place, Role

_NOTE = "roles "
_ENGINE = {"retoma": "retoma.store.migrations"}
_ATTRIBUTES = "login nosuperuser nocreatedb nocreaterole noreplication nobypassrls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The names of the four roles."""

    owner: str
    """Owns the schema and its objects; changes the tables ('retoma db upgrade') and creates keys."""
    worker: str
    """Runs jobs: 'retoma worker', 'retoma watchdog'."""
    web: str
    """Serves: 'retoma serve', and programs that enqueue."""
    reader: str
    """Reads, and changes nothing."""

    @classmethod
    def of(cls, database: str, **given: str | None) -> Self:
        """The *given* names; the others are named after the database, because roles belong to the whole server."""
        names = {each.name: given.get(each.name) or f"{database}_{each.name}" for each in fields(cls)}
        if len(set(names.values())) < len(names):
            raise ConfigurationError("Two parts of the house have the same role.", next="Give each a name of its own.")
        return cls(**names)

    @property
    def names(self) -> tuple[str, ...]:
        return astuple(self)

    @property
    def running(self) -> tuple[str, ...]:
        """The roles that own nothing."""
        return self.names[1:]


def known(connection: psycopg.Connection[Any]) -> Roles | None:
    """The roles of this database, from the comment on its schema. None when it has none, or when one of them is
    missing: a database that was copied to another server has the comment and not the roles.
    """
    (place,) = fetch_sync(connection, roles.database())
    if place.note is None or not place.note.startswith(_NOTE):
        return None
    noted = Roles(**json.loads(place.note.removeprefix(_NOTE)))
    there = fetch_sync(connection, roles.named(noted.names))
    return noted if len(there) == len(noted.names) else None


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the connection, by its privileges."""

    name: str
    superuser: bool
    owns: bool
    """Whether it owns the tables."""
    part: str | None
    """The role that it has, or is nearest to; None where there are no tables yet."""
    lacks: list[str]
    """What that role needs, and this account may not do."""
    exceeds: list[str]
    """What a role created for that part may do beyond it."""


def account(connection: psycopg.Connection[Any]) -> Account:
    """The account of *connection*, and the privileges that it lacks or has in excess for its part."""
    (place,) = fetch_sync(connection, roles.database())
    relations = fetch_sync(connection, roles.relations())
    noted = known(connection)
    part = next((part for part, name in asdict(noted).items() if name == place.account), None) if noted else None
    if place.superuser or place.owns or not relations:
        return Account(place.account, place.superuser, place.owns, part, [], [])
    if part == "owner":
        return Account(place.account, False, False, part, ["the tables, which are another's"], [])
    held = {each.name: _rights(each.whole, each.single) for each in fetch_sync(connection, roles.held())}
    needed = {each: _needed(relations, each) for each in ([part] if part else _RUNNING)}
    # An account with privileges granted by hand counts as the role that it can be, or is nearest to.
    nearest = min(needed, key=lambda each: len(_beyond(needed[each], held)))
    lacks = ([] if place.enters else ["usage on the schema"]) + _told(_beyond(needed[nearest], held))
    exceeds = []
    if part is not None:
        (role,) = fetch_sync(connection, roles.named([place.account]))
        exceeds = role.beyond + _told(_beyond(held, needed[nearest]))
    return Account(place.account, False, False, nearest, lacks, exceeds)


_RUNNING = ("worker", "web", "reader")
_Rights = dict[str, set[tuple[str, str]]]
"""By table: each privilege with its column, or with an empty text for the whole table."""


def _rights(whole: list[str], single: list[str]) -> set[tuple[str, str]]:
    columns = (each.partition(" ") for each in single)
    return {(right, "") for right in whole} | {(right, column) for right, _, column in columns}


def _needed(relations: list[roles.Relation], part: str) -> _Rights:
    said = roles.grants()
    needed = {}
    for relation in relations:
        fitting = relation.fitting(said.get(relation.name, {}).get(part, ""))
        needed[relation.name] = {
            (right, column)
            for right, columns in re.findall(r"(\w+)(?: \(([^()]*)\))?", fitting)
            for column in columns.split(", ")
        }
    return needed


def _beyond(some: _Rights, others: _Rights) -> _Rights:
    """What is in *some* and not in *others*; a privilege on the whole table covers each column."""
    left = {
        name: {each for each in rights if each not in others[name] and (each[0], "") not in others[name]}
        for name, rights in some.items()
    }
    return {name: rights for name, rights in left.items() if rights}


def _told(rights: _Rights) -> list[str]:
    said = []
    for name, each in sorted(rights.items()):
        for right in sorted({right for right, _ in each}):
            columns = ", ".join(sorted(column for found, column in each if found == right and column))
            said.append(f"{right} ({columns}) on {name}" if columns else f"{right} on {name}")
    return said


def script(
    connection: psycopg.Connection[Any], wanted: Roles, schemas: Mapping[str, str] = _ENGINE, *, takes: bool = True
) -> list[str]:
    """The statements that give *wanted* their privileges in this database, as it is now. They contain no password.
    *schemas* names the package with the grants of each schema. Other privileges of the roles are revoked, unless
    *takes* is False: older programs may still need them.
    """
    (place,) = fetch_sync(connection, roles.database())
    there = {role.name: role for role in fetch_sync(connection, roles.named(wanted.names))}
    _refuse_the_mighty(there, wanted, place)
    parts: list[sql.Composable] = [
        *_made(there, wanted, place),
        *_entered(there, wanted, place),
        *(part for schema in schemas for part in _owned(connection, wanted, schema)),
        *(each for place in schemas.items() for each in _granted(connection, wanted, *place, takes=takes)),
        sql.SQL("comment on schema retoma is {}").format(sql.Literal(_NOTE + json.dumps(asdict(wanted)))),
    ]
    return [part.as_string(connection) for part in parts]


def apply(
    connection: psycopg.Connection[Any], wanted: Roles, schemas: Mapping[str, str] = _ENGINE, *, takes: bool = True
) -> None:
    """Run the script in the transaction of *connection*."""
    for statement in script(connection, wanted, schemas, takes=takes):
        connection.execute(statement.encode())


def encrypt(connection: psycopg.Connection[Any], role: str, password: str) -> None:
    """Set the password of *role*. The server receives only the hash that it stores."""
    kept = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("alter role {} password {}").format(sql.Identifier(role), sql.Literal(kept)))


def _refuse_the_mighty(there: dict[str, Role], wanted: Roles, place: Place) -> None:
    for role in there.values():
        # The owner may be an account that created the database and this role by itself.
        beyond = [each for each in role.beyond if role.name != wanted.owner or not each.startswith("create")]
        if beyond:
            raise ConfigurationError(
                f"The role {role.name} may do more than any grant says: {', '.join(beyond)}.",
                next="Name another role, or take that from it with 'alter role' or 'revoke'.",
            )
    if place.owner in wanted.running:
        raise ConfigurationError(
            f"The database {place.name} belongs to {place.owner}, and who owns a database may do anything in it.",
            next="Give it to another role with 'alter database', or name another role.",
        )


def _made(there: dict[str, Role], wanted: Roles, place: Place) -> Iterator[sql.Composable]:
    for name in wanted.names:
        if name not in there:
            yield sql.SQL(f"create role {{}} {_ATTRIBUTES}").format(sql.Identifier(name))
    if wanted.owner not in there and not place.superuser:
        # An account that is no superuser can only grant roles of which it is a member.
        yield sql.SQL("grant {} to current_user").format(sql.Identifier(wanted.owner))


def _entered(there: dict[str, Role], wanted: Roles, place: Place) -> Iterator[sql.Composable]:
    """Access to the database: for the named roles, and nobody else."""
    database = sql.Identifier(place.name)
    if place.open_to_all:
        yield sql.SQL("revoke all on database {} from public").format(database)
    for name in wanted.names:
        if place.open_to_all or name not in there or not there[name].connects:
            yield sql.SQL("grant connect on database {} to {}").format(database, sql.Identifier(name))
    if wanted.owner not in there or not there[wanted.owner].creates:
        yield sql.SQL("grant create on database {} to {}").format(database, sql.Identifier(wanted.owner))
    if place.open_schema:
        yield sql.SQL("revoke create on schema public from public")
    if place.lacks_vector and place.superuser:
        yield sql.SQL("create extension vector schema public")


def _owned(connection: psycopg.Connection[Any], wanted: Roles, schema: str) -> Iterator[sql.Composable]:
    owner = sql.Identifier(wanted.owner)
    found = fetch_sync(connection, roles.objects([schema]))
    if not found:
        yield sql.SQL("create schema {} authorization {}").format(sql.Identifier(schema), owner)
    # The schema first: the new owner of its objects must be able to create there.
    for each in sorted(found, key=lambda each: each.kind != "schema"):
        if each.owner != wanted.owner:
            # As PostgreSQL itself writes it, with quotes and arguments.
            yield sql.SQL(f"alter {each.kind} {each.identity} owner to {{}}").format(owner)


def _granted(
    connection: psycopg.Connection[Any], wanted: Roles, schema: str, package: str, *, takes: bool
) -> Iterator[sql.Composable]:
    """Revoke everything granted before, also by hand, and grant what is needed."""
    everybody = sql.SQL(", ").join([sql.SQL("public"), *(map(sql.Identifier, wanted.running) if takes else ())])
    running = sql.SQL(", ").join(map(sql.Identifier, wanted.running))
    within = sql.Identifier(schema)
    for what in ("schema", "all tables in schema", "all sequences in schema", "all routines in schema"):
        yield sql.SQL(f"revoke all on {what} {{}} from {{}}").format(within, everybody)
    yield sql.SQL("alter default privileges for role {} revoke execute on routines from public").format(
        sql.Identifier(wanted.owner)
    )
    yield sql.SQL("grant usage on schema {} to {}").format(within, running)
    said = roles.grants(package)
    for relation in fetch_sync(connection, roles.relations(schema)):
        kind = "sequence " if relation.sequence else ""
        for part, rights in said.get(relation.name, {}).items():
            if fitting := relation.fitting(rights):
                yield sql.SQL(f"grant {fitting} on {kind}{{}} to {{}}").format(
                    sql.Identifier(schema, relation.name), sql.Identifier(getattr(wanted, part))
                )
