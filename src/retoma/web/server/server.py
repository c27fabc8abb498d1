"""The server: where it listens, who is kept out, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from retoma.app.access import local_token
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError
from retoma.system.concurrency import cancel_and_wait
from retoma.telemetry.sheet import Sheet
from retoma.web import packages, site
from retoma.web.http.auth import is_loopback
from retoma.web.http.stream import EventHub
from retoma.web.server.connection import Wire
from retoma.web.server.connections import Connections
from retoma.web.words import phrase

_PREFIX = re.compile(rb"(/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+")

GRACE_SECONDS = 10
"""How long requests may still take once the server is told to stop."""
GOODBYE_SECONDS = 1.0
"""How long a stream may take to say goodbye."""
_THREADS = 8
_PATIENCE_SECONDS = 0.1  # what callers may wait for the process that was to take them


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they belong to whoever runs us: a worker may have to hear them too

    async def relieve(self, others: Sequence[socket.socket]) -> None:
        """Take callers whom another process did not: it is busy, asleep or dead."""
        loop = asyncio.get_running_loop()
        for each in others:
            each.setblocking(False)
        while True:
            await asyncio.sleep(_PATIENCE_SECONDS)
            for each in others if self.started else ():
                with suppress(OSError):  # nobody waits there, or did not wait for us
                    while True:
                        caller, _ = each.accept()
                        caller.setblocking(False)
                        await loop.connect_accepted_socket(self._protocol, caller)

    def end_streams(self) -> None:
        """Every stream says goodbye now; uvicorn would wait for them until the grace is over, and then cancel them."""
        newsroom: EventHub | None = self.lifespan.state.get("newsroom")
        if newsroom is not None:
            newsroom.stop()

    async def hang_up(self) -> None:
        """Drop the streams of clients who do not read: their goodbye would not be sent before they do."""
        await asyncio.sleep(GOODBYE_SECONDS)
        for each in list(self.server_state.connections):
            cycle, transport = getattr(each, "cycle", None), getattr(each, "transport", None)
            if cycle is not None and transport is not None and cycle.scope.get("state", {}).get("streams"):
                transport.abort()

    def _protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        made: asyncio.Protocol = kind(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        return made


class _Forwarded(ProxyHeadersMiddleware):
    """What proxies say, believed of those that uvicorn believes (FORWARDED_ALLOW_IPS), and one thing more:
    X-Forwarded-Prefix, which the proxy took off the path, stands before it again, as with uvicorn's root_path.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope.get("client") and scope["client"][0] in self.trusted_hosts:
            given = [value.strip().rstrip(b"/") for name, value in scope["headers"] if name == b"x-forwarded-prefix"]
            if len(given) == 1 and _PREFIX.fullmatch(given[0]):
                prefix = given[0].decode()
                scope = {**scope, "root_path": prefix, "path": prefix + scope["path"]}
                scope["raw_path"] = given[0] + scope["raw_path"]
        await super().__call__(scope, receive, send)


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address; 0 is any port that is free."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "another program listens there" if taken else (error.strerror or type(error).__name__).lower()
        raise ConfigurationError(
            f"Cannot listen on {host}, port {port}: {why}.",
            next="--port with another number." if taken else "--host 127.0.0.1 and a port from 1024 on.",
        ) from None


def url_of(listening: socket.socket) -> str:
    """Where the server can be found."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def pages_of(app: Retoma, listening: socket.socket, language: str = "en") -> list[str]:
    """A line for each page that *app* has: what it is called there, and where it is."""
    packages.serve(app.extensions)
    shown = [link for each in app.extensions for link in each.links]
    return [f"{phrase(language, each.word)}: {url_of(listening)}{each.path}" for each in shown]


async def guard(app: Retoma, listening: socket.socket) -> str:
    """Who may come in, to be said at the start in lines of its own. Where others can reach us, somebody must hold a
    key first.
    """
    host = listening.getsockname()[0]
    keys = await app.access.tally()
    if not is_loopback(host) and not keys.usable and app.settings.api_key is None:
        raise ConfigurationError(
            f"Refusing to listen on {host} without authentication.",
            next="set RETOMA_API_KEY or make a key with 'retoma key create', or use --host 127.0.0.1.",
        )
    if keys.existing or app.settings.api_key is not None:
        return "Callers need an API key." if not keys.people else "Callers need an API key or an account."
    if app.settings.token == "off":  # noqa: S105 - not a secret
        return (
            "WARNING: there is no API key and RETOMA_TOKEN is off: whoever is on this machine may do everything, and "
            "so may everybody behind a proxy that does not say for whom it speaks."
        )
    link = local_token.link_of(local_token.token_of(app.settings.home))
    return (
        "There is no API key: callers need the token of this machine, which 'retoma token' prints.\n"
        f"To sign in with a browser, once: {url_of(listening)}/login?token={link}"
    )


@asynccontextmanager
async def served(
    app: Retoma,
    listening: socket.socket,
    *,
    others: Sequence[socket.socket] = (),
    allow_hosts: Iterable[str] = (),
    rounds: bool = True,
    sheets: Sequence[Sheet] = (),
) -> AsyncIterator[None]:
    """Serve an open *app* meanwhile; afterwards, what is under way may end. *others* are where other processes listen:
    whom they let wait, we take. Without *rounds* somebody else in this process makes those of the watchdog.
    *sheets* are where this process and the others count.
    """
    host = listening.getsockname()[0]
    trusted = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")  # as uvicorn has it
    inner = site(app, allow_hosts=(*allow_hosts, host), rounds=rounds, sheets=sheets)
    forwarded = _Forwarded(cast(Any, inner), trusted_hosts=trusted)
    connections = Connections(app.settings, forwarded.trusted_hosts)
    config = uvicorn.Config(
        forwarded,
        http=cast(Any, partial(Wire, connections)),
        timeout_keep_alive=cast(int, app.settings.web_keep_alive_seconds),  # seconds for call_later, whole or not
        proxy_headers=False,
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Server(config)
    # Threads of a server wait for the disk, not for a processor: asyncio's own number would let uploads queue.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="retoma-web"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    looking = asyncio.create_task(connections.keep_looking())
    relieving = asyncio.create_task(server.relieve(others)) if others else None
    try:
        yield
    finally:
        if relieving is not None:
            await cancel_and_wait(relieving)
        for each in others:
            each.close()  # while one of us has it open, callers are let in there
        server.end_streams()
        server.should_exit = True
        hanging_up = asyncio.create_task(server.hang_up())
        try:
            await serving
        finally:
            await cancel_and_wait(hanging_up)
            await cancel_and_wait(looking)
