"""Several server processes at one address: callers are shared out, and whoever is free takes those who wait."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable, Sequence

from retoma.errors import ConfigurationError
from retoma.telemetry.sheet import Sheet
from retoma.web.server.server import GRACE_SECONDS

_AGAIN_SECONDS = 1.0  # so that one that cannot live does not use up a processor by trying
_MISTAKEN = 2  # what our commands end with when they were told something wrong


async def serve_together(
    number: int, listening: socket.socket, arguments: Sequence[str], *, stop: asyncio.Event, tell: Callable[[str], None]
) -> None:
    """Keep *number* processes of ``retoma serve`` at *listening* until *stop*; one that dies is replaced.

    Each hears of the end by its standard input, which is closed also when this process is killed.
    """
    command = [sys.executable, "-m", "retoma", "serve", *arguments]
    try:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(each) for each in _shared_out(number, listening)]
            sheets = [stack.enter_context(contextlib.closing(Sheet())) for _ in sockets]
            async with asyncio.TaskGroup() as group:
                for place, own in enumerate(sockets):
                    others = [each for each in sockets if each is not own]
                    counted = [sheets[place], *(each for each in sheets if each is not sheets[place])]
                    group.create_task(_keep_one(command, [own, *others], counted, stop, tell))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None  # what keeps one from starting keeps all


def _shared_out(number: int, listening: socket.socket) -> list[socket.socket]:
    """Where each process listens. Linux shares callers out evenly among sockets at one address; from a single one, the
    process that wakes first takes most of them. They stay open here, so nobody is lost who waits for one that died.
    """
    if sys.platform != "linux":
        return [listening] * number
    # Only now: from the start, it would have hidden from us that somebody else listens there.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    address, family = listening.getsockname(), listening.family
    more = [socket.create_server(address, family=family, reuse_port=True) for _ in range(number - 1)]
    return [listening, *more]


async def _keep_one(
    command: Sequence[str],
    listening: Sequence[socket.socket],
    sheets: Sequence[Sheet],
    stop: asyncio.Event,
    tell: Callable[[str], None],
) -> None:
    """Keep one process running. It counts on the first of the *sheets*, as the one before it did, and reads them all:
    whichever process a scrape meets, it answers for all of them.
    """
    where = [word for each in listening for word in ("--socket", str(each.fileno()))]
    where += [word for each in sheets for word in ("--sheet", str(each.file))]
    descriptors = [*(each.fileno() for each in listening), *(each.file for each in sheets)]
    while not stop.is_set():
        process = await asyncio.create_subprocess_exec(
            *command, *where, stdin=asyncio.subprocess.PIPE, pass_fds=descriptors
        )
        ended, told = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({ended, told}, return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                listening[0].close()  # from here on nobody is let in who would not be answered
                await _end(process)
                return
        finally:
            told.cancel()
            if process.returncode is None:
                process.kill()
            await ended
        if process.returncode == _MISTAKEN:
            raise ConfigurationError("A server process could not start.", next="It has said why, above.")
        tell(f"Server process {process.pid} ended with {process.returncode}; another takes its place.")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _AGAIN_SECONDS)


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(TimeoutError):
        # What is under way may end; a little longer than the process itself allows.
        await asyncio.wait_for(process.wait(), GRACE_SECONDS + 5)
