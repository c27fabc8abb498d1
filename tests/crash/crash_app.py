"""Handlers that block, burn, crash and hang; every effect they have is written down where nothing can erase it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from retoma import Reject, Retoma, Retry, Run, SyncRun, isolated, pipeline

Connection = psycopg.AsyncConnection[Any]

FILE = os.environ.get("CRASH_FILE", "/dev/null")
GO = Path(FILE).with_name("go")
SOON = Retry(attempts=3, wait=0.2, factor=1, jitter=0)
PATIENT = Retry(attempts=1000, wait=0.05, factor=1, jitter=0)

_file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def mark(run: Run | SyncRun, step: str, what: str = "began") -> None:
    """Append one line: a single write, so that lines of several processes never mix."""
    os.write(_file, f"{run.token.replace(':', ' ')} {run.attempt} {os.getpid()} {what} {step}\n".encode())


async def record(connection: Connection, run: Run, step: str) -> int:
    """The effect itself, in the table; it commits with its checkpoint or not at all."""
    mark(run, step)
    job, fence = (int(part) for part in run.token.split(":"))
    sql = "insert into effects (job, step, fence, pid) values (%s, %s, %s, %s)"
    await connection.execute(sql, (job, step, fence, os.getpid()))
    return fence


async def pause(run: Run, step: str, seconds: float) -> int:
    mark(run, step)
    await asyncio.sleep(seconds)
    return os.getpid()


# — honest work —


@pipeline("tally", queue="work")
async def tally(number: int, run: Run) -> int:
    mark(run, "tally")
    return number


@pipeline("effect", queue="work", retry=PATIENT)
async def effect(number: int, run: Run) -> int:
    await run.transact("record", record, run, "record")
    return number


@pipeline("elsewhere", queue="elsewhere")
async def elsewhere(number: int, run: Run) -> int:
    mark(run, "elsewhere")
    return number


@pipeline("five", queue="work", retry=PATIENT)
async def five(seconds: float, run: Run) -> int:
    """Five steps; the second and the fourth have rows of their own."""
    for number in range(1, 6):
        name = f"step/{number}"
        if number in (2, 4):
            await run.transact(name, record, run, name)
        else:
            await run.step(name, pause, run, name, seconds)
        mark(run, name, "done")
    return 5


@pipeline("nap", queue="work", retry=SOON)
async def nap(seconds: float, run: Run) -> str:
    """A quick step, a slow one, and a row at the end."""
    await run.step("quick", pause, run, "quick", 0.0)
    mark(run, "quick", "done")
    await run.step("slow", pause, run, "slow", seconds)
    mark(run, "slow", "done")
    await run.transact("record", record, run, "record")
    return "rested"


@pipeline("plain", queue="work", retry=SOON)
async def plain(seconds: float, run: Run) -> str:
    """No steps: only its ending is written down."""
    mark(run, "plain")
    await asyncio.sleep(seconds)
    return run.token


@pipeline("flaky", queue="work", retry=SOON)
async def flaky(number: int, run: Run) -> int:
    mark(run, "flaky")
    if run.attempt == 1:
        raise ConnectionError("the first time always fails")
    return number


@pipeline("hopeless", queue="work", retry=SOON)
async def hopeless(_number: int, run: Run) -> int:
    mark(run, "hopeless")
    raise Reject("there is nothing to be done with it")


# — rude work —


async def block(run: Run, seconds: float) -> int:
    mark(run, "hold")
    time.sleep(seconds)  # the loop stands still, and that is the point
    return os.getpid()


async def burn(run: Run, seconds: float) -> int:
    mark(run, "hold")
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        number += 1
    return os.getpid()


async def hold_the_interpreter(run: Run, seconds: float) -> int:
    """A native call that keeps the interpreter's lock: no other thread of this process can move."""
    mark(run, "hold")
    native = ctypes.PyDLL(None)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        native.usleep(min(int(left * 1e6) + 1, 900_000))
    return os.getpid()


@pipeline("blocking", queue="work", retry=SOON)
async def blocking(seconds: float, run: Run) -> int:
    await run.step("hold", block, run, seconds)
    return await run.transact("record", record, run, "record")


@pipeline("burning", queue="work", retry=SOON)
async def burning(seconds: float, run: Run) -> int:
    await run.step("hold", burn, run, seconds)
    return await run.transact("record", record, run, "record")


@pipeline("holding", queue="work", retry=SOON)
async def holding(seconds: float, run: Run) -> int:
    await run.step("hold", hold_the_interpreter, run, seconds)
    return await run.transact("record", record, run, "record")


@pipeline("hanging", queue="work", retry=SOON)
def hanging(seconds: float, run: SyncRun) -> int:
    """A thread cannot be stopped from outside."""
    return run.step("hang", _hang, run, seconds)


def _hang(run: SyncRun, seconds: float) -> int:
    mark(run, "hang")
    time.sleep(seconds)
    return os.getpid()


@pipeline("hanging-once", queue="work", timeout=1, retry=Retry(attempts=3, wait=0.2, never=(TimeoutError,)))
def hanging_once(seconds: float, run: SyncRun) -> int:
    return run.step("hang", _hang, run, seconds)


@pipeline("siblings", queue="work", step_timeout=1, retry=SOON)
async def siblings(seconds: list[float], run: Run) -> int:
    """Plain functions, side by side in threads."""
    return len(await run.map("rest", _rest, seconds, at_once=2))


def _rest(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pipeline("stubborn", queue="work", retry=SOON)
async def stubborn(seconds: float, run: Run) -> str:
    await run.step("ignore", _ignore, run, seconds)
    return "never cancelled"


async def _ignore(run: Run, seconds: float) -> int:
    mark(run, "ignore")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)
    return os.getpid()


@pipeline("polite", queue="work", retry=SOON)
async def polite(seconds: float, run: Run) -> str:
    try:
        await run.step("wait", pause, run, "wait", seconds)
    except asyncio.CancelledError:
        mark(run, "wait", "cancelled")
        raise
    return "done"


@pipeline("cancels-itself", queue="work", retry=SOON)
async def cancels_itself(_number: int, run: Run) -> int:
    mark(run, "cancel")
    raise asyncio.CancelledError


@pipeline("poison", queue="work", retry=PATIENT)
async def poison(how: str, run: Run) -> int:
    await run.step("look", pause, run, "look", 0.0)
    return await run.step("bite", _bite, run, how)


async def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pipeline("sync-poison", queue="work", retry=PATIENT)
def sync_poison(_number: int, run: SyncRun) -> int:
    mark(run, "bite")
    time.sleep(0.2)
    os._exit(7)


@pipeline("until-told", queue="work", timeout=600, retry=Retry(attempts=1))
async def until_told(number: int, run: Run) -> int:
    """Wait beside others until the test says that they may go; one attempt is all that it has."""
    mark(run, "wait")
    while not GO.exists():
        await asyncio.sleep(0.1)
    return number


async def _bite(run: Run, how: str) -> int:
    mark(run, "bite")
    await asyncio.sleep(0.2)  # so that its neighbours have begun
    match how:
        case "segfault":
            return len(ctypes.string_at(0))
        case "exit":
            os._exit(7)
        case "abort":
            os.abort()
        case "task":
            await asyncio.gather(asyncio.sleep(60), _die())
        case "thread":
            await asyncio.to_thread(os._exit, 7)
        case "stray":  # nothing follows a thread of its own
            threading.Timer(0.1, os._exit, (7,)).start()
            await asyncio.sleep(60)
        case _:
            os.kill(os.getpid(), signal.SIGKILL)
    return 0


# — dangerous work, in a child of its own —


@isolated(seconds=20, megabytes=256)
def parse(how: str) -> int:
    match how:
        case "segfault":
            return len(ctypes.string_at(0))
        case "memory":
            return len([bytearray(16_000_000) for _ in range(1000)])
        case _:
            return os.getpid()


@isolated(seconds=1, megabytes=256)
def parse_for_ever(_how: str) -> int:
    while True:
        time.sleep(1)


@pipeline("parsing", queue="work", retry=Retry(attempts=1))
async def parsing(how: str, run: Run) -> int:
    mark(run, "parse")
    return await run.step("parse", parse_for_ever if how == "hang" else parse, how)


PIPELINES = [
    tally, plain, effect, elsewhere, five, nap, flaky, hopeless, blocking, burning, holding, hanging, hanging_once,
    siblings, stubborn, polite, cancels_itself, poison, sync_poison, until_told, parsing,
]  # fmt: skip

app = Retoma(pipelines=PIPELINES)
