"""A PostgreSQL and its hot standby on this machine, made as docs/operate/standby.md says: pg_basebackup, streaming
replication, a promotion. Real servers, of the programs that the embedded server uses.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg

from retoma.postgres.embedded.binaries import Binaries, SystemAccount, account_for, choose, execute, reachable
from retoma.postgres.embedded.initdb import free_port

_USER = "retoma"
_STANDBY = "standby"  # the name by which synchronous_standby_names knows it
_PATIENCE = 120.0
_libc = ctypes.CDLL(None)


def _die_with_the_tests() -> None:
    _libc.prctl(1, signal.SIGKILL)


def _until(look: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not look():
        assert time.monotonic() < end, f"It did not happen within {_PATIENCE:g} s: {what}"
        time.sleep(0.05)


class Server:
    """One PostgreSQL in a folder of its own."""

    def __init__(self, programs: Binaries, account: SystemAccount | None, folder: Path) -> None:
        self.programs = programs
        self.account = account
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, program: str, *words: str | Path) -> None:
        ended = execute([self.programs.bin / program, *words], account=self.account, timeout=_PATIENCE)
        assert ended.returncode == 0, ended.stdout

    def start(self) -> None:
        told = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "hot_standby": "on"}
        command = [str(self.programs.bin / "postgres"), "-D", str(self.folder)]
        command += [word for name, value in told.items() for word in ("-c", f"{name}={value}")]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"},
                extra_groups=[] if self.account else None,
                group=self.account.gid if self.account else None,
                preexec_fn=_die_with_the_tests,  # noqa: PLW1509 - one system call, and no lock is taken
                stderr=log,
                stdin=subprocess.DEVNULL,
                stdout=log,
                user=self.account.uid if self.account else None,
            )
        _until(self.answers, "the server answers")

    def answers(self) -> bool:
        try:
            self.ask("select 1")
        except psycopg.OperationalError:
            return False
        return True

    def ask(self, sql: str) -> Any:
        """The first value of what *sql* gives."""
        place = {"host": "127.0.0.1", "port": self.port, "user": _USER, "dbname": "postgres"}
        with psycopg.connect(**place, autocommit=True, connect_timeout=5) as connection:
            found = connection.execute(sql)
            row = found.fetchone() if found.description else None
            return row[0] if row else None

    def processes(self) -> list[psutil.Process]:
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        return [server, *server.children(recursive=True)]

    def kill(self) -> None:
        """kill -9 of the server and all its sessions at once."""
        if self._process is None or self._process.poll() is not None:
            return
        for process in self.processes():
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        self._process.wait()


class Pair:
    """A *primary* with the database ``house``, and its *standby*; *url* leads to whichever can be written to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        account = account_for(folder / "nothing")
        if account is not None:
            os.chown(folder, account.uid, account.gid)
        self._account = account
        self._programs = reachable(choose(folder, None), account, folder)
        self.primary = self._server("first")
        self.primary.call("initdb", "-D", self.primary.folder, "-U", _USER, "--auth=trust", "--locale=C.UTF-8")
        self.primary.start()
        self.primary.ask("create database house")
        self.standby = self.copy_of(self.primary, "second")
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        self.url = f"postgresql://{_USER}@{hosts}/house?target_session_attrs=read-write"

    def _server(self, name: str) -> Server:
        return Server(self._programs, self._account, self._folder / name)

    def copy_of(self, primary: Server, name: str) -> Server:
        """A new standby that follows *primary*."""
        standby = self._server(name)
        place = f"host=127.0.0.1 port={primary.port} user={_USER} application_name={_STANDBY}"
        standby.call("pg_basebackup", "-D", standby.folder, "-d", place, "-R", "-X", "stream", "-c", "fast")
        standby.start()
        _until(lambda: self.followed(primary), "the standby follows")
        return standby

    def followed(self, primary: Server) -> bool:
        """Whether a standby receives what *primary* writes."""
        found = primary.ask("select count(*) from pg_stat_replication where state = 'streaming'")
        return bool(found)

    def wait_for_standby(self) -> None:
        """Make commits on the primary wait until the standby has them on its disk."""
        self.primary.ask(f"alter system set synchronous_standby_names = '{_STANDBY}'")
        self.primary.ask("select pg_reload_conf()")
        _until(lambda: self.primary.ask("select sync_state from pg_stat_replication") == "sync", "commits wait for it")

    def caught_up(self) -> bool:
        """Whether the standby has everything that the primary has written."""
        return bool(self.primary.ask("select pg_current_wal_lsn() = flush_lsn from pg_stat_replication"))

    def cut(self) -> None:
        """The line between the two is cut: the standby receives nothing more."""
        self.standby.ask("alter system set primary_conninfo = ''")
        self.standby.ask("select pg_reload_conf()")
        _until(lambda: self.standby.ask("select count(*) from pg_stat_wal_receiver") == 0, "the line is cut")

    def promote(self) -> None:
        """Make the standby the primary; the other one is dead."""
        assert self.standby.ask("select pg_promote(wait => true)") is True
        self.primary, self.standby = self.standby, self.primary

    def close(self) -> None:
        for server in (self.standby, self.primary):
            server.kill()
