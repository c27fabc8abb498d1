"""A wire between workers and PostgreSQL that can be cut, or can keep what goes over it for itself for a while."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit


class Wire:
    """One connection, with its two ends."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server
        self.kept = b""
        self.swallowing = False
        self.keeping = False

    async def to_server(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                if self.proxy.delayed is not None and re.search(self.proxy.delayed, piece, re.DOTALL):
                    self.keeping, self.proxy.delayed = True, None
                if self.keeping:
                    self.kept += piece
                    continue
                self.server.write(piece)
                await self.server.drain()
        if not self.keeping:
            self.server.close()

    async def to_client(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                if not self.swallowing:
                    self.client.write(piece)
                    await self.client.drain()
        self.proxy.wires.discard(self)
        _reset(self.client)

    def cut(self) -> None:
        """Reset both ends."""
        self.proxy.wires.discard(self)
        _reset(self.client)
        _reset(self.server)


class Proxy:
    """Listens on a port of its own and passes everything on, as long as it is asked nothing else."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self.wires: set[Wire] = set()
        self._kept: list[Wire] = []
        self.down = False
        """Nobody gets through any more; what is connected is not touched by that alone."""
        self.delayed: bytes | None = None
        """The first statement in which this pattern is found waits, with all that follows on its connection."""

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for wire in (*self.wires, *self._kept):
            wire.cut()
        await asyncio.sleep(0.05)

    @property
    def url(self) -> str:
        """The database's address, by way of here."""
        port = self._listener.sockets[0].getsockname()[1]
        place = self._url.netloc.rpartition("@")[0] + f"@127.0.0.1:{port}"
        return self._url._replace(netloc=place).geturl()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            _reset(writer)
            return
        try:
            from_server, to_server = await asyncio.open_connection(self._url.hostname, self._url.port)
        except OSError:
            _reset(writer)
            return
        wire = Wire(self, writer, to_server)
        self.wires.add(wire)
        await asyncio.gather(wire.to_server(reader), wire.to_client(from_server))

    def cut(self) -> int:
        """Reset every connection; how many that were."""
        wires = list(self.wires)
        for wire in wires:
            wire.cut()
        return len(wires)

    async def lose_answers(self, seconds: float) -> int:
        """What the server says from now on does not arrive; then everything is cut. How many were cut."""
        wires = list(self.wires)
        for wire in wires:
            wire.swallowing = True
        await asyncio.sleep(seconds)
        for wire in wires:
            wire.cut()
        return len(wires)

    # — a statement that arrives long after its sender has given it up —

    def give_up(self) -> None:
        """Cut the workers' ends of what waits. The server still waits for it; other connections are free."""
        for wire in list(self.wires):
            if wire.keeping:
                wire.swallowing = True
                self._kept.append(wire)
                self.wires.discard(wire)
                _reset(wire.client)

    async def deliver(self) -> None:
        """Let what was kept arrive."""
        for wire in (*self._kept, *self.wires):
            wire.server.write(wire.kept)
            wire.kept, wire.keeping = b"", False
            with suppress(OSError):
                await wire.server.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close without a goodbye."""
    with suppress(OSError):
        connection = writer.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()
