"""The figures of uploads: many callers at once, each with a connection of its own, against a server of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from retoma.bench.evaluation import labelled
from retoma.bench.pipelines import PROGRAM, House, house
from retoma.demo.samples import invent

Figures = dict[str, Any]

CALLERS = 200
_BUSY = 40  # documents that wait for the worker before the first upload, beside those that come in
_SMALLEST, _LARGEST = 2_000, 100_000
_STRIDE = 61_803  # spreads the sizes
_BOUNDARY = "a-file-of-the-bench"
_ACCEPTED = 202


class Server:
    """A ``retoma serve`` of *program*, and what it used."""

    def __init__(self, url: str, environment: dict[str, str], processes: int, *, program: str = PROGRAM) -> None:
        told = {**os.environ, **environment, "DATABASE_URL": url, "RETOMA_LOG_LEVEL": "error"}
        told.pop("RETOMA_API_KEY", None)
        told["RETOMA_TOKEN"] = "off"  # noqa: S105 - what is measured is the server, not who may come in
        command = [sys.executable, "-m", "retoma", "serve", "--app", program, "--port", "0"]
        command += ["--processes", str(processes)]
        self.cpu_seconds = 0.0
        # Into a file: a pipe that nobody reads would stop the server once it is full.
        log = Path(environment["RETOMA_HOME"], "server.log")
        with log.open("w") as said:
            self._popen = subprocess.Popen(command, env=told, stdin=subprocess.DEVNULL, stderr=said)
        while (found := re.search(r"http://([\d.]+):(\d+)/", log.read_text())) is None:
            if self._popen.poll() is not None:
                raise RuntimeError(f"The server did not start: {log.read_text()[-500:]}")
            time.sleep(0.05)
        self.host, self.port = found[1], int(found[2])

    def stop(self) -> None:
        """End it; its processor time is known afterwards."""
        self._popen.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(self._popen.pid, 0)
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = usage.ru_utime + usage.ru_stime


@contextmanager
def served(here: House, processes: int = 1) -> Iterator[Server]:
    """A server of so many processes, for as long as the block lasts."""
    server = Server(here.app.database.url, here.environment, processes)
    try:
        yield server
    finally:
        server.stop()


async def _occupy(here: House, stack: ExitStack) -> None:
    """An executor that has begun to process, and has enough to do."""
    since = await here.now()
    stack.enter_context(here.worker())
    for which in range(_BUSY):
        await here.receive(which)
    await here.ended(1, since)


async def uploads(number: int, *, busy: bool, pace: float | None = None, processes: int = 1) -> Figures:
    """Small files, each another, by *CALLERS* at once: each sends the next as soon as the last is answered, or all of
    them together *pace* in a second. When *busy*, an executor processes meanwhile what came in.
    """
    async with house() as here:
        with ExitStack() as stack:
            if busy:
                await _occupy(here, stack)
            with served(here, processes) as warming:  # what a server costs before its first upload
                await _sent(warming, first=0, number=processes)
            server = stack.enter_context(served(here, processes))
            await _sent(server, first=10, number=processes)
            since = await here.now()
            began = time.perf_counter()
            waits = sorted(await _sent(server, first=20, number=number, pace=pace))
            seconds = time.perf_counter() - began
            processed = (await here.ended(0, since)).jobs
    return {
        "uploads": number,
        "server_processes": processes,
        "callers": min(CALLERS, number),
        **({} if pace is None else {"asked_per_second": pace}),
        "per_second": round(number / seconds, 1),
        "p50_ms": round(statistics.median(waits), 1),
        "p95_ms": round(waits[int(number * 0.95)], 1),
        "slowest_ms": round(waits[-1], 1),
        "web_cpu_ms_each": round(1000 * (server.cpu_seconds - warming.cpu_seconds) / number, 2),
        "documents_processed_meanwhile": processed,
    }


async def bursts(number: int, *, busy: bool, processes: int = 1) -> Figures:
    """*CALLERS* files at the same moment, each over a connection that is open, so many times with a rest between: when
    each is answered.
    """
    async with house() as here:
        with ExitStack() as stack:
            if busy:
                await _occupy(here, stack)
            server = stack.enter_context(served(here, processes))
            await _sent(server, first=0, number=CALLERS)
            since = await here.now()
            waits = []
            for which in range(1, number + 1):
                await asyncio.sleep(1.0)
                waits.append(await _burst(server, first=CALLERS * which))
            processed = (await here.ended(0, since)).jobs
    return {
        "bursts": number,
        "uploads_each": CALLERS,
        "server_processes": processes,
        "p50_ms": round(statistics.median(each[CALLERS // 2] for each in waits), 1),
        "p95_ms": round(statistics.median(each[int(CALLERS * 0.95)] for each in waits), 1),
        "p95_of_the_best_and_the_worst_ms": [
            round(found(each[int(CALLERS * 0.95)] for each in waits), 1) for found in (min, max)
        ],
        "documents_processed_meanwhile": processed,
    }


async def _burst(server: Server, *, first: int) -> list[float]:
    requests = [_request(which, server) for which in range(first, first + CALLERS)]
    lines = [await asyncio.open_connection(server.host, server.port) for _ in requests]
    start = time.perf_counter()

    async def call(line: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> float:
        reader, writer = line
        writer.write(request)
        await _accepted(reader)
        waited = 1000 * (time.perf_counter() - start)
        writer.close()
        return waited

    return sorted(await asyncio.gather(*map(call, lines, requests)))


async def _sent(server: Server, *, first: int, number: int, pace: float | None = None) -> list[float]:
    """How many milliseconds each answer took, from the moment it was due: who has to wait for their turn waits."""
    left = iter(range(first, first + number))
    waits: list[float] = []
    start = time.perf_counter()

    async def call() -> None:
        # Spoken by hand: a library for clients would cost as much as the server, on the same cores.
        writer: asyncio.StreamWriter | None = None
        for which in left:
            request = _request(which, server)
            began = time.perf_counter() if pace is None else start + (which - first) / pace
            await asyncio.sleep(max(0.0, began - time.perf_counter()))
            if writer is None:
                reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(request)
            await _accepted(reader)
            waits.append(1000 * (time.perf_counter() - began))
            if pace is not None:  # who comes now and then finds their connection closed
                writer.close()
                writer = None
        if writer is not None:
            writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CALLERS, number)):
            group.create_task(call())
    return waits


def _request(which: int, server: Server) -> bytes:
    end = _SMALLEST + which * _STRIDE % (_LARGEST - _SMALLEST)
    while _text()[end] & 0xC0 == 0x80:  # noqa: PLR2004 - in the middle of a letter
        end -= 1
    text = f"{which}\n".encode() + _text()[:end]
    part = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="{which}.txt"\r\n\r\n'
    body = part.encode() + text + f"\r\n--{_BOUNDARY}--\r\n".encode()
    head = (
        f"POST /documents HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nAccept: application/json\r\n"
        f"Content-Type: multipart/form-data; boundary={_BOUNDARY}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@cache
def _text() -> bytes:
    """As much as the largest file takes, once: making a file must cost the callers next to nothing."""
    paper = invent(Random("uploads"), labelled.kinds()[0], "pt").encode()  # noqa: S311 - no secret
    return paper * (1 + _LARGEST // len(paper))


async def _accepted(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = re.search(r"content-length: (\d+)", head)
    assert length is not None, head
    body = await reader.readexactly(int(length[1]))
    status = int(head.split()[1])
    if status != _ACCEPTED:
        raise RuntimeError(f"An upload was answered {status}: {body.decode(errors='replace')[:500]}")
