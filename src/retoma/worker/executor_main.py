"""The executor's own process: what a supervisor starts."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import signal
import sys
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from retoma.board import Board
from retoma.database import Database, jitter
from retoma.errors import ConfigurationError, DatabaseUnreachable, RetomaError
from retoma.executor import Executor
from retoma.find import find_app
from retoma.isolate import shutdown as end_isolated_children
from retoma.providers.choose import close, make_ready
from retoma.settings import Settings
from retoma.telemetry import emit
from retoma.telemetry.events import DatabaseLost
from retoma.telemetry.logs import log_to_stderr

CANNOT_START = 78  # as in sysexits: a configuration error
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a supervisor tells a new executor, on its control pipe: never on the command line, for others can
    read that, and the database's address holds a password.
    """

    reference: str
    database_url: str
    settings: dict[str, Any]
    worker_id: int
    queues: list[str]
    at_once: int
    apart: bool
    board: int
    supervisor: int

    def line(self) -> bytes:
        return orjson.dumps(asdict(self), default=str) + b"\n"


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, however that happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(CANNOT_START)


async def _obey(executor: Executor, control: asyncio.StreamReader) -> None:
    while line := await control.readline():
        match orjson.loads(line):
            case {"call_off": [int(id), int(fence), str(why)]}:
                executor.call_off(id, fence, why)
            case {"stop": bool(now)}:
                executor.stop(now=now)
            case {"settle": True}:
                executor.settle()
    # The pipe is closed: the supervisor is gone, and nobody beats for these jobs any more.
    os._exit(1)


async def _open(database: Database) -> None:
    """Connect; the supervisor has done so before, so a database that does not answer now will answer again."""
    attempt = 0
    while True:
        try:
            return await database.open()
        except DatabaseUnreachable as error:
            attempt += 1
            emit(DatabaseLost(doing="starting", error=type(error).__name__))
            await asyncio.sleep(jitter(attempt))


async def work(app: Any, orders: Orders, control: Any) -> None:
    """Run an executor of *app* until it is told to stop."""
    settings = Settings.load(**orders.settings)
    log_to_stderr(level=settings.log_level, format=settings.log_format, label=settings.worker_label)
    database = Database(orders.database_url, settings, hot=True, most=6)
    transactions = Database(orders.database_url, settings, most=max(2, min(orders.at_once, 20)), least=0)
    await _open(database)
    await _open(transactions)
    board = Board(orders.board, orders.at_once)
    executor = Executor(
        database=database,
        transactions=transactions,
        settings=settings,
        pipelines=app.front.pipelines,
        providers=app.front.providers,
        queues=orders.queues,
        worker_id=orders.worker_id,
        board=board,
        apart=orders.apart,
    )
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), control)
    obeying = loop.create_task(_obey(executor, reader))
    try:
        await make_ready(app.front.known)
        await executor.run()
    finally:
        obeying.cancel()
        await close(app.front.known)
        await transactions.close()
        await database.close()
        end_isolated_children()


def main() -> None:
    """Read the orders from standard input, then work. Ctrl-C in a terminal is the supervisor's business."""
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = os.fdopen(0, "rb", buffering=0)  # unbuffered: the loop reads what follows
    line = b""
    while not line.endswith(b"\n"):
        piece = control.read(1)
        if not piece:
            os._exit(CANNOT_START)
        line += piece
    orders = Orders(**orjson.loads(line))
    die_with(orders.supervisor)
    try:
        import uvloop  # noqa: PLC0415 - a few hundredths of a second that only executors need

        app = find_app(orders.reference)
        uvloop.run(work(app, orders, control))
    except RetomaError as error:
        sys.stderr.write(f"{error.message}\n{error.next}\n")
        # A wrong program stays wrong; a database that does not answer may answer later.
        sys.exit(CANNOT_START if isinstance(error, ConfigurationError) else 1)
    # Threads of handlers that were told to stop may still run; nothing they do counts any more.
    sys.stderr.flush()
    os._exit(0)
