"""The folder of one embedded server: its record, its locks, and whether the server runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

if sys.platform != "win32":
    import fcntl

    SHARED, ALONE = fcntl.LOCK_SH, fcntl.LOCK_EX

_held: set[Lock] = set()


class Lock:
    """A kernel lock on a file: it is released when its holder ends, even after kill -9."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        _held.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.let_go()

    def try_as(self, kind: int) -> bool:
        """Try to acquire the lock, or to convert it into *kind*, without waiting; returns whether that succeeded."""
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_as(self, kind: int) -> None:
        fcntl.flock(self.fd, kind)

    def loosen(self) -> None:
        """Release the lock and keep the file open."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def is_at(self, path: Path) -> bool:
        """Whether *path* still leads to the file that we hold."""
        try:
            return os.path.samestat(os.fstat(self.fd), path.stat())
        except FileNotFoundError:
            return False

    def let_go(self) -> None:
        # Closed, not unlocked: a child that inherited the lock keeps it.
        if self in _held:
            _held.remove(self)
            os.close(self.fd)


def opened(path: Path, *, create: bool = True) -> Lock:
    """The lock file at *path*, not yet locked and not inherited by programs that we start."""
    return Lock(os.open(path, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0), 0o600))


def take(path: Path, kind: int, deadline: float) -> Lock:
    """Acquire the lock at *path*; raises TimeoutError when others hold it past *deadline*."""
    lock = opened(path)
    while not (lock.try_as(kind) and lock.is_at(path)):
        # Open the file again each time: a lock on a deleted file excludes nobody.
        lock.let_go()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} is held by another process")
        time.sleep(0.02)
        lock = opened(path)
    return lock


def _forget_in_child() -> None:
    """Close the locks that a fork copied; otherwise the child would count as a user as long as it lives."""
    for lock in list(_held):
        lock.let_go()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_in_child)


@dataclass(frozen=True, slots=True)
class Record:
    """What every process must know to reach the server; stored in a file that only the owner can read."""

    port: int
    password: str = field(repr=False)
    source: str
    bin: str
    place: str | None  # path of the data directory when it cannot be in the home


@dataclass(frozen=True, slots=True)
class Home:
    """The folder, and the *place* that holds the data directory: the same folder, unless we run as root."""

    path: Path
    place: Path

    @classmethod
    def at(cls, path: Path) -> Home:
        path = path.expanduser().resolve()
        record = read(path)
        return cls(path, Path(record.place).resolve() if record and record.place else path)

    @property
    def directory(self) -> Path:
        return self.place / "data"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def start_lock(self) -> Path:
        """Held by the process that creates, starts or stops the server."""
        return self.path / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Shared by every process that uses the server."""
        return self.path / "users.lock"

    @property
    def watch_lock(self) -> Path:
        """Held by the one watcher."""
        return self.path / "watch.lock"

    @property
    def server_lock(self) -> Path:
        """Held by every process of the server itself: when it is free, none of them is left."""
        return self.place / "server.lock"

    def major(self) -> int | None:
        """The PostgreSQL version that created the data directory, or None when there is none."""
        with suppress(FileNotFoundError, ValueError):
            return int((self.directory / "PG_VERSION").read_text())
        return None


def read(home: Path) -> Record | None:
    path = home / "secret.json"
    try:
        return Record(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (TypeError, ValueError):
        raise ValueError(f"{path} is damaged") from None


def write(home: Path, record: Record) -> None:
    """Write *record* atomically, and never readable to others."""
    fresh = home / "secret.json.tmp"
    fresh.unlink(missing_ok=True)
    private(fresh, json.dumps(asdict(record)), owner=home.stat())
    fresh.replace(home / "secret.json")


def private(path: Path, text: str, *, owner: os.stat_result | None) -> None:
    """A new file that only its owner can read, from its creation on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        if owner is not None and os.geteuid() == 0:
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def lives(home: Home) -> bool:
    """Whether any process of the server is left, even one that does not answer."""
    try:
        with opened(home.server_lock, create=False) as lock:
            return not lock.try_as(SHARED) or postmaster(home) is not None
    except FileNotFoundError:
        return False


def postmaster(home: Home) -> int | None:
    """The server's first process, if the pid in postmaster.pid really is that process."""
    try:
        pid = int((home.directory / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None
    # A pid alone proves nothing: the process may be dead, the pid reused, or from another container.
    return pid if str(home.directory) in _command(pid) else None


def halt(home: Home, seconds: float) -> bool:
    """Stop the server and close its connections; returns whether none of its processes is left."""
    end = time.monotonic() + seconds
    while lives(home):
        if time.monotonic() > end:
            return False
        if pid := postmaster(home):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)  # PostgreSQL's fast shutdown; repeating it changes nothing
        time.sleep(0.1)
    return True


def _command(pid: int) -> Sequence[str]:
    """The arguments of the process; on systems other than Linux, its command line."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        except OSError:
            return ()
    said = subprocess.run(
        ["/bin/ps", "-o", "command=", "-p", str(pid)], check=False, capture_output=True, text=True, timeout=30
    )
    return said.stdout
