"""Starts an embedded server that has a data directory, and checks its identity."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from retoma.errors import EmbeddedUnavailable
from retoma.postgres.embedded.binaries import SystemAccount, execute
from retoma.postgres.embedded.home import ALONE, Home, Lock, Record, lives, postmaster, take, write
from retoma.postgres.embedded.initdb import USER, free_port, port_is_free, tail

LOG_BYTES = 10_000_000
PATIENCE = 3.0
ASK = """
select current_setting('data_directory'),
       current_setting('server_version'),
       current_setting('fsync') = 'on',
       exists (select from pg_database where datname = 'retoma' and pg_get_userbyid(datdba) = 'retoma_app')
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server reports about itself."""

    directory: str
    version: str
    fsync: bool
    complete: bool


def ask(home: Home, record: Record) -> Answer | None:
    """The server's answer; None when nothing answers there, or another server does."""
    if not lives(home):
        return None  # another program may have our port now, and must not get our password
    try:
        with connect(record) as connection:
            row = connection.execute(ASK).fetchone()
    except psycopg.Error:
        return None
    answer = Answer(*row) if row else None
    return answer if answer and os.path.realpath(answer.directory) == str(home.directory) else None


def connect(record: Record, *, database: str = "postgres") -> psycopg.Connection:
    """A connection as the superuser, for creating and maintaining the server; to the database that every server has."""
    return psycopg.connect(
        host="127.0.0.1",
        port=record.port,
        user=USER,
        password=record.password,
        dbname=database,
        autocommit=True,
        connect_timeout=5,
        gssencmode="disable",
        sslmode="disable",
    )


def start(home: Home, record: Record, account: SystemAccount | None, deadline: float) -> tuple[Record, Answer]:
    """Start the server, wait until it answers, and return its answer."""
    seen = _log_size(home.log)
    said = ""
    tries = 3
    headless = time.monotonic() + PATIENCE
    while True:
        if answer := ask(home, record):
            return record, answer
        left = deadline - time.monotonic()
        alive = lives(home)
        if left <= 0 or not (tries or alive):
            raise _did_not_start(home, record, _log_since(home.log, seen) or said)
        if alive:
            if postmaster(home):
                headless = time.monotonic() + PATIENCE
            elif time.monotonic() > headless:
                _end_survivors(home, account)
            time.sleep(0.1)
            continue
        tries -= 1
        # The file claims that a server runs, but the lock says otherwise; PostgreSQL would believe the file.
        (home.directory / "postmaster.pid").unlink(missing_ok=True)
        if not port_is_free(record.port):
            record = replace(record, port=free_port())
        write(home.path, record)
        with take(home.server_lock, ALONE, deadline) as server:
            said = _pg_ctl_start(home, record, account, server, left)


def _pg_ctl_start(home: Home, record: Record, account: SystemAccount | None, server: Lock, seconds: float) -> str:
    # fsync cannot be turned off: a saved checkpoint must survive a power cut.
    forced = f"-c port={record.port} -c fsync=on -c full_page_writes=on"
    where = f"--pgdata={home.directory}", f"--log={home.log}"
    limit = "--wait", f"--timeout={max(1, int(seconds))}"
    return execute(
        [f"{record.bin}/pg_ctl", "start", *where, *limit, f"--options={forced}"],
        account=account,
        timeout=seconds + 10,
        # Every process of the server inherits it, and the kernel holds it until the last one has ended.
        pass_fds=(server.fd,),
    ).stdout


def _end_survivors(home: Home, account: SystemAccount | None) -> None:
    """End the processes that outlived the server's first one in the middle of a long query."""
    if sys.platform != "linux":
        return
    # Run as the account itself, because root in a container may not see where its processes are.
    at = 'for p in /proc/[0-9]*; do [ "$(readlink "$p/cwd")" = "$1" ] && kill -QUIT "${p#/proc/}"; done'
    execute(["/bin/sh", "-c", at, "end", home.directory], account=account, timeout=30)


def _did_not_start(home: Home, record: Record, said: str) -> EmbeddedUnavailable:
    last = tail(said)
    if lives(home):
        return EmbeddedUnavailable(
            f"The PostgreSQL of {home.path} runs, but port {record.port} did not answer in time.\n{last}\n",
            next="If it recovers from a crash, try again in a while. If it runs in another container, "
            "set DATABASE_URL to reach it from here.",
        )
    return EmbeddedUnavailable(
        f"The PostgreSQL of {home.path} did not start.\n{last}\n",
        next=f"Read all of {home.log}; or set DATABASE_URL to a server of your own.",
    )


def _log_size(log: Path) -> int:
    """The current size of the log, after a long one was set aside."""
    try:
        size = log.lstat().st_size
        if size > LOG_BYTES:
            log.replace(log.with_name("server.log.1"))
            return 0
    except FileNotFoundError:
        return 0
    return size


def _log_since(log: Path, seen: int) -> str:
    # The account of the server owns that directory: a symbolic link there could lead root anywhere.
    with suppress(OSError), os.fdopen(os.open(log, os.O_RDONLY | os.O_NOFOLLOW), "rb") as written:
        written.seek(seen)
        return written.read().decode(errors="replace")
    return ""
