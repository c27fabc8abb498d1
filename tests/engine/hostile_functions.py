"""A reader that a document has taken over: all that it tries, in a module of its own, for a child finds it by name."""

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from retoma.isolate import channel, child, isolated

Attempts = Iterable[tuple[str, Callable[[], object]]]


@isolated(seconds=60, megabytes=256)
def attack(parent: int, places: list[str], ports: list[int], addresses: list[str], token: str) -> dict[str, str]:
    """Everything that could be read, as one text; what could be connected, written, started or raised, as others."""
    read = [_read(lambda each=each: Path(each).read_bytes()) for each in _files(parent, places)]
    read += [_read(lambda: json.dumps(dict(os.environ)).encode()), _memory(parent), _listed(places)]
    return {
        "read": "\n".join(read),
        "connected": " ".join(filter(None, _connections(ports, addresses))),
        "written": " ".join(filter(None, (_write(Path(each)) for each in places))),
        "escaped": " ".join(_escapes(parent)),
        "started": _start(token),
        "child": str(os.getuid()),
    }


@isolated(seconds=60, megabytes=256)
def peek(files: list[str]) -> str:
    return "\n".join(_read(lambda each=each: Path(each).read_bytes()) for each in files)


def _files(parent: int, places: list[str]) -> list[str]:
    """Those that were named, and what /proc has of every process that we can see."""
    files = [each for place in places for each in (place, *_below(place, "**/*"))]
    files += [f"{place}/../{name}" for place in places for name in ("password", ".env")]
    for process in {f"/proc/{parent}", f"/proc/{os.getppid()}", *_below("/proc", "[0-9]*")}:
        files += [f"{process}/{each}" for each in ("environ", "cmdline", "maps")]
        files += [*_below(process, "fd/*"), *_below(process, "cwd/*"), *_below(process, "root/root/*")]
    return [*files, "/etc/shadow", "/etc/passwd", "/proc/self/environ"]


def _below(place: str, pattern: str) -> list[str]:
    try:
        return [str(each) for each in Path(place).glob(pattern)]
    except OSError:
        return []


def _read(attempt: Callable[[], bytes]) -> str:
    try:
        return attempt()[:1_000_000].decode(errors="replace")
    except OSError:
        return ""


def _memory(parent: int) -> str:
    """The heap and the stack of the parent, by file, by system call, and by its debugger's call."""
    found = b""
    for line in _read(lambda: Path(f"/proc/{parent}/maps").read_bytes()).splitlines():
        if "[heap]" in line or "[stack]" in line:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            try:
                with Path(f"/proc/{parent}/mem").open("rb") as memory:
                    memory.seek(begin)
                    found += memory.read(min(end - begin, 8_000_000))
            except OSError:
                pass
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, parent, 0, 0) == 0:  # PTRACE_ATTACH
        found += b"ptrace"
    return found.decode(errors="replace")


def _listed(places: list[str]) -> str:
    return " ".join(name for place in places for name in _below(place, "*"))


def _connections(ports: list[int], addresses: list[str]) -> list[str]:
    made = []
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        for port in ports:
            made += [_connect(family, socket.SOCK_STREAM, (host, port)), _send(family, (host, port))]
    for address in addresses:
        made += [
            _connect(socket.AF_UNIX, socket.SOCK_STREAM, address),
            _send(socket.AF_UNIX, address),
            _paired(address),
        ]
    return made


def _connect(family: int, kind: int, where: object) -> str:
    try:
        with socket.socket(family, kind) as made:
            made.settimeout(5)
            made.connect(where)
            return f"connected to {where}"
    except OSError:
        return ""


def _send(family: int, where: object) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as made:
            made.sendto(b"leaked", where)
            return f"sent to {where}"
    except OSError:
        return ""


def _paired(address: str) -> str:
    """Half of a pair may still be able to send elsewhere."""
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with ours, theirs:
            ours.sendto(b"leaked", address)
            return f"sent to {address} from a pair"
    except OSError:
        return ""


def _write(place: Path) -> str:
    """Beside a file, into it, its name, its rights, its time, its length."""
    folder = place if place.is_dir() else place.parent
    done = []
    for what, attempt in (
        ("made", lambda: (folder / "hostile").write_text("x")),
        ("linked", lambda: (folder / "hostile-link").symlink_to("/etc/passwd")),
        ("folder", (folder / "hostile-folder").mkdir),
        ("changed", lambda: place.write_text("x")),
        ("removed", place.unlink),
        ("moved", lambda: place.rename(Path("moved"))),
        ("linked here", lambda: Path("here").hardlink_to(place)),
        ("rights", lambda: place.chmod(0o777)),
        ("time", lambda: os.utime(place, (1, 1))),
        ("length", lambda: os.truncate(place, 0)),
        ("marked", lambda: os.setxattr(place, "user.hostile", b"x")),
    ):
        try:
            attempt()
            done.append(f"{what} {place}")
        except OSError:
            pass
    return " ".join(done)


@isolated(seconds=60, megabytes=256)
def meddle(other: int) -> list[str]:
    """What could be done to another process of the same user, without looking into it."""
    return _done(_meddling(other))


@isolated(seconds=60, megabytes=256)
def mind_itself() -> list[str]:
    """What a process may do to itself, as numeric libraries do."""
    return _done(
        (
            ("processors", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))),
            ("priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, 19)),
            ("signal", lambda: os.kill(os.getpid(), 0)),
        )
    )


def _meddling(other: int) -> Attempts:
    return (
        ("signal", lambda: os.kill(other, 0)),
        ("signal to its group", lambda: os.killpg(os.getpgid(other), 0)),
        ("signal by a descriptor", lambda: signal.pidfd_send_signal(os.pidfd_open(other), 0)),
        ("signal by a file", lambda: _owned(fcntl.F_SETOWN, other)),
        ("signal by a file, the newer way", lambda: _owned(15, struct.pack("ii", 1, other))),
        ("signal by a socket", lambda: _owned_socket(other)),
        ("trace", lambda: _checked(ctypes.CDLL(None, use_errno=True).ptrace(16, other, 0, 0))),
        ("limits", lambda: resource.prlimit(other, resource.RLIMIT_NOFILE, (256, 256))),
        ("processors", lambda: os.sched_setaffinity(other, os.sched_getaffinity(0))),
        ("scheduler", lambda: os.sched_setscheduler(other, os.SCHED_OTHER, os.sched_param(0))),
        ("priority", lambda: os.setpriority(os.PRIO_PROCESS, other, 19)),
        ("priority of its group", lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(other), 19)),
        ("priority of its user", lambda: os.setpriority(os.PRIO_USER, 0, 19)),
        ("group", lambda: os.setpgid(0, os.getpgid(other))),
    )


def _owned(command: int, owner: int | bytes) -> None:
    """Whoever owns a file is sent a signal of our choice when something comes."""
    reads, writes = os.pipe()
    fcntl.fcntl(reads, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(reads, command, owner)
    fcntl.fcntl(reads, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writes, b"x")


def _owned_socket(owner: int) -> None:
    ours, _ = socket.socketpair()
    fcntl.ioctl(ours, 0x8901, struct.pack("i", owner))  # FIOSETOWN


def _checked(found: int) -> None:
    if found < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _done(attempts: Attempts) -> list[str]:
    done = []
    for what, attempt in attempts:
        try:
            attempt()
            done.append(what)
        except (OSError, ValueError):
            pass
    return done


def _escapes(parent: int) -> list[str]:
    """Ways out of the walls themselves."""
    return _done(
        (
            *_meddling(parent),
            ("limits", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4_096, 4_096))),
            ("memory", lambda: resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)),
            ("user", lambda: os.setuid(0) if os.getuid() else os.setuid(1)),
            ("root", lambda: os.chroot("/")),
            ("mount", lambda: _syscall(165, b"/usr", b"/srv", b"none", 4_096, 0)),
            ("namespace", lambda: _syscall(272, 0x10000000)),
            ("key", lambda: _syscall(248, b"user", b"hostile", b"x", 1, -3)),
            ("io_uring", lambda: _syscall(425, 1, ctypes.create_string_buffer(256))),
            ("bpf", lambda: _syscall(321, 0, ctypes.create_string_buffer(256), 128)),
            ("x32", lambda: _syscall(0x40000000 + 41, 2, 1, 0)),
            ("large file", _write_much),
        )
    )


def _syscall(number: int, *arguments: object) -> None:
    if os.uname().machine != "x86_64":
        raise OSError("the numbers are of another machine")
    _checked(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


def _write_much() -> None:
    with Path("large").open("wb") as file:
        file.truncate(300 * 1_048_576)


def _start(token: str) -> str:
    """Programs that try to outlive us, by leaving our group or by hiding behind another."""
    program = f"import os, sys, time; os.fork() and os._exit(0); {{leave}}; time.sleep(6222)  # {token}"
    for leave in ("os.setsid()", "os.setpgid(0, 0)", "print()"):
        subprocess.Popen([sys.executable, "-I", "-S", "-c", program.format(leave=leave)])
    subprocess.Popen(["sh", "-c", f"trap '' TERM HUP; (while :; do sleep 1; done) & : {token}; sleep 6222"])
    return token


@isolated(seconds=20, megabytes=256)
def honest(number: int) -> int:
    return number


@isolated(seconds=20, megabytes=256)
def answer_twice(number: int) -> int:
    """A reply for the next call, too, sent in time."""
    threading.Timer(0.1, _answer_again).start()
    return number


def _answer_again() -> None:
    channel.send(child._out, channel.VALUE, b"99")
    channel.send(child._out, channel.REPLY, b'{"kind": "value"}')


VALUE = {
    "not JSON": b"cos\nsystem\n(S'touch owned'\ntR.",
    "no text": b"\xff\xfe\x00",
    "another type": b'{"not": "a number"}',
    "deep": b"[" * 1_000_000,
    "many": b"[" + b"0," * 5_000_000 + b"0]",
    "another call": b"7",
    "keys": b"{" + b'"":0,' * 600_000 + b'"":0}',
}
REPLY = {
    "no value": {"kind": "value"},
    "another shape": {"kind": "everything is fine", "worn": "perhaps"},
    "a class": {
        "kind": "error",
        "text": "x: y",
        "error": {"module": "subprocess", "name": "Popen", "args": [["touch"]]},
    },
    "a library": {"kind": "error", "text": "x: y", "error": {"module": "antigravity", "name": "Error"}},
}
RAW = {
    "no kind": b"!!!!!",
    "too long": channel.VALUE + (2**31).to_bytes(4, "big"),
}
AGAIN = {"begins for ever": channel.BEGUN, "notes for ever": channel.NOTE}


@isolated(seconds=240, megabytes=256)
def lie(how: str) -> int:
    """Answer by hand, with what is no answer, as one can who has the descriptor and the number of the call."""
    out, number = child._out, sys._getframe(2).f_locals["call"]["number"]
    os.write(out, RAW.get(how, b""))
    if how in VALUE:
        channel.send(out, channel.VALUE, VALUE[how])
    if how in VALUE or how in REPLY:
        reply = {"number": "another" if how == "another call" else number, **REPLY.get(how, {"kind": "value"})}
        channel.send(out, channel.REPLY, json.dumps(reply).encode())
    while how in AGAIN:
        channel.send(out, AGAIN[how], number.encode())
    time.sleep(60)
    return 0


@isolated(seconds=2, megabytes=256)
def lie_endlessly() -> int:
    """Announce an answer of 100 MB, and send it slowly."""
    os.write(child._out, channel.VALUE + (100 * 1_048_576).to_bytes(4, "big"))
    while True:
        os.write(child._out, b"[" * 4_096)
        time.sleep(0.05)
