"""The template process: it loads the program once, and becomes an executor as often as its supervisor asks for one."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import os
import select
import signal
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from retoma.errors import RetomaError
from retoma.isolate import kernel
from retoma.system.signals import ignore_ctrl_c
from retoma.worker.executor_main import die_with, execute
from retoma.worker.loader import Program, find_program

READY, UNFIT = b"ready", b"unfit"
MOST_BYTES = 65_536
IDLE_SECONDS = 60.0
"""A template that nobody has asked for so long ends, and frees its memory."""
_BARE = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_NAME, _NAME_OF_EXECUTOR = b"retoma.worker.template_main", b"retoma.worker.executor_main"


def main() -> None:
    """Load the program, tell the supervisor whether it may be copied, and make executors until nobody asks."""
    faulthandler.enable()
    ignore_ctrl_c()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    line = socket.socket(fileno=int(sys.argv[1]))
    told = orjson.loads(line.recv(MOST_BYTES))
    die_with(told["supervisor"])
    app = _loaded(told["reference"])
    if app is None:
        line.send(UNFIT)
        return
    if told["sandbox"] != "off":
        kernel.hide()
    gc.freeze()  # a collection would write into every page, and each executor would get a copy of it
    line.send(READY)
    files = _until_copied(line)
    if files is not None:
        line.close()
        execute(lambda _: app, files)


def _loaded(reference: str) -> Program | None:
    """The program; None when it cannot be loaded, which an executor of its own will say, or when a copy of this process
    would be another one than a process that has loaded the program itself: a copy has no thread but one, and would
    share files and connections with its siblings.
    """
    before = _open_files()
    try:
        import uvloop  # noqa: F401, PLC0415 - so that no executor has to

        app = find_program(reference)
    except RetomaError:
        return None
    alike = _threads() == 1 and _open_files() == before
    return app if alike else None


def _threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def _open_files() -> dict[str, str]:
    """Every descriptor by which copies would be in each other's way, and what it leads to."""
    found = {}
    for each in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the listing itself is one of them
        with suppress(OSError):
            place = str(Path("/proc/self/fd", each).readlink())
            if place not in _BARE and not _is_log(int(each)):
                found[each] = place
    return found


def _is_log(file: int) -> bool:
    """Whether it is a file that is only added to: a line of one process is never in the way of another's."""
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    only_added_to = bool(flags & os.O_APPEND) and flags & os.O_ACCMODE == os.O_WRONLY
    return only_added_to and stat.S_ISREG(os.fstat(file).st_mode)


def _until_copied(line: socket.socket) -> dict[int, int] | None:
    """Copy this process at each request. In a copy, the files that came with the request, by the number that they have
    with the supervisor; in the template itself None, once nobody asks any more.
    """
    while select.select([line], [], [], IDLE_SECONDS)[0]:
        request, files, _, _ = socket.recv_fds(line, MOST_BYTES, 8)
        if not request:
            return None
        pid = _copy()
        if pid is None:
            return _taken(orjson.loads(request), files)
        for each in files:
            os.close(each)
        line.send(b"%d" % pid)
    return None


def _copy() -> int | None:
    """The process id of a copy, 0 where the machine has no room for one, and None in the copy.

    The process in between ends at once: then the supervisor, which adopts orphans just now, is the parent of the copy,
    and knows when and how it ends even when this process has ended before.
    """
    reads, writes = os.pipe()
    try:
        between = os.fork()
    except OSError:
        os.close(reads)
        os.close(writes)
        return 0
    if between == 0:
        try:
            kernel.rename(_NAME, _NAME_OF_EXECUTOR)  # for whoever looks at the list of processes
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid == 0:
            os.close(reads)
            os.close(writes)
            return None
        os.write(writes, b"%d" % pid)
        os._exit(0)
    os.close(writes)
    os.waitpid(between, 0)
    told = os.read(reads, 32)
    os.close(reads)
    return int(told or 0)


def _taken(request: dict[str, Any], files: list[int]) -> dict[int, int]:
    control, *others = files
    os.dup2(control, 0)
    os.close(control)
    return dict(zip(request["files"], others, strict=True))
