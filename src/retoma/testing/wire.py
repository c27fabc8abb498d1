"""The least of an HTTP server, in a process of its own on this machine, that misbehaves when it is told to.

Fake providers are built on it: they define the good answer, and the test defines what goes wrong with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from http.client import HTTPConnection
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

LOOPBACK = "127.0.0.1"
_HEARD = 1000  # requests that are remembered
_FOR_EVER = 3600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; the names of *headers* are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Given:
    """One answer."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Given:
        return cls(json.dumps(value).encode(), status, {"content-type": "application/json", **(headers or {})})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with the next *times* requests (None: all) whose path contains *path*.

    ``answer``      *status*, *headers* and *body* instead of the true ones (what is empty stays true, if *late*)
    ``wait``        the true answer, *seconds* later
    ``hang``        nothing, for ever
    ``slow``        the true answer, byte by byte with *seconds* in between
    ``cut``         half of the true answer, then the connection is closed
    ``vanish``      the connection is closed without a word
    ``truncated``   half of the true body, as if it were the whole
    ``garbage``     bytes that mean nothing

    With *late* the request is served first (and billed, where there is a bill): then only its answer is lost.
    """

    kind: Literal["answer", "wait", "hang", "slow", "cut", "vanish", "truncated", "garbage"]
    times: int | None = 1
    rate: float = 1.0
    path: str = ""
    seconds: float = 0.0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    late: bool = False


Handler = Callable[[Asked], Awaitable[Given]]


class Wire:
    """Serves *handle*; ``POST /_faults`` says what goes wrong next, ``GET /_heard`` what was asked since.

    ``GET /_told`` shows *told*, whatever the handler wants to be known.
    """

    def __init__(self, handle: Handler, *, told: object = None) -> None:
        self._handle = handle
        self._told = told
        self._faults: list[Fault] = []
        self._left: dict[int, int] = {}
        self._heard: deque[dict[str, Any]] = deque(maxlen=_HEARD)
        self._chance = random.Random(0)  # noqa: S311 - the same faults in every run

    async def serve(self, *, port: int = 0) -> None:
        """Serve until the process that started this one ends; the port is printed first, as JSON."""
        parent = os.getppid()
        server = await asyncio.start_server(self._connection, LOOPBACK, port)
        print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)  # noqa: T201
        async with server:
            while os.getppid() == parent:  # a killed test leaves no server behind
                await asyncio.sleep(1)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while asked := await _read(reader):
                if asked.path.startswith("/_"):
                    await _write(writer, self._control(asked), asked.method)
                else:
                    self._heard.append({**asdict(asked), "body": asked.body.decode("latin-1")})
                    await self._answer(asked, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _control(self, asked: Asked) -> Given:
        if asked.method == "GET":
            return Given.json(self._told if asked.path == "/_told" else list(self._heard))
        self._faults = [Fault(**each) for each in asked.json()]
        self._left = {index: fault.times for index, fault in enumerate(self._faults) if fault.times is not None}
        self._heard.clear()
        return Given.json({})

    def _fault(self, asked: Asked) -> Fault | None:
        for index, fault in enumerate(self._faults):
            if fault.path in asked.path and self._left.get(index, 1) > 0 and self._chance.random() < fault.rate:
                if index in self._left:
                    self._left[index] -= 1
                return fault
        return None

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        fault = self._fault(asked)
        needed = fault is None or fault.late or fault.kind in ("wait", "slow", "cut", "truncated")
        given = await self._handle(asked) if needed else Given()
        match fault:
            case Fault(kind="answer"):
                headers = {"content-type": "application/json", **given.headers, **fault.headers}
                given = Given(fault.body.encode() or given.body, fault.status, headers)
            case Fault(kind="wait"):
                await asyncio.sleep(fault.seconds)
            case Fault(kind="hang"):
                await asyncio.sleep(_FOR_EVER)
            case Fault(kind="slow"):
                await _write(writer, given, asked.method, pause=fault.seconds)
                return
            case Fault(kind="cut"):
                await _write(writer, given, asked.method, most=len(given.body) // 2)
                raise ConnectionAbortedError
            case Fault(kind="vanish"):
                raise ConnectionAbortedError
            case Fault(kind="truncated"):
                given = Given(given.body[: len(given.body) // 2], given.status, given.headers)
            case Fault(kind="garbage"):
                given = Given(b"\x00\xff<garbage>{]" * 20, 200, {"content-type": "application/json"})
        await _write(writer, given, asked.method)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ", 2)
    parts = urlsplit(target)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)


async def _write(
    writer: asyncio.StreamWriter, given: Given, method: str, *, most: int | None = None, pause: float = 0.0
) -> None:
    words = {status.value: status.phrase for status in HTTPStatus}
    headers = {"date": formatdate(usegmt=True), **given.headers, "content-length": str(len(given.body))}
    lines = [f"HTTP/1.1 {given.status} {words.get(given.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    body = b"" if method == "HEAD" else given.body[:most]
    if pause:
        for byte in body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(pause)
    else:
        writer.write(body)
    await writer.drain()


class Served:
    """A server that *command* starts, for the duration of the ``with``."""

    def __init__(self, *command: str) -> None:
        self._command = command

    def __enter__(self) -> Self:
        self.process = subprocess.Popen([sys.executable, *self._command], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port: int = json.loads(self.process.stdout.readline())["port"]
        self.url = f"http://{LOOPBACK}:{self.port}"
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def tell(self, *faults: Fault) -> None:
        """Set the faults from now on, and forget earlier requests; without *faults* nothing goes wrong."""
        self.control("POST", "/_faults", [asdict(fault) for fault in faults])

    def heard(self) -> Sequence[dict[str, Any]]:
        """The requests since *tell*, in order."""
        heard: list[dict[str, Any]] = self.control("GET", "/_heard")
        return heard

    def control(self, method: str, path: str, value: Any = None) -> Any:
        """Query the server about itself."""
        connection = HTTPConnection(LOOPBACK, self.port, timeout=10)
        try:
            connection.request(method, path, json.dumps(value))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()
