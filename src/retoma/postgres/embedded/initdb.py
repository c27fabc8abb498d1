"""Creates an embedded server: its folder, the place of its data directory, and its contents."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import socket
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from retoma.errors import EmbeddedUnavailable
from retoma.postgres.embedded.binaries import Binaries, SystemAccount, account_for, execute
from retoma.postgres.embedded.home import Home, Lock, Record, private, read, write
from retoma.system.private_files import FOLDER, close, let_pass, make_private, write_private

USER = "retoma"
STATES = (Path("/var/lib"), Path("/var/db"))
# Each of these may be changed in postgresql.conf; fixed settings are passed at the start.
SETTINGS = """
# Set by Retoma when this server was made; change what you like.
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 128MB
search_path = 'public'
wal_level = replica
max_wal_size = 2GB
random_page_cost = 1.1
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
"""


def folder(home: Path) -> None:
    """The folder at *home*, created if necessary, closed to others, and kept out of version control."""
    home = home.expanduser()
    make_private(home)
    ignore = home / ".gitignore"
    if not ignore.exists():
        write_private(ignore, "*\n")
    close(ignore)
    if os.geteuid() == 0:
        # The server runs as another account, which must be able to pass through this folder to its
        # data; it cannot list it.
        there = Home.at(home)
        account = account_for(there.directory)
        if account is not None:
            let_pass(there.place, account.gid)
            close(there.place / "home")


def needed(home: Home, record: Record | None) -> bool:
    """Whether the data directory must be created; refuses what would overwrite or hide a database."""
    if set('"$`\\\n') & set(str(home.path)):
        raise EmbeddedUnavailable(
            f"The path {str(home.path)!r} has a sign that a shell would change, and pg_ctl uses one.",
            next="Set RETOMA_HOME to a path without quotes, dollars and backslashes.",
        )
    _check_owner(home)
    if home.major() is not None:
        if record is None:
            raise EmbeddedUnavailable(
                f"{home.directory} holds a database, but secret.json with its password is gone.",
                next=f"Put it back into {home.path}; or move the directory away to begin anew.",
            )
        return False
    if home.directory.exists() and any(home.directory.iterdir()):
        raise EmbeddedUnavailable(
            f"{home.directory} is not empty and no PostgreSQL data directory; nothing in it was touched.",
            next="Move it away, or set RETOMA_HOME to another folder.",
        )
    if record is not None and not (home.place / "data.tmp").exists():
        raise EmbeddedUnavailable(
            f"The database of {home.path} should be in {home.directory}, and is not there.",
            next=f"Put it back or mount its disk; or delete {home.path / 'secret.json'} to begin anew.",
        )
    return True


def settle(home: Home, account: SystemAccount | None) -> Home:
    """The place for a new data directory: in the home, unless *account* cannot reach that."""
    if account is None or _holds(home.path, account):
        return Home(home.path, home.path)
    home.path.chmod(FOLDER)
    for state in STATES:
        with suppress(OSError):
            place = _own_place(state, home.path, account)
            if _holds(place, account):
                return Home(home.path, place)
    raise EmbeddedUnavailable(
        f"PostgreSQL refuses to run as root, and the account {account.name} can reach neither {home.path} "
        f"nor a folder below {' or '.join(map(str, STATES))}.",
        next="Set RETOMA_HOME to a folder that it can reach, or run as an ordinary user.",
    )


def initialize(home: Home, found: Binaries, account: SystemAccount | None, starting: Lock, deadline: float) -> Record:
    """Create a data directory and its record, all or nothing."""
    unfinished = _unfinished(home.place, account)
    password = secrets.token_urlsafe(24)
    told = home.place / "password.tmp"
    told.unlink(missing_ok=True)
    private(told, password + "\n", owner=unfinished.stat())
    # A locale that sorts by code point and knows letters beyond ASCII; macOS has another name for it.
    plain = ("--locale=C", "--lc-ctype=UTF-8") if sys.platform == "darwin" else ("--locale=C.UTF-8",)
    locale = "--encoding=UTF8", *plain
    access = f"--username={USER}", f"--pwfile={told}", "--auth=scram-sha-256"
    try:
        ended = execute(
            [f"{found.bin}/initdb", f"--pgdata={unfinished}", *access, *locale, "--data-checksums"],
            account=account,
            timeout=max(1.0, deadline - time.monotonic()),
            # If we are killed, the next process waits for the initdb that continues without us.
            pass_fds=(starting.fd,),
        )
    finally:
        told.unlink()
    if ended.returncode:
        raise EmbeddedUnavailable(
            f"PostgreSQL {found.version} could not make a database in {home.place}.\n{tail(ended.stdout)}",
            next="Set RETOMA_HOME to another folder, or DATABASE_URL to a server of your own.",
        )
    own = os.open(unfinished / "postgresql.conf", os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW)
    with os.fdopen(own, "a") as settings:
        settings.write(SETTINGS)
    place = None if home.place == home.path else str(home.place)
    record = Record(free_port(), password, found.source, str(found.bin), place)
    write(home.path, record)
    unfinished.rename(home.directory)
    _sync(home.place)
    return record


def clear(home: Home) -> None:
    """Delete our files, and the folder when nothing else is in it."""
    if home.major() is not None:  # otherwise we did not create it
        shutil.rmtree(home.directory)
    for each in (home.place / "data.tmp", home.place / "copying.tmp", *home.place.glob("pginstall-*")):
        shutil.rmtree(each, ignore_errors=True)
    kept = home.path / "secret.json", home.path / "secret.json.tmp", home.path / ".gitignore"
    locks = home.users_lock, home.watch_lock, home.server_lock, home.start_lock
    for file in (*kept, *locks, home.place / "password.tmp"):
        file.unlink(missing_ok=True)
    if home.place != home.path:
        shutil.rmtree(home.place)
    with suppress(OSError):
        home.path.rmdir()


def free_port() -> int:
    """A free port."""
    # Below the ephemeral range: a client that tries to reach a stopped server could be given the same port,
    # and connect to itself.
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        if port_is_free(port):
            return port


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])


def _check_owner(home: Home) -> None:
    """Refuse a copied home, because two copies would stop each other's server. A moved home is fine."""
    owner = home.place / "home"
    if home.place == home.path or not home.place.is_dir() or owner.read_text() == str(home.path):
        return
    other = Path(owner.read_text())
    known = read(other)
    if known is not None and known.place == str(home.place):
        raise EmbeddedUnavailable(
            f"{home.path} is a copy of {other}: both name the one database in {home.place}.",
            next=f"Delete {home.path / 'secret.json'} to begin anew there, or use {other}.",
        )
    write_private(owner, str(home.path))


def _own_place(state: Path, home: Path, account: SystemAccount) -> Path:
    """A folder of root's below *state*; only the data directory in it belongs to the account."""
    base = state / "retoma"
    if not base.is_dir():
        base.mkdir()
        base.chmod(0o755)
    name = hashlib.sha256(str(home).encode()).hexdigest()[:16]
    for number in count(1):
        place = base / (name if number == 1 else f"{name}-{number}")
        # A database that an earlier home of this name left behind is not ours to open or delete.
        if not (place / "data").exists():
            break
    place.mkdir(exist_ok=True)
    let_pass(place, account.gid)
    write_private(place / "home", str(home))
    return place


def _holds(place: Path, account: SystemAccount) -> bool:
    """Whether *account* can keep files in a directory below *place*; tested by creating one."""
    try:
        unfinished = _unfinished(place, account)
        probe = 'cd "$1" && : > probe && rm probe'
        ended = execute(["/bin/sh", "-c", probe, "probe", unfinished], account=account, timeout=30)
    except OSError:
        return False
    if ended.returncode:
        unfinished.rmdir()
    return ended.returncode == 0


def _unfinished(place: Path, account: SystemAccount | None) -> Path:
    unfinished = place / "data.tmp"
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(mode=0o700)
    if account is not None:
        os.chown(unfinished, account.uid, account.gid, follow_symlinks=False)
    return unfinished


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
