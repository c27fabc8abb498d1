"""The account that programs use on an embedded server: it owns their database, and may do nothing to the server."""

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
    """Where programs find their database."""
    return f"postgresql://{NAME}:{_password(record)}@127.0.0.1:{record.port}/{DATABASE}"


def settle(record: Record, deadline: float) -> None:
    """See to it that the account is there and owns the database with all that is in it.

    Also in a home of an earlier version, where everything belonged to the superuser. Nothing is moved or copied, and
    what was done half is done by the next one.
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
        # The last: who finds it done looks no further.
        if owner is not None and owner[0] != NAME:
            connection.execute(f"alter database {DATABASE} owner to {NAME}")


def _make(server: psycopg.Connection[Any], record: Record) -> None:
    """The account itself, with its password. One that is as it should be is left alone: a full disk stops nobody."""
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
    """Make pgvector, where it is: only a superuser may."""
    (place,) = fetch_sync(connection, roles.database())
    if place.lacks_vector:
        connection.execute("create extension vector schema public")


def _hand_over(connection: psycopg.Connection[Any], deadline: float) -> None:
    """Give everything in the database to the account, all of it or nothing; a table in use is waited for."""
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
    # Made from the superuser's, and no way back: the file that keeps that one stays as older versions read it.
    return hmac.new(record.password.encode(), NAME.encode(), hashlib.sha256).hexdigest()
