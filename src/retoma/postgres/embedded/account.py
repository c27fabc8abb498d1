"""The account that programs use on an embedded server: it owns their database, and has no rights over the server."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import sql

from retoma.postgres.database import fetch_sync
from retoma.postgres.embedded.home import Record
from retoma.postgres.embedded.start import connect
from retoma.store import roles

NAME = "retoma_app"
DATABASE = "retoma"
_ATTRIBUTES = "login nosuperuser nocreatedb nocreaterole noreplication nobypassrls"
_BUSY = (pg.LockNotAvailable, pg.DeadlockDetected)


def address(record: Record) -> str:
    """The URL of the database for programs."""
    return f"postgresql://{NAME}:{_password(record)}@127.0.0.1:{record.port}/{DATABASE}"


def settle(record: Record, deadline: float) -> None:
    """Make sure that the account exists and owns the database with everything in it.

    This also upgrades the folder of an earlier version, where the superuser owned everything. Nothing is moved or
    copied, and the next call finishes what was interrupted.
    """
    with connect(record) as server:
        _make(server, record)
        found = server.execute("select pg_get_userbyid(datdba) from pg_database where datname = %s", [DATABASE])
        owner = found.fetchone()
        if owner is None:
            server.execute(f"create database {DATABASE} owner {NAME}")
    with connect(record, database=DATABASE) as connection:
        _extend(connection)
        _hand_over(connection, deadline)
        # This comes last: a later call that finds it done does nothing.
        if owner is not None and owner[0] != NAME:
            connection.execute(f"alter database {DATABASE} owner to {NAME}")


def _make(server: psycopg.Connection[Any], record: Record) -> None:
    """Create the account with its password. An account in the right state is left alone, so that a full disk
    does not stop a start.
    """
    there = fetch_sync(server, roles.named([NAME]))
    if not there:
        server.execute(f"create role {NAME} {_ATTRIBUTES}")
    elif not there[0].beyond and _opens(record):
        return
    else:
        server.execute(f"alter role {NAME} {_ATTRIBUTES}")
    kept = server.pgconn.encrypt_password(_password(record).encode(), NAME.encode(), b"scram-sha-256").decode()
    server.execute(sql.SQL("alter role {} password {}").format(sql.Identifier(NAME), sql.Literal(kept)))


def _opens(record: Record) -> bool:
    try:
        psycopg.connect(address(record), connect_timeout=5, gssencmode="disable", sslmode="disable").close()
    except psycopg.OperationalError:
        return False
    return True


def _extend(connection: psycopg.Connection[Any]) -> None:
    """Create pgvector where it is installed: only a superuser may do that."""
    (place,) = fetch_sync(connection, roles.database())
    if place.lacks_vector:
        connection.execute("create extension vector schema public")


def _hand_over(connection: psycopg.Connection[Any], deadline: float) -> None:
    """Give everything in the database to the account, all or nothing; waits for tables in use."""
    owner = sql.Identifier(NAME)
    while True:
        others = [each for each in fetch_sync(connection, roles.objects(None)) if each.owner != NAME]
        if not others:
            return
        try:
            with connection.transaction():
                connection.execute("set local lock_timeout = '2s'")
                for each in others:
                    connection.execute(sql.SQL(f"alter {each.kind} {each.identity} owner to {{}}").format(owner))
        except _BUSY:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _password(record: Record) -> str:
    # Derived one-way from the superuser's password, so the record needs no new field and older versions can read it.
    return hmac.new(record.password.encode(), NAME.encode(), hashlib.sha256).hexdigest()
