"""The executor process that a supervisor starts."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

import orjson

from retoma.errors import ConfigurationError, RetomaError
from retoma.isolate import adopt, kernel
from retoma.isolate import shutdown as end_isolated_children
from retoma.model.job import AttemptEnding
from retoma.postgres.database import Database
from retoma.postgres.faults import retrying
from retoma.providers.factory import close, make_ready
from retoma.system import marks
from retoma.system.garbage import settle_down
from retoma.system.settings import Settings
from retoma.system.signals import ignore_ctrl_c
from retoma.telemetry.logs import log_to_stderr
from retoma.telemetry.metrics import measure
from retoma.telemetry.sheet import Sheet
from retoma.telemetry.spans import begin_unsampled, follow
from retoma.telemetry.tracing import configure, home_of
from retoma.worker.executor import Executor
from retoma.worker.loader import Program, find_program
from retoma.worker.status_board import StatusBoard

CANNOT_START = 78  # EX_CONFIG of sysexits: a configuration error
_IDLE = 15.0  # seconds after which an unused connection is closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a supervisor tells a new executor. The orders go through the control pipe and not through the command line,
    because other users can read a command line and the database URL contains a password.
    """

    reference: str
    database_url: str
    settings: dict[str, Any]
    worker_id: int
    queues: list[str]
    at_once: int
    apart: bool
    hint: int | None
    board: int
    supervisor: int
    sheet: int | None = None

    def line(self) -> bytes:
        return orjson.dumps(asdict(self), default=str) + b"\n"


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, for whatever reason."""
    if kernel.LINUX:
        kernel.signal_at_parents_death(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(CANNOT_START)


async def _obey(executor: Executor, control: asyncio.StreamReader) -> None:
    try:
        while line := await control.readline():
            match orjson.loads(line):
                case {"call_off": [int(id), int(fence), str(why)]}:
                    executor.call_off(id, fence, AttemptEnding(why))
                case {"stop": bool(now)}:
                    executor.stop(now=now)
                case {"settle": True}:
                    executor.settle()
    except Exception as error:  # noqa: BLE001 - an executor that cannot read orders must not continue
        _end_at_once(error)
    # The pipe is closed: the supervisor has ended, and nothing sends heartbeats for these jobs any more.
    os._exit(1)


def _end_at_once(error: BaseException) -> NoReturn:
    """Exit at once after the executor's loop has failed; the supervisor then releases its jobs immediately. A
    process that lived on would hold jobs and do nothing, and an orderly shutdown would close connections under
    handlers that still run.
    """
    with contextlib.suppress(Exception):
        told = "".join(traceback.format_exception(error))
        sys.stderr.write(f"The executor failed, and ends so that its jobs can go on elsewhere:\n{told}")
        sys.stderr.flush()
    os._exit(1)


async def _count_connections(sheet: Sheet | None, *databases: Database) -> None:
    """Say now and then how many connections this executor has, and count what began."""
    while sheet is not None:
        pools = [each.use() for each in databases]
        sheet.set(("retoma_db_pool_connections", "busy"), sum(each.busy for each in pools))
        sheet.set(("retoma_db_pool_connections", "free"), sum(each.idle for each in pools))
        sheet.settle()
        await asyncio.sleep(1.0)


async def _open(database: Database) -> None:
    """Open the app, with retries: the supervisor has connected before, so an unreachable database
    is a temporary outage.
    """
    await retrying(database.open, doing="starting", outages=database.outages)


async def work(app: Program, orders: Orders, control: Any) -> None:
    """Run an executor of *app* until it is told to stop."""
    settings = Settings.load(**orders.settings)
    adopt(settings)
    log_to_stderr(level=settings.log_level, format=settings.log_format, label=settings.worker_label)
    send_spans = configure(label=settings.worker_label)
    follow(home_of(orders.database_url))
    begin_unsampled()
    sheet = None if orders.sheet is None else Sheet(orders.sheet)
    if sheet is not None:
        sheet.clear_gauges()
        measure(sheet)
    database = Database(orders.database_url, settings, hot=True, most=6, least=0, idle=_IDLE)
    transactions = Database(orders.database_url, settings, most=max(2, min(orders.at_once, 20)), least=0, idle=_IDLE)
    await _open(database)
    await transactions.open(known=True)
    board = StatusBoard(orders.board, orders.at_once)
    executor = Executor(
        database=database,
        transactions=transactions,
        settings=settings,
        pipelines=app.registry.pipelines,
        providers=app.registry.provided,
        queues=orders.queues,
        worker_id=orders.worker_id,
        board=board,
        apart=orders.apart,
        hint=orders.hint,
    )
    loop = asyncio.get_running_loop()
    loop.set_task_factory(marks.use(board.marks).task)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), control)
    obeying = loop.create_task(_obey(executor, reader))
    counting = loop.create_task(_count_connections(sheet, database, transactions))
    try:
        await make_ready(app.registry.providers)
        settle_down()
        try:
            await executor.run()
        except BaseException as error:  # noqa: BLE001 - whatever it was
            _end_at_once(error)
    finally:
        obeying.cancel()
        counting.cancel()
        await close(app.registry.providers)
        await transactions.close()
        await database.close()
        end_isolated_children()
        await asyncio.to_thread(send_spans)


def main() -> None:
    """Be an executor from the first line on. It is started with the garbage collector off, and turns it on when the
    program is loaded.
    """
    faulthandler.enable()
    ignore_ctrl_c()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    execute(find_program, {})


def execute(load: Callable[[str], Program], files: Mapping[int, int]) -> NoReturn:
    """Read the orders from standard input, then work. Ctrl-C and SIGTERM are ignored: the supervisor handles them.
    *files* are those of the orders that have another number here.
    """
    control = os.fdopen(0, "rb", buffering=0)  # unbuffered, because the loop reads the rest of the pipe
    line = b""
    while not line.endswith(b"\n"):
        piece = control.read(1)
        if not piece:
            os._exit(CANNOT_START)
        line += piece
    orders = Orders(**orjson.loads(line))
    sheet = None if orders.sheet is None else files.get(orders.sheet, orders.sheet)
    orders = replace(orders, board=files.get(orders.board, orders.board), sheet=sheet)
    die_with(orders.supervisor)
    try:
        import uvloop  # noqa: PLC0415 - a few hundredths of a second that only executors need

        app = load(orders.reference)
        gc.enable()
        uvloop.run(work(app, orders, control))
    except RetomaError as error:
        sys.stderr.write(f"{error.message}\n{error.next}\n")
        # A configuration error is permanent, so the supervisor must not restart; an unreachable database is temporary.
        sys.exit(CANNOT_START if isinstance(error, ConfigurationError) else 1)
    # Threads of stopped handlers may still run; their results are dropped.
    sys.stderr.flush()
    os._exit(0)
