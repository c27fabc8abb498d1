"""The mother of the programs under test: it imports once what they all import, and each of them is a fork of it.

What is forked is a process like any other: with a number, a group, files, connections and signals of its own, and
nothing else in common with those who were forked before. It runs the program from its first line, as a new interpreter
would; only the imports are there already, which are nine tenths of what a start costs.

A worker brings a nursery of its own into the world before it begins, and it is that which its executors are forked
from. They are its children all the same: it adopts them.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

Program = Callable[[], None]

_HIGH = 500
"""Above every number that a file of a program has."""
_DIE_WITH_PARENT, _NAME, _ADOPT_ORPHANS = 1, 15, 36
_libc = ctypes.CDLL(None)


class Nursery:
    """Forks what it is told to over *door*, and says how each ended."""

    def __init__(self, door: socket.socket, *, orphans: bool = False) -> None:
        """With *orphans* the forked are left to the nearest ancestor that adopts, who hears of their end by itself."""
        self._door = door
        self._orphans = orphans
        self._living: dict[int, tuple[int, int]] = {}  # by the file that tells of its end: its number, whom to tell

    def run(self) -> Program | None:
        """In the nursery itself, None at the end; in whatever was forked, what it has to do."""
        waiting = select.poll()
        waiting.register(self._door, select.POLLIN)
        while True:
            for file, _ in waiting.poll():
                if file != self._door.fileno():
                    waiting.unregister(file)
                    self._tell(file)
                    continue
                order, files, _, _ = socket.recv_fds(self._door, 1_000_000, 8)
                if not order:
                    return None
                asked = json.loads(order)
                for name in asked["needs"]:
                    importlib.import_module(name)
                gc.collect()
                gc.freeze()  # nothing looks through it again, so all go on sharing it
                if program := self._fork(asked, files, waiting):
                    return program

    def _fork(self, asked: dict[str, Any], files: list[int], waiting: select.poll) -> Program | None:
        tell, *given = files
        pid = _orphan() if self._orphans else os.fork()
        if not pid:
            return become(asked, given)
        for file in given:
            os.close(file)
        os.write(tell, f"{pid}\n".encode())
        if self._orphans:
            os.close(tell)
            return None
        ended = os.pidfd_open(pid)
        self._living[ended] = pid, tell
        waiting.register(ended, select.POLLIN)
        return None

    def _tell(self, ended: int) -> None:
        pid, tell = self._living.pop(ended)
        _, status = os.waitpid(pid, 0)
        os.close(ended)
        os.write(tell, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(tell)


def _orphan() -> int:
    """Fork as os.fork does, and be no longer the parent of it."""
    reads, writes = os.pipe()
    between = os.fork()
    if not between:
        if child := os.fork():
            os.write(writes, f"{child}\n".encode())
            os._exit(0)
        return 0
    os.waitpid(between, 0)  # only now it has its other parent
    os.close(writes)
    with os.fdopen(reads) as told:
        return int(told.readline())


def become(asked: dict[str, Any], files: list[int]) -> Program:
    """Take on what a new process would have been given, and leave what was the nursery's."""
    gc.enable()
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, _HIGH) for file in files]
    os.closerange(3, _HIGH)
    for file, number in zip(high, asked["files"], strict=True):
        os.dup2(file, number, inheritable=True)
    os.closerange(_HIGH, _HIGH + 100)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    if asked["group"]:
        os.setpgid(0, 0)
        _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    _libc.prctl(_NAME, asked["name"].encode())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [asked["folder"], *filter(None, path)]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    sys.stdin = os.fdopen(0, closefd=False)
    match asked["words"]:
        case ["executor"]:
            return execute
        case ["-m", module, *words]:
            sys.argv = [module, *words]
            if {"worker", "up"} & set(words):
                with_executors()
            return partial(runpy.run_module, module, run_name="__main__", alter_sys=True)
        case ["-c", text, *words]:
            sys.argv = ["-c", *words]
            return partial(exec, compile(text, "<string>", "exec", dont_inherit=True), vars(sys.modules["__main__"]))
        case [path, *words]:
            sys.argv = [path, *words]
            sys.path.insert(0, str(Path(path).parent))
            return partial(runpy.run_path, path, run_name="__main__")
    raise AssertionError(asked["words"])


def with_executors() -> None:
    """Fork a nursery for the executors of this worker, and have them forked instead of started."""
    from retoma.worker.executor_process import Process  # noqa: PLC0415 - who needs no worker does not wait for it

    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    me = os.getpid()
    if os.fork():
        there.close()
        _libc.prctl(_ADOPT_ORPHANS, 1)
        Process._start = partialmethod(_forked, here)  # type: ignore[method-assign]
        return
    _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    _libc.prctl(_NAME, b"nursery")
    if os.getppid() != me:
        os._exit(1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # what is sent to the group of the worker is for those who work
    here.close()
    program = Nursery(there, orphans=True).run()
    if program is None:
        os._exit(0)
    program()
    sys.exit()


def _forked(_process: Any, door: socket.socket, files: Sequence[int]) -> Any:
    from retoma.worker.template import Begun  # noqa: PLC0415

    reads, writes = os.pipe()
    heard, tell = os.pipe()
    order = {
        "words": ["executor"],
        "environment": {"OPENBLAS_NUM_THREADS": "1", **os.environ},
        "folder": str(Path.cwd()),
        "files": [0, *files],
        "name": "executor",
        "group": False,
        "needs": [],
    }
    socket.send_fds(door, [json.dumps(order).encode()], [tell, reads, *files])
    os.close(reads)
    os.close(tell)
    with os.fdopen(heard) as answer:
        pid = int(answer.readline())
    os.set_blocking(writes, False)
    return Begun(pid, writes)


def execute() -> None:
    from retoma.worker.executor_main import main  # noqa: PLC0415

    sys.argv = ["-c"]
    gc.disable()
    main()


def main() -> None:
    door = socket.socket(fileno=int(sys.argv[1]))
    _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if program := Nursery(door).run():
        door.detach()
        program()


if __name__ == "__main__":
    main()
