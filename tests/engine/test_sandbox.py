"""A document that has taken over its reader gets nothing: no secret, no connection, no file, no life after its child.

And whoever asks is told which walls stand on this machine.
"""

import asyncio
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import psutil
import pytest
from pydantic import BeforeValidator

from retoma import Retoma, Run, pipeline
from retoma.app.doctor.sandbox import sandbox as _sandbox
from retoma.cli.serve import _serve
from retoma.errors import ConfigurationError, IsolatedFailure, IsolatedTimeout
from retoma.isolate import Policy, adopt, configure, seccomp, shutdown
from retoma.isolate.layers import REQUIRED, Layer
from retoma.isolate.probe import lacking, watch_over
from retoma.system.settings import Settings
from retoma.telemetry import listen
from retoma.telemetry.events import Event, SandboxIncomplete
from retoma.values.codec import Misfit, codec_of

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # children look for the functions where we do
import hostile_functions as hostile  # noqa: E402

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="only Linux has walls"), pytest.mark.timeout(600)]

NAMES = (
    *("DATABASE_URL", "PGPASSWORD", "RETOMA_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASS"),
    *("MYSQL_PWD", "GITHUB_PAT", "JWT", "SLACK_WEBHOOK_URL", "AZURE_STORAGE_SAS", "SENTRY_DSN", "SSH_AUTH_SOCK"),
)
FILES = (".retoma/password", ".env", "notes.txt", ".ssh/id_ed25519")
NOBODY = 65_534

VICTIM = """
import json, os, socket, subprocess, sys, time
from pathlib import Path

import hostile_functions as hostile
from retoma.isolate import shutdown

kept = "in memory alone " + sys.stdin.readline().strip()
place, token = sys.argv[1:]
places = [place, *(f"{place}/{name}" for name in %s)]
tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
stream, datagrams = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
stream.bind(f"{place}/stream")
stream.listen()
datagrams.bind(f"{place}/datagrams")
before = sorted(str(each) for each in Path(place).rglob("*") if "retoma-scratch" not in str(each))
ports = [tcp.getsockname()[1], udp.getsockname()[1]]
told = hostile.attack(os.getpid(), places, ports, [f"{place}/stream", f"{place}/datagrams"], token)
after = sorted(str(each) for each in Path(place).rglob("*") if "retoma-scratch" not in str(each))
shutdown()
print(json.dumps({**told, "new": sorted(set(after) ^ set(before)), "user": os.getuid(), "kept": len(kept)}))
"""


@pipeline("count")
async def count(text: str, _run: Run) -> int:
    return len(text)


@pytest.fixture
def place() -> Iterator[Path]:
    """The folder of somebody's project, which that user may enter, whoever it is."""
    folder = Path(tempfile.mkdtemp(prefix="retoma-project-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def usual_walls() -> Iterator[None]:
    shutdown()
    yield
    shutdown()
    configure(policy=Policy())


def as_nobody(command: list[str]) -> list[str]:
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--", *command]


def with_open_python(command: list[str], hold: Path) -> list[str]:
    """*command* where everybody can read Python; where root keeps it to itself, it is shown in its place."""
    base = Path(sys.base_prefix).resolve()
    closed = [each for each in base.parents if not each.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return command
    hold.mkdir()
    show = f"mount --bind {base} {hold} && mount -t tmpfs -o mode=755 none {closed[-1]} && mkdir -p {base}"
    return ["unshare", "--mount", "sh", "-c", f'{show} && mount --bind {hold} {base} && exec "$@"', "sh", *command]


def processes_with(token: str) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if token.encode() in each.read_bytes() and b"sleep" in each.read_bytes():
                found.append(str(each))
        except OSError:
            pass
    return found


def eventually(true: Callable[[], bool], seconds: float = 120) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


@pytest.mark.parametrize("user", ["root", "root, with a child that is nobody", "nobody"])
def test_a_reader_that_was_taken_over_gets_nothing(user: str, place: Path) -> None:
    is_root = user.startswith("root")
    if is_root and os.geteuid() != 0:
        pytest.skip("only root can be attacked as root")
    planted = [f"hush-{number}-{secrets.token_hex(8)}" for number in range(18)]
    in_files, in_memory, in_environment = planted[:4], planted[4], planted[5:]
    for name, secret in zip(FILES, in_files, strict=True):
        file = place / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(secret)
        file.chmod(0o600)
    token = secrets.token_hex(8)
    program = place / "victim.py"
    program.write_text(VICTIM % (FILES,))
    command = [sys.executable, str(program), str(place), token]
    hold = place.with_name(f"{place.name}-python")
    if not is_root and os.geteuid() == 0:
        for each in (place, *place.rglob("*")):
            os.chown(each, NOBODY, NOBODY)
        command = with_open_python(as_nobody(command), hold)
    elif user != "root":
        place.chmod(0o755)
        command = with_open_python(command, hold)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(HERE), "TMPDIR": str(place), "HOME": str(place)}
    environment |= dict(zip(NAMES, in_environment, strict=True))

    try:
        done = subprocess.run(
            command, input=in_memory, env=environment, cwd=place, capture_output=True, text=True, check=False
        )
    finally:
        shutil.rmtree(hold, ignore_errors=True)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["user"] == (0 if is_root else NOBODY if os.geteuid() == 0 else os.geteuid())
    if "child" in user:
        assert told["child"] == str(NOBODY)
    assert [secret for secret in planted if secret in told["read"]] == []
    assert (told["connected"], told["written"], told["escaped"], told["new"]) == ("", "", "", [])
    assert told["started"] == token, "it did try"
    assert eventually(lambda: processes_with(token) == [])
    assert [(place / name).read_text() for name in FILES] == in_files


def test_no_other_process_of_the_user_can_look_into_one_that_has_children() -> None:
    program = """
    import ctypes, json
    from retoma.isolate import adopt
    from retoma.system.settings import Settings
    adopt(Settings.load())
    print(json.dumps(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)))
    """

    assert (run(program, RETOMA_SANDBOX="auto"), run(program, RETOMA_SANDBOX="off")) == (0, 1)


PROGRAM = """
from retoma import Retoma, Run, pipeline


@pipeline("count")
async def count(text: str, _run: Run) -> int:
    return len(text)


app = Retoma(pipelines=[count])
"""
ONLOOKER = """
import json, sys
from pathlib import Path

def seen(place):
    try:
        return "hush" in place.read_bytes().decode(errors="replace")
    except PermissionError:
        return place.stat().st_uid

print(json.dumps([seen(Path("/proc", pid, "environ")) for pid in sys.argv[1:]]))
"""


@pytest.mark.parametrize(("sandbox", "told"), [("auto", 0), ("off", True)])
def test_another_process_of_the_user_cannot_look_into_server_supervisor_and_executors(
    sandbox: str, told: int, database_url: str, place: Path
) -> None:
    (place / "program.py").write_text(PROGRAM)
    place.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(place),
        "HOME": str(place),
        "TMPDIR": str(place),
        "DATABASE_URL": database_url,
        "RETOMA_HOME": str(place / "home"),
        "RETOMA_API_KEY": "hush-a-key-that-nobody-is-to-see",
        "RETOMA_SANDBOX": sandbox,
    }

    def start(name: str, command: list[str], out: Any) -> subprocess.Popen[bytes]:
        if os.geteuid() == 0:
            command = with_open_python(as_nobody(command), place.with_name(f"{place.name}-{name}"))
        return subprocess.Popen(command, env=environment, cwd=place, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    async def count_once() -> int:
        async with Retoma(database_url, pipelines=[count]) as app:
            return (await app.jobs.wait((await app.enqueue(count, "a")).id)).id

    retoma = [sys.executable, "-m", "retoma"]
    with (place / "log").open("wb") as log, ExitStack() as stack:
        started = []
        for name, command in (
            ("server", [*retoma, "serve", "--app", "program:app", "--port", "0"]),
            ("worker", [*retoma, "worker", "--app", "program:app", "--processes", "1"]),
            ("sleep", ["sleep", "600"]),
        ):
            each = stack.enter_context(start(name, command, log))
            stack.callback(shutil.rmtree, place.with_name(f"{place.name}-{name}"), ignore_errors=True)
            stack.callback(each.terminate)
            started.append(each)
        server, worker, other = (each.pid for each in started)
        assert eventually(lambda: b"http://" in (place / "log").read_bytes(), 90), (place / "log").read_text()
        asyncio.run(asyncio.wait_for(count_once(), 90))  # so the executor is at work
        children = psutil.Process(worker).children()
        executors = [each.pid for each in children if "retoma.worker.executor_main" in " ".join(each.cmdline())]
        assert executors
        look = [sys.executable, "-c", ONLOOKER, *map(str, (server, worker, *executors, other))]
        found = start("onlooker", look, subprocess.PIPE)
        stack.callback(shutil.rmtree, place.with_name(f"{place.name}-onlooker"), ignore_errors=True)
        said = found.communicate()[0]

    *ours, plain = json.loads(said)
    assert plain is True, "an ordinary process is open to its user"
    assert ours == [told] * (2 + len(executors)), "what /proc has of ours belongs to root"


MEDDLER = """
import json, os, subprocess, sys, time
import hostile_functions as hostile
from retoma.isolate import Policy, configure, shutdown

configure(policy=Policy(sandbox=sys.argv[1], without=tuple(sys.argv[2:])))
own = hostile.mind_itself()
with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
    done = hostile.meddle(other.pid)
    shutdown()
    alive = other.poll() is None
    other.kill()
print(json.dumps([own, done, alive, os.getpriority(os.PRIO_PROCESS, 0)]))
"""


@pytest.mark.parametrize("without", [[], ["files"]], ids=["landlock", "seccomp alone"])
def test_a_child_may_mind_itself_and_do_nothing_to_other_processes(without: list[str], place: Path) -> None:
    assert meddled(place, "auto", *without) == [
        ["processors", "priority", "signal"],
        [],
        True,
        os.getpriority(os.PRIO_PROCESS, 0),
    ]


def test_without_walls_a_child_could_do_much_to_other_processes(place: Path) -> None:
    _, done, alive, priority = meddled(place, "off")

    assert {"signal", "signal by a file", "processors", "priority of its user", "limits"} <= set(done)
    assert (alive, priority) == (False, 19)


def meddled(place: Path, *arguments: str) -> Any:
    """What a child can do to a process of its own user, who is nobody where we are root."""
    (place / "meddler.py").write_text(MEDDLER)
    place.chmod(0o755)
    command, hold = [sys.executable, str(place / "meddler.py"), *arguments], place.with_name(f"{place.name}-python")
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
        command = with_open_python(as_nobody(command), hold)
    told = {"PATH": os.environ["PATH"], "PYTHONPATH": str(HERE), "TMPDIR": str(place), "HOME": str(place)}
    try:
        done = subprocess.run(command, env=told, cwd=place, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(hold, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_the_walls_keep_is_there_to_be_read_without_them(place: Path) -> None:
    (place / "file").write_text("in a file")
    program = f"""
    import json, os, hostile_functions as hostile
    print(json.dumps(hostile.peek(["/proc/%s/environ" % os.getpid(), "{place}/file"])))
    """
    told = {"PYTHONPATH": str(HERE), "SECRET_OF_TESTS": "in the environment"}

    free, shut = run(program, RETOMA_SANDBOX="off", **told), run(program, RETOMA_SANDBOX="require", **told)

    assert "in the environment" in free
    assert "in a file" in free
    assert shut == "\n"


# ------------------------------------------------------------------ what a child says is not believed


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("no kind", "unknown kind"),
        ("too long", "2,147,483,648 bytes, where at most"),
        ("not JSON", "its annotation does not allow"),
        ("no text", "bytes that are no text"),
        ("another type", "its annotation does not allow"),
        ("deep", "its annotation does not allow"),
        ("many", "more than 4,000,000 values"),
        ("keys", "more than 500,000 keys"),
        ("no value", "a value that did not come"),
        ("another shape", "a reply of another shape"),
        ("another call", "the answer to another call"),
        ("begins for ever", "none of this call"),
        ("notes for ever", "none of this call"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_its_own_call(how: str, said: str) -> None:
    with pytest.raises(IsolatedFailure, match=said):
        hostile.lie(how)

    assert hostile.honest(3) == 3


def test_a_list_of_faults_is_left_at_the_first() -> None:
    looked_at: list[object] = []

    def look(value: object) -> object:
        looked_at.append(value)
        raise ValueError("none will do")

    codec = codec_of(list[Annotated[int, BeforeValidator(look)]])
    with pytest.raises(Misfit, match="0: Value error, none will do"):
        codec.decode("[1, 2, 3]", untrusted=True)

    assert looked_at == [1]
    assert codec_of(dict[str, list[bytes]]).decode('{"a": ["eA=="]}', untrusted=True) == {"a": [b"x"]}


def test_an_endless_answer_ends_with_the_time_of_its_call() -> None:
    with pytest.raises(IsolatedTimeout):
        hostile.lie_endlessly()


@pytest.mark.parametrize("how", ["a class", "a library"])
def test_an_error_that_is_none_is_described_and_nothing_is_called_or_imported(how: str) -> None:
    with pytest.raises(IsolatedFailure, match="raised x: y"):
        hostile.lie(how)

    assert "antigravity" not in sys.modules


def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next() -> None:
    assert hostile.answer_twice(1) == 1
    assert hostile.honest(3) == 3


# ------------------------------------------------------------------ which walls stand here


async def test_all_walls_stand_on_this_machine() -> None:
    assert set(await lacking()) & set(REQUIRED) == set()


LACKING = {
    ("privileges",): (Layer.PRIVILEGES, "gain rights"),
    ("limits",): (Layer.LIMITS, "raise its own limits"),
    ("environment",): (Layer.ENVIRONMENT, "RETOMA_LOG_LEVEL"),
    ("files",): (Layer.FILES, "read files of this user"),
    ("system calls",): (Layer.CALLS, "leave its group"),
    ("system calls", "processes"): (Layer.NETWORK, "by their sockets"),
    # Capabilities and a user namespace keep them apart, too.
    ("files", "parent", "processes", *(["privileges"] if os.geteuid() == 0 else [])): (
        Layer.PARENT,
        "environment of the process",
    ),
}


@pytest.mark.parametrize("without", LACKING)
async def test_each_wall_that_is_missing_is_told(without: tuple[str, ...]) -> None:
    layer, said = LACKING[without]
    if os.geteuid() != 0 and "privileges" in without:
        pytest.skip("without them only root can build the other walls")
    program = f"""
    import asyncio, json
    from retoma.isolate import Policy, configure
    from retoma.isolate.probe import lacking
    configure(policy=Policy(without={without}))
    print(json.dumps(asyncio.run(lacking())))
    """

    told = run(program, RETOMA_LOG_LEVEL="info")

    assert said in told[layer]


def run(program: str, **environment: str) -> Any:
    """What *program* says, in a process of its own: once hidden, ours stays so."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


async def test_a_worker_says_once_what_is_missing_or_does_not_start() -> None:
    heard: list[Event] = []
    end = listen(heard.append)
    configure(policy=Policy(without=("files",)))
    try:
        await watch_over("auto")
        with pytest.raises(ConfigurationError, match=r"cannot be shut in here: files \(it can read files"):
            await watch_over("require")
    finally:
        end()

    assert [
        event.missing.startswith("files (it can read") for event in heard if isinstance(event, SandboxIncomplete)
    ] == [True]


async def test_a_worker_does_not_warn_of_a_layer_that_nothing_requires() -> None:
    """Processes of root are never counted, and a warning at every start of every worker there would say nothing new."""
    heard: list[Event] = []
    end = listen(heard.append)
    configure(policy=Policy(without=("processes",)))
    try:
        assert set(await lacking()) == {Layer.PROCESSES}
        for sandbox in ("auto", "require"):
            await watch_over(sandbox)
    finally:
        end()

    assert [event for event in heard if isinstance(event, SandboxIncomplete)] == []


async def test_a_worker_that_requires_walls_does_not_start_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retoma.isolate.policy.WITHOUT", ("files",))
    app = Retoma(
        pipelines=[count], settings=Settings.load(sandbox="require", database_url="postgresql://127.0.0.1:1/x")
    )

    with pytest.raises(ConfigurationError, match="RETOMA_SANDBOX=require, and the children"):
        await app.worker(reference="test_sandbox:app").run()


async def test_nor_does_a_server_that_requires_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retoma.isolate.policy.WITHOUT", ("files",))
    app = Retoma(
        pipelines=[count], settings=Settings.load(sandbox="require", database_url="postgresql://127.0.0.1:1/x")
    )

    adopt(app.settings)

    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        pytest.raises(ConfigurationError, match="RETOMA_SANDBOX=require, and the children"),
    ):
        await _serve(app, listening, (), 1, [])


def test_a_child_that_is_not_shut_in_gets_no_input_where_that_is_required() -> None:
    configure(policy=Policy(sandbox="require", without=("system calls",)))

    with pytest.raises(ConfigurationError, match=r"could not be shut in: network \(left out\), system calls"):
        hostile.honest(3)


def test_doctor_says_what_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asyncio.run(_sandbox(Settings.load()))
    off = asyncio.run(_sandbox(Settings.load(sandbox="off")))
    monkeypatch.setattr("retoma.isolate.policy.WITHOUT", ("processes",))
    uncounted = asyncio.run(_sandbox(Settings.load()))
    monkeypatch.setattr("retoma.isolate.policy.WITHOUT", ("files",))
    missing = asyncio.run(_sandbox(Settings.load()))
    required = asyncio.run(_sandbox(Settings.load(sandbox="require")))

    assert (found.level, off.level, missing.level, required.level) == ("green", "amber", "amber", "red")
    assert "privileges, limits, environment, files, network, system calls, parent" in found.seen
    assert "missing: files (it can read files of this user)" in missing.seen
    assert uncounted.level == "green"
    assert "not here: processes (how many processes it starts is not limited)" in uncounted.seen


def test_the_tables_of_both_machines_name_each_call_once() -> None:
    for machine in seccomp.MACHINES.values():
        numbers = [number for _, number in seccomp.numbers(seccomp.TABLE + "," + seccomp.WITH_RULES, machine.column)]
        assert len(numbers) == len(set(numbers)) > 90
        code = seccomp.program(machine, own=7)
        assert all(max(true, false) < len(code) - place for place, (_, true, false, _) in enumerate(code))
