"""An embedded PostgreSQL server: started by the first process that needs it, stopped after the last."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from retoma.errors import Conflict, EmbeddedUnavailable
from retoma.postgres.embedded import account
from retoma.postgres.embedded import initdb as make
from retoma.postgres.embedded.binaries import account_for, binaries, choose, reachable
from retoma.postgres.embedded.home import ALONE, SHARED, Home, Lock, Record, halt, opened, read, take
from retoma.postgres.embedded.start import Answer, ask, start

__all__ = ["Embedded", "Status", "binaries", "ensure", "remove", "status", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A server that runs as long as this process or another one uses it.

    A forked child does not count as a user: it may use the server while its parent does, or call *ensure* itself.
    """

    home: Path
    url: str = field(repr=False)
    """The URL of the database for programs, with an account that owns it and has no rights over the server."""
    superuser_url: str = field(repr=False)
    """The same with the superuser account; for creating databases and roles, not for daily use."""
    source: str
    bin: Path
    users: Lock = field(repr=False, compare=False)

    def release(self) -> None:
        """Stop using the server; it stops soon after its last user has gone."""
        self.users.let_go()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a home's server, without starting or changing anything."""

    running: bool
    version: str | None = None
    directory: Path | None = None
    source: str | None = None
    fsync: bool | None = None


def ensure(home: Path, *, timeout: float = 60.0) -> Embedded:
    """Use the server of *home*, and start it if necessary; it is ours until *release*, or until this process ends."""
    if sys.platform == "win32":
        raise EmbeddedUnavailable(
            "The embedded PostgreSQL runs on Linux and macOS only.",
            next="Set DATABASE_URL to a server of your own.",
        )
    deadline = time.monotonic() + timeout
    with _told(home):
        make.folder(home)
        with take(Home.at(home).start_lock, ALONE, deadline) as starting:
            # Read under the lock, because only its holder may change it.
            there = Home.at(home)
            # Before the start lock is released: the watcher stops a server without users.
            users = take(there.users_lock, SHARED, deadline)
            try:
                return _join(there, users, starting, deadline)
            except BaseException:
                users.let_go()
                raise


def status(home: Path) -> Status:
    """What the server of *home* reports about itself, else what its files say."""
    with _told(home):
        there = Home.at(home)
        record = read(there.path)
        if record is None:
            return Status(running=False)
        answer = ask(there, record)
        return Status(
            running=answer is not None,
            version=answer.version if answer else str(there.major() or "") or None,
            directory=there.directory,
            source=record.source,
            fsync=answer.fsync if answer else None,
        )


def stop(home: Path) -> None:
    """Stop the server of *home* now, even if it is in use."""
    with _told(home):
        there = Home.at(home)
        if there.start_lock.exists():
            with take(there.start_lock, ALONE, time.monotonic() + 60):
                _halt(there)


def remove(home: Path) -> None:
    """Stop the server of *home* and delete its database; refused while it is in use."""
    with _told(home):
        there = Home.at(home)
        if not there.start_lock.exists():
            return
        with take(there.start_lock, ALONE, time.monotonic() + 60):
            try:
                users = take(there.users_lock, ALONE, time.monotonic() + 1)
            except TimeoutError:
                raise Conflict(
                    f"The database of {there.path} is in use; nothing was removed.",
                    next="End the processes that use it, and try again.",
                ) from None
            with users:
                _halt(there)
                make.clear(there)


def _join(home: Home, users: Lock, starting: Lock, deadline: float) -> Embedded:
    record = read(home.path)
    answer = ask(home, record) if record else None
    if record is None or answer is None:
        home, record, answer = _bring_up(home, record, starting, deadline)
        account.settle(record, deadline)
    else:
        _watch(home)
        if not answer.complete:
            account.settle(record, deadline)
    return Embedded(
        home=home.path,
        url=account.address(record),
        superuser_url=f"postgresql://{make.USER}:{record.password}@127.0.0.1:{record.port}/{account.DATABASE}",
        source=record.source,
        bin=Path(record.bin),
        users=users,
    )


def _bring_up(home: Home, record: Record | None, starting: Lock, deadline: float) -> tuple[Home, Record, Answer]:
    """Create the data directory if there is none, and start the server."""
    new = make.needed(home, record)
    runs_as = account_for(home.directory)
    found = choose(home.directory, home.major())
    if new:
        home = make.settle(home, runs_as)
    found = reachable(found, runs_as, home.place)
    if record is None or new:
        record = make.initialize(home, found, runs_as, starting, deadline)
    opened(home.server_lock).let_go()
    # Before the start: a starter that is killed half-way must not leave a server that nothing stops.
    _watch(home)
    record = replace(record, source=found.source, bin=str(found.bin))
    record, answer = start(home, record, runs_as, deadline)
    return home, record, answer


def _watch(home: Home) -> None:
    """Make sure that a detached process waits for the last user to go."""
    with opened(home.watch_lock) as lock:
        if not lock.try_as(ALONE):
            return
        # Through a shell that exits at once: no child of ours to wait for, in a session of its own. It inherits only
        # this lock, so that there are never two watchers.
        program = [sys.executable, "-P", "-m", "retoma.postgres.embedded.watcher", str(home.path), str(lock.fd)]
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "watch", *program],
            check=True,
            cwd="/",
            pass_fds=(lock.fd,),
            start_new_session=True,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )


def _halt(home: Home) -> None:
    if not halt(home, seconds=60):
        raise EmbeddedUnavailable(
            f"The PostgreSQL of {home.path} was asked to stop and did not within a minute.",
            next=f"See {home.log}.",
        )


@contextmanager
def _told(home: Path) -> Iterator[None]:
    """Explain in our own words what the system refuses."""
    try:
        yield
    except TimeoutError as error:
        raise EmbeddedUnavailable(
            f"Another process has been starting or stopping the PostgreSQL of {home} for too long: {error}.",
            next="Try again; if it persists, end the process that holds the file.",
        ) from error
    except (OSError, subprocess.SubprocessError, ValueError, psycopg.Error) as error:
        raise EmbeddedUnavailable(
            f"The embedded PostgreSQL of {home} cannot be used: {error}.",
            next="Set RETOMA_HOME to a folder of your own, or DATABASE_URL to a server of your own.",
        ) from error
