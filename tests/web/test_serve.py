"""retoma serve, key and up: real processes, real signals."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import programs
import psutil
import psycopg
import pytest

from .conftest import blocked

# Several processes start here, and the machine may be busy.
pytestmark = pytest.mark.timeout(600)

PROGRAM = """
from retoma import Retoma, Run, pipeline


@pipeline("double")
async def double(number: int, run: Run) -> int:
    return await run.step("double", lambda: number * 2)


app = Retoma(pipelines=[double])
"""


@dataclass
class Shell:
    """The command, in a folder with a program, on the database of the test."""

    folder: Path
    environment: dict[str, str]
    started: list[programs.Started] = field(default_factory=list)

    def __call__(self, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return programs.run(["-m", "retoma", *args], folder=self.folder, environment=self.environment | variables)

    def start(self, *args: str, **variables: str) -> tuple[programs.Started, str, str]:
        """A server, its address, and the lines in which it said so and who may come in."""
        process = programs.start(
            ["-m", "retoma", *args],
            folder=self.folder,
            environment=self.environment | variables,
            quiet=True,
        )
        self.started.append(process)
        for line in process.stderr:
            if found := re.search(r"The API is at (http://\S+)/api/v1\.", line):
                return process, found[1], line + process.stderr.readline()
        raise AssertionError(f"it did not start: exit code {process.wait()}")


def lets_in(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Iterator[Shell]:
    (tmp_path / "program.py").write_text(PROGRAM)
    quick = {"RETOMA_HEARTBEAT_SECONDS": "0.5", "RETOMA_LEASE_SECONDS": "5", "RETOMA_POLL_SECONDS": "0.2"}
    found = Shell(tmp_path, {**os.environ, "DATABASE_URL": database_url, **quick})
    yield found
    for process in found.started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_serve_answers_until_it_is_told_to_stop(shell: Shell, told: signal.Signals) -> None:
    process, url, line = shell.start("serve", "--app", "program:app", "--port", "0", RETOMA_TOKEN="on")
    order = {"pipeline": "double", "input": 21}
    token = shell("token", RETOMA_TOKEN="on").stdout.strip()

    refused = httpx2.post(f"{url}/api/v1/jobs", json=order, timeout=240)
    queued = httpx2.post(f"{url}/api/v1/jobs", json=order, headers={"Authorization": f"Bearer {token}"}, timeout=240)
    process.send_signal(told)

    assert url.startswith("http://127.0.0.1:")
    assert "There is no API key: callers need the token of this machine, which 'retoma token' prints." in line
    assert (refused.status_code, queued.status_code) == (401, 202)
    assert process.wait(timeout=120) == 0


def test_a_request_that_is_under_way_when_the_server_is_told_to_stop_is_answered(
    shell: Shell, psql: psycopg.Connection
) -> None:
    process, url, _ = shell.start("serve", "--app", "program:app", "--port", "0")
    httpx2.post(f"{url}/api/v1/jobs", json={"pipeline": "double", "input": 21}, timeout=240)
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        with psql.transaction():
            psql.execute("select from retoma.jobs for update")
            connection.sendall(b"POST /api/v1/jobs/1/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            while blocked(psql) == 0:
                time.sleep(0.01)
            process.terminate()
            while lets_in(port):
                time.sleep(0.05)
        answer = connection.makefile().read()

    assert answer.startswith("HTTP/1.1 200")
    assert '"state":"cancelled"' in answer
    assert process.wait(timeout=120) == 0


@pytest.mark.parametrize("command", [("serve",), ("serve", "--processes", "2"), ("up",)])
def test_streams_say_goodbye_when_the_server_is_told_to_stop_and_nothing_waits_for_them(
    shell: Shell, command: tuple[str, ...]
) -> None:
    process, url, _ = shell.start(*command, "--app", "program:app", "--port", "0", RETOMA_LOG_LEVEL="error")
    batch = httpx2.post(f"{url}/api/v1/batches", json={"pipeline": "double", "name": "open"}, timeout=240).json()
    events = f"{url}{batch['events_url']}"
    kinds = ("text/event-stream", "application/x-ndjson") * 4
    with ExitStack() as stack:
        streams = [
            stack.enter_context(httpx2.stream("GET", events, headers={"Accept": kind}, timeout=240)) for kind in kinds
        ]
        heard = [each.iter_lines() for each in streams]
        for each in heard:  # all of them are there
            next(line for line in each if "snapshot" in line)
        process.terminate()
        said = ["\n".join(each) for each in heard]

    assert all("closing" in each for each in said)
    assert all("retry: " in each for each in said[::2])
    log = process.stderr.read()
    assert process.wait(timeout=240) == 0
    assert ("Traceback" in log, "exceeded" in log) == (False, False), log


def servers_of(parent: programs.Started) -> list[psutil.Process]:
    """Both of them, as soon as they are there."""
    while len(found := psutil.Process(parent.pid).children()) < 2:
        time.sleep(0.02)
    return found


def test_each_of_several_server_processes_answers_and_all_end_with_the_one_that_started_them(shell: Shell) -> None:
    parent, url, _ = shell.start("serve", "--app", "program:app", "--port", "0", "--processes", "2")
    servers = servers_of(parent)

    for asleep in servers:
        asleep.suspend()
        answer = httpx2.post(f"{url}/api/v1/jobs", json={"pipeline": "double", "input": 21}, timeout=240)
        asleep.resume()
        assert answer.status_code == 202
    parent.terminate()

    assert parent.wait(timeout=120) == 0
    psutil.wait_procs(servers, timeout=240)
    assert not any(each.is_running() for each in servers)
    assert not lets_in(int(url.rpartition(":")[2]))


def callers_of(server: psutil.Process, port: int) -> list[int]:
    """Their ports."""
    found = server.net_connections("tcp")
    return [each.raddr.port for each in found if each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares callers out among sockets at one address")
def test_callers_who_stay_are_shared_out_among_the_server_processes(shell: Shell) -> None:
    shell.environment["RETOMA_WEB_HEADER_SECONDS"] = "600"  # silent callers stay
    parent, url, _ = shell.start("serve", "--app", "program:app", "--port", "0", "--processes", "2")
    servers, port = servers_of(parent), int(url.rpartition(":")[2])
    for asleep in servers:  # both answer by now
        asleep.suspend()
        httpx2.get(f"{url}/livez", timeout=240).raise_for_status()
        asleep.resume()

    with ExitStack() as stack:
        for number in range(1, 81):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            while sum(callers := [len(callers_of(server, port)) for server in servers]) < number:
                time.sleep(0.01)

    # Each caller by chance: that one process has fewer than 15 of 80 happens once in a hundred million times.
    assert min(callers) >= 15


def test_callers_who_wait_for_a_server_process_that_is_dead_are_answered_by_another(shell: Shell) -> None:
    parent, url, _ = shell.start("serve", "--app", "program:app", "--port", "0", "--processes", "2")
    httpx2.get(f"{url}/livez", timeout=240).raise_for_status()
    servers, port = servers_of(parent), int(url.rpartition(":")[2])
    for each in servers:
        each.suspend()  # so that all of them wait to be let in

    with ExitStack() as stack:
        callers = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(20)]
        for caller in callers:
            caller.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        servers[0].kill()
        servers[1].resume()
        answers = [caller.recv(100).split(b"\r\n")[0] for caller in callers]

    assert answers == [b"HTTP/1.1 200 OK"] * 20


def test_a_server_process_that_is_killed_is_replaced_and_the_other_answers_meanwhile(shell: Shell) -> None:
    parent, url, _ = shell.start("serve", "--app", "program:app", "--port", "0", "--processes", "2")
    httpx2.get(f"{url}/livez", timeout=240).raise_for_status()
    first = {each.pid for each in servers_of(parent)}

    os.kill(next(iter(first)), signal.SIGKILL)
    assert parent.stderr is not None
    told = parent.stderr.readline()
    now = {each.pid for each in servers_of(parent)}

    assert "another takes its place" in told
    assert len(now & first) == 1
    httpx2.get(f"{url}/livez", timeout=240).raise_for_status()


def test_server_processes_do_not_outlive_the_one_that_started_them(shell: Shell) -> None:
    parent, url, _ = shell.start("serve", "--app", "program:app", "--port", "0", "--processes", "2")
    httpx2.get(f"{url}/livez", timeout=240).raise_for_status()
    servers = servers_of(parent)

    parent.kill()

    gone, left = psutil.wait_procs(servers, timeout=240)
    assert (len(gone), left) == (2, [])


def test_a_program_that_server_processes_cannot_load_is_told_once_and_ends_them(shell: Shell) -> None:
    (shell.folder / "program.py").write_text(
        PROGRAM + "import sys\nfrom retoma.errors import ConfigurationError\n"
        "if '--socket' in sys.argv:\n    raise ConfigurationError('not here')\n"
    )

    ended = shell("serve", "--app", "program:app", "--port", "0", "--processes", "2")

    assert ended.returncode == 2
    assert "A server process could not start." in ended.stderr


def test_serve_without_a_program_serves_the_ready_pipelines(shell: Shell) -> None:
    process, url, _ = shell.start("serve", "--port", "0")

    assert httpx2.get(f"{url}/api/v1/jobs", timeout=240).json() == {"jobs": [], "next": None}
    refused = httpx2.post(f"{url}/api/v1/jobs", json={"pipeline": "double", "input": 21}, timeout=240)
    pages = [
        httpx2.get(f"{url}/{page}", timeout=240).status_code
        for page in ("documents", "classificador/", "api/v1/embeddings")
    ]
    process.terminate()

    assert (refused.status_code, refused.json()["code"]) == (422, "pipeline_unknown")
    assert pages == [200, 200, 200]
    assert process.wait(timeout=120) == 0


@pytest.mark.parametrize("command", ["serve", "up"])
def test_the_pages_that_there_are_are_told_with_their_addresses(shell: Shell, command: str) -> None:
    ready, url, _ = shell.start(command, "--port", "0")
    assert ready.stderr
    told = [ready.stderr.readline().strip() for _ in range(2)]
    (shell.folder / "program.py").write_text(
        PROGRAM + "from retoma.pipelines import ALL, ready\n"
        "own = ready()\napp = Retoma(pipelines=[double], extensions=ALL[:1], providers=own.registry.providers)\n"
    )
    some, place, _ = shell.start(command, "--app", "program:app", "--port", "0")
    assert some.stderr
    only = some.stderr.readline().strip()

    assert told == [f"Documents: {url}/documents", f"Classification: {url}/classificador/"]
    for line in told:
        page = httpx2.get(line.partition(": ")[2], headers={"Accept": "text/html"}, timeout=240)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert only == f"Documents: {place}/documents"


def test_a_port_that_is_taken_is_one_clear_line(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = shell("serve", "--port", str(port))

    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        f"Cannot listen on 127.0.0.1, port {port}: another program listens there.",
        "Try: --port with another number.",
    ]


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_one_clear_line(shell: Shell, host: str) -> None:
    ran = shell("serve", "--host", host, "--port", "0")

    assert ran.returncode == 2
    assert ran.stderr.startswith(f"Cannot listen on {host}, port 0: ")
    assert len(ran.stderr.splitlines()) == 2


def test_another_address_is_refused_until_somebody_holds_a_key(shell: Shell) -> None:
    everywhere = ("serve", "--host", "0.0.0.0", "--port", "0")
    refused = shell(*everywhere)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[0] == "Refusing to listen on 0.0.0.0 without authentication."
    assert "RETOMA_API_KEY" in refused.stderr
    assert "--host 127.0.0.1" in refused.stderr

    secret = "a-long-secret-of-the-environment"
    _, url, line = shell.start(*everywhere, "--allow-host", "jobs.example", RETOMA_API_KEY=secret)
    here = url.replace("0.0.0.0", "127.0.0.1")
    assert "Callers need an API key." in line
    assert httpx2.get(f"{here}/api/v1/jobs", timeout=240).status_code == 401
    opened = {"Authorization": f"Bearer {secret}"}
    assert httpx2.get(f"{here}/api/v1/jobs", headers=opened, timeout=240).status_code == 200
    assert httpx2.get(f"{here}/api/v1/jobs", headers={**opened, "Host": "jobs.example"}, timeout=240).status_code == 200
    assert (
        httpx2.get(f"{here}/api/v1/jobs", headers={**opened, "Host": "other.example"}, timeout=240).status_code == 421
    )


def test_keys_are_made_listed_used_and_revoked(shell: Shell) -> None:
    made = shell("key", "create", "reports", "--scope", "operate", "--scope", "read", "--expires", "90d")
    assert (made.returncode, len(made.stdout.splitlines())) == (0, 1)
    text = made.stdout.strip()
    id = text.split("_")[1]
    assert re.fullmatch(r"rtm_[0-9a-f]{12}_[\w-]{49}", text)
    assert text.split("_", 2)[2] not in made.stderr

    (listed,) = json.loads(shell("key", "list", "--json").stdout)
    assert (listed["id"], listed["name"], listed["scopes"]) == (id, "reports", ["read", "operate"])
    assert (listed["usable"], listed["pipelines"], listed["last_used_at"]) == (True, None, None)
    assert listed["expires_at"]
    assert "secret" not in str(listed)

    _, url, line = shell.start("serve", "--host", "0.0.0.0", "--port", "0")
    here = f"{url.replace('0.0.0.0', '127.0.0.1')}/api/v1/jobs"
    assert "Callers need an API key." in line
    assert httpx2.get(here, headers={"Authorization": f"Bearer {text}"}, timeout=240).status_code == 200
    assert shell("key", "revoke", id).returncode == 0
    assert httpx2.get(here, headers={"Authorization": f"Bearer {text}"}, timeout=240).status_code == 401
    assert "\trevoked\t" in shell("key", "list").stdout
    assert shell("serve", "--host", "0.0.0.0", "--port", "0").returncode == 2, "a revoked key protects nobody"


@pytest.mark.parametrize(
    ("args", "exit_code", "told"),
    [
        (("create", "a", "--scope", "write"), 2, "There is no scope write."),
        (("create", "a"), 2, "Missing option '--scope'"),
        (("create", "a", "--scope", "read", "--expires", "soon"), 2, "is not a length of time"),
        (("revoke", "nothing"), 3, "There is no key 'nothing'."),
    ],
)
def test_a_key_that_cannot_be_is_told(shell: Shell, args: tuple[str, ...], exit_code: int, told: str) -> None:
    ran = shell("key", *args)

    assert (ran.returncode, ran.stdout) == (exit_code, "")
    assert told in ran.stderr


def test_up_serves_the_api_beside_the_worker_and_one_ctrl_c_ends_both(shell: Shell) -> None:
    process, url, _ = shell.start("up", "--app", "program:app", "--port", "0")
    queued = httpx2.post(f"{url}/api/v1/jobs", json={"pipeline": "double", "input": 21}, timeout=240)

    for _ in range(600):
        job = httpx2.get(f"{url}{queued.headers['location']}", timeout=240).json()
        if job["state"] == "completed":
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)

    assert job["output"] == 42
    assert process.wait(timeout=240) == 0
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/livez", timeout=240)


def test_up_takes_another_port_when_the_usual_one_is_taken_and_a_port_that_was_asked_for_is_not_swapped(
    shell: Shell,
) -> None:
    first, _, _ = shell.start("up", "--app", "program:app")
    second, url, _ = shell.start("up", "--app", "program:app")

    assert httpx2.get(f"{url}/livez", timeout=240).status_code == 200
    refused = shell("up", "--app", "program:app", "--port", url.rpartition(":")[2])
    assert (refused.returncode, "another program listens there" in refused.stderr) == (2, True)
    for process in (first, second):
        process.send_signal(signal.SIGINT)
    assert [first.wait(timeout=240), second.wait(timeout=240)] == [0, 0]
