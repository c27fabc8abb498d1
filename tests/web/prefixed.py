"""A house under a prefix: mounted in an application, or behind a proxy that takes the prefix off the path."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response

from retoma import Retoma, Settings
from retoma.pipelines import CLASSIFICATION, DOCUMENTS
from retoma.providers import BlobStore, Classifier, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalEmbedder, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.web import site

from .conftest import double, hosting, serving

PREFIX = "/their/x"
KEY = "a-long-key-of-the-environment"
EXTENSIONS = (DOCUMENTS, CLASSIFICATION)
WAYS = ("mounted", "root_path", "forwarded")


def providers(folder: Path) -> dict[type, object]:
    return {
        BlobStore: FolderBlobs(folder),
        Embedder: LocalEmbedder(Lexical()),
        Classifier: LocalClassifier(Lexical()),
        Extractor: LocalExtractor(),
    }


@dataclass
class Prefixed:
    """Where the house is, and who was asked for past it."""

    url: str
    settings: Settings
    given: dict[type, object]
    strays: list[str] = field(default_factory=list)


@contextmanager
def prefixed(
    way: str, settings: Settings, folder: Path, *, prefix: str = PREFIX, pipelines: Sequence[Any] = (double,)
) -> Iterator[Prefixed]:
    """A house of all pages under *prefix*, in one of WAYS; it opens with KEY. Without a prefix it stands alone."""
    changed = Settings.load(**{**settings.model_dump(), "api_key": KEY})
    given = providers(folder)
    app = Retoma(settings=changed, pipelines=pipelines, extensions=EXTENSIONS, providers=given)
    strays: list[str] = []
    if not prefix:
        with serving(app) as url:
            yield Prefixed(url, changed, given, strays)
    elif way == "mounted":
        with hosting(_theirs(app, prefix, strays)) as url:
            yield Prefixed(url + prefix, changed, given, strays)
    elif way == "root_path":
        with hosting(site(app), root_path=prefix) as url, Proxy(url, prefix, strays).opened() as proxy:
            yield Prefixed(proxy + prefix, changed, given, strays)
    else:
        told = f"X-Forwarded-Prefix: {prefix}\r\n"
        with serving(app) as url, Proxy(url, prefix, strays, told).opened() as proxy:
            yield Prefixed(proxy + prefix, changed, given, strays)


def _theirs(app: Retoma, prefix: str, strays: list[str]) -> FastAPI:
    theirs = FastAPI(openapi_url=None)
    theirs.mount(prefix, site(app))

    @theirs.api_route("/{path:path}", methods=["GET", "POST", "PUT", "DELETE"])
    async def elsewhere(request: Request) -> Response:
        strays.append(f"{request.method} {request.url.path}")
        return Response("theirs", 404)

    return theirs


class Proxy:
    """Takes *prefix* off every path and adds *told* to the head; a request that does not have it is a stray."""

    def __init__(self, url: str, prefix: str, strays: list[str], told: str = "") -> None:
        self._prefix = prefix
        self._to = urlsplit(url)
        self._strays = strays
        self._told = told
        self._loop = asyncio.new_event_loop()
        self._tasks: set[Any] = set()

    @contextmanager
    def opened(self) -> Iterator[str]:
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        listener = self._do(asyncio.start_server(self._connected, "127.0.0.1", 0))
        try:
            yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        finally:
            self._do(self._ended(listener))
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)
            self._loop.close()

    def _do(self, asked: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(10)

    async def _ended(self, listener: asyncio.Server) -> None:
        listener.close()
        await asyncio.sleep(0)  # who was let in just now has a task as well
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())  # nobody else holds on to it once its caller has gone
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, _, lines = head.partition("\r\n")
            method, target, version = first.split(" ")
            path = target.removeprefix(self._prefix)
            if not target.startswith(f"{self._prefix}/"):
                self._strays.append(f"{method} {target}")
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                # One request for each connection: then whatever follows the head can be passed on unread.
                kept = [each for each in lines.split("\r\n") if each and not each.lower().startswith("connection:")]
                passed = "\r\n".join([f"{method} {path} {version}", *kept, f"{self._told}Connection: close", "", ""])
                await self._passed_on(passed.encode("latin-1"), reader, writer)
            await writer.drain()
        writer.close()

    async def _passed_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(self._to.hostname, self._to.port)
        to_server.write(head)
        sending = asyncio.create_task(_copied(reader, to_server))
        try:
            await _copied(from_server, writer)
        finally:
            sending.cancel()
            to_server.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
