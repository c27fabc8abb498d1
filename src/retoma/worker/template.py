"""Starts executors as copies of a process that has loaded the program already, which takes a twentieth of the time.

Only executors that replace others are started so: until one has loaded the program, nobody knows that it can be. Where
a copy cannot be made, for whatever reason, an executor loads the program itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import orjson

from retoma.isolate import kernel
from retoma.system.settings import Settings
from retoma.system.signals import holding_ctrl_c
from retoma.worker.status_board import StatusBoard
from retoma.worker.template_main import MOST_BYTES, READY, UNFIT

_PROGRAM = "import gc; gc.disable(); from retoma.worker.template_main import main; main()"
_LONGEST = 60.0  # seconds that a program may take to load; an executor that loads it itself may take longer
_LONGEST_COPY = 5.0  # seconds that a copy may take


def environment() -> dict[str, str]:
    """The environment of executors."""
    # Set before numpy loads: there are many executors, and each would start a thread per core.
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ}


@dataclass(slots=True)
class Begun:
    """A process that was started, and where orders to it are written, without waiting."""

    pid: int
    control: int
    popen: subprocess.Popen[bytes] | None = None
    """Kept, because one that is forgotten takes the exit status for itself."""


class Template:
    """The template of one supervisor. It is started when a copy is wanted, and ends when none was for a while."""

    def __init__(self, reference: str, settings: Settings) -> None:
        self._reference = reference
        self._sandbox = settings.sandbox
        self._fit = kernel.LINUX and settings.worker_template == "auto"
        self._loads = False
        self._turn = asyncio.Lock()
        self._line: socket.socket | None = None
        self._popen: subprocess.Popen[bytes] | None = None

    def learn(self, board: StatusBoard) -> None:
        """Hear from the *board* of an executor whether the program can be loaded."""
        self._loads = self._loads or board.totals().ready

    async def prepare(self, boards: Iterable[StatusBoard] = ()) -> None:
        """Start the template if there is none and one of the executors has loaded the program; wait until it has done
        so, too.
        """
        for each in boards:
            self.learn(each)
        if not self._loads:
            return
        async with self._turn:
            if self._popen is not None and self._popen.poll() is not None:
                self.close()  # nobody had asked it for a while
            if not self._fit or self._line is not None:
                return
            try:
                async with asyncio.timeout(_LONGEST):
                    await self._load()
            except (OSError, EOFError, ValueError):  # a time-out is an OSError
                self.close()

    async def begin(self, at_once: int, sheet: int | None) -> tuple[StatusBoard, Begun | None]:
        """The board of a new executor that counts on *sheet*, and the executor itself, if it can be a copy."""
        board = StatusBoard.new(at_once)
        try:
            return board, await self.copy([board.file, *([] if sheet is None else [sheet])])
        except BaseException:
            board.close()
            raise

    async def copy(self, files: Sequence[int]) -> Begun | None:
        """A new executor that has *files*, under other numbers; None when it must be started in another way."""
        async with self._turn:
            if self._line is None:
                return None
            try:
                async with asyncio.timeout(_LONGEST_COPY):
                    return await self._copy(self._line, files)
            except (OSError, EOFError, ValueError):
                self.close()
            return None

    async def _copy(self, line: socket.socket, files: Sequence[int]) -> Begun:
        reads, control = os.pipe()
        try:
            pid = await self._asked(line, [reads, *files], told=files)
        except BaseException:
            os.close(control)  # a copy that gets no orders ends
            raise
        finally:
            os.close(reads)
        os.set_blocking(control, False)
        return Begun(pid, control)

    async def _asked(self, line: socket.socket, given: Sequence[int], *, told: Sequence[int]) -> int:
        """The process id of a copy that was *given* these files, and is told how they are called here."""
        kernel.adopt_orphans(yes=True)
        try:
            socket.send_fds(line, [orjson.dumps({"files": list(told)})], given)
            pid = int(await self._answer(line))
        finally:
            kernel.adopt_orphans(yes=False)
        if not pid:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return pid

    async def _load(self) -> None:
        line = self._line = self._start()
        found = await self._answer(line)
        if found != READY:
            self._fit = found != UNFIT
            self.close()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs, holding_ctrl_c():
            self._popen = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment(),
            )
        told = {"supervisor": os.getpid(), "reference": self._reference, "sandbox": self._sandbox}
        ours.send(orjson.dumps(told))
        return ours

    async def _answer(self, line: socket.socket) -> bytes:
        found = await asyncio.get_running_loop().sock_recv(line, MOST_BYTES)
        if not found:
            raise EOFError
        return found

    def close(self) -> None:
        """End the template; its copies live on."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._popen is not None:
            with suppress(ProcessLookupError):
                self._popen.kill()
            self._popen.wait()
            self._popen = None
