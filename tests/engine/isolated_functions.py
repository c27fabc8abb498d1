"""What the children of test_isolate run; in a module of its own, for a child finds its function by name."""

import ctypes
import functools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from retoma.errors import DatabaseUnreachable, KeyTaken
from retoma.isolate import isolated, note


class Unhappy(Exception):
    """Its __init__ asks for more than its args hold."""

    def __init__(self, word: str, *, page: int) -> None:
        super().__init__(f"{word} on page {page}")
        self.page = page


@dataclass(frozen=True, slots=True)
class Picture:
    pixels: bytes
    note: str
    when: datetime


def shouted(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args).upper()

    return wrapper


@isolated(seconds=20, megabytes=256)
def double(number: int, *, plus: int = 0) -> int:
    """Twice the number."""
    return number * 2 + plus


@isolated(seconds=20, megabytes=256)
@shouted
def greet(name: str) -> str:
    return f"hello {name}"


@isolated(seconds=20, megabytes=256)
def quadruple(number: int) -> tuple[int, int]:
    return double(double(number)), os.getpid()


@isolated(seconds=20, megabytes=256)
def pid() -> int:
    return os.getpid()


@isolated(seconds=20, megabytes=256)
def die(how: str, words: str = "") -> None:
    print(words, file=sys.stderr)  # noqa: T201
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "exit 7":
            os._exit(7)
        case "exit 0":
            os._exit(0)
        case "sys.exit":
            sys.exit(3)
        case "cpu":
            os.kill(os.getpid(), signal.SIGXCPU)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


@isolated(seconds=20, megabytes=256)
def double_unless(number: int, bad: int) -> int:
    if number == bad:
        ctypes.string_at(0)
    return number * 2


@isolated(seconds=1, megabytes=256)
def hang() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


@isolated(seconds=1, megabytes=256)
def spin() -> None:
    while True:
        pass


@isolated(seconds=60, megabytes=256)
def tell_and_hang() -> None:
    """Note our pid, and that of a program we started."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = subprocess.Popen(["sleep", "600"])
    note([os.getpid(), program.pid])
    time.sleep(600)


@isolated(seconds=20, megabytes=256)
def allocate(megabytes: int) -> int:
    return len(bytearray(megabytes * 1_048_576))


@isolated(seconds=60, megabytes=128)
def hoard() -> None:
    """Fill the memory with small things, to the last byte."""
    things = []
    while True:
        things.append(object())


@isolated(seconds=20, megabytes=256)
def allocate_in_c(megabytes: int) -> None:
    """As a C++ library does it: no memory, a word, abort."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    if not libc.malloc(megabytes * 1_048_576):
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
        os.abort()


kept = []


@isolated(seconds=20, megabytes=256)
def leak(megabytes: int) -> int:
    kept.append(bytearray(megabytes * 1_048_576))
    return os.getpid()


@isolated(seconds=20, megabytes=512)
def touch_and_crash(megabytes: int) -> None:
    kept.append(b"x" * (megabytes * 1_048_576))
    time.sleep(0.5)  # long enough to be seen, also on a busy machine
    ctypes.string_at(0)


@isolated(seconds=20, megabytes=256)
def recurse(depth: int = 0) -> int:
    return recurse.function(depth + 1)


@isolated(seconds=20, megabytes=256)
def refuse(kind: str) -> None:
    match kind:
        case "plain":
            raise ValueError("page 7 has no text")
        case "demanding":
            raise Unhappy("tears", page=7)
        case "ours":
            raise KeyTaken("the key is taken", job_id=7, next="Use another.")
        case "unsendable":
            error = ValueError("holds a lock")
            error.lock = threading.Lock()
            raise error
        case "stop":
            raise StopIteration
        case "database":
            raise DatabaseUnreachable("there is no database, says a document")


@isolated(seconds=20, megabytes=256)
def big(size: int) -> bytes:
    return b"x" * size


@isolated(seconds=20, megabytes=256)
def length(body: bytes) -> int:
    return len(body)


@isolated(seconds=20, megabytes=256)
def unsendable():
    return threading.Lock()


@isolated(seconds=20, megabytes=256)
def unsaid(kind: str):
    """What comes back from JSON as something else, when no annotation says what it was."""
    return {"tuple": (1, 2), "bytes": b"x", "list": [1, None, {"a": "b"}]}[kind]


@isolated(seconds=20, megabytes=256)
def picture(size: int) -> Picture:
    return Picture(pixels=bytes(range(256)) * size, note="\0 and \ud800", when=datetime(2026, 1, 2, tzinfo=UTC))


@isolated(seconds=20, megabytes=256)
def read_and_change(file: Path) -> list[str]:
    """What the file says, and what came of changing it."""
    endings = [file.name, file.read_text()]
    linked = Path("linked")
    for change in (
        lambda: file.write_text("changed"),
        file.unlink,
        lambda: file.chmod(0o777),
        lambda: linked.hardlink_to(file),
        lambda: file.rename(linked),
    ):
        try:
            change()
            endings.append("done")
        except OSError as error:
            endings.append(type(error).__name__)
    return endings


@isolated(seconds=20, megabytes=256)
def read_by_name(path: str) -> str:
    return Path(path).read_text()


@isolated(seconds=20, megabytes=256)
def surroundings() -> tuple[dict[str, str], str, list[str], list[str]]:
    """The environment as Python sees it and as the kernel does, the command line, and the open files."""
    environ = Path("/proc/self/environ")
    files = Path("/proc/self/fd")
    return (
        dict(os.environ),
        environ.read_text() if environ.exists() else "",
        sys.argv,
        [str(each.readlink()) for each in files.iterdir() if each.is_symlink()] if files.exists() else [],
    )


@isolated(seconds=20, megabytes=256)
def limits() -> dict[str, int]:
    return {
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "processor": resource.getrlimit(resource.RLIMIT_CPU)[0],
        "memory": resource.getrlimit(resource.RLIMIT_AS)[0],
        "first to go": int(Path("/proc/self/oom_score_adj").read_text()),
    }


@isolated(seconds=20, megabytes=256)
def survive_sigterm() -> str:
    os.kill(os.getpid(), signal.SIGTERM)
    return "still here"


@isolated(seconds=20, megabytes=256)
def chatter(lines: int) -> None:
    for _ in range(lines):
        os.write(2, b"warning: nothing is wrong\n" * 1_000)


def vanished() -> None: ...


lost = isolated(seconds=20, megabytes=256)(vanished)
del vanished  # a child looks for it in vain


@isolated(seconds=60, megabytes=256)
def leave_behind(how: str) -> None:
    """Start a program that would outlive everybody, note which, and go."""
    left = subprocess.Popen(["sleep", "6111"])
    note(left.pid)
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "exit":
        os._exit(7)
    time.sleep(60)
