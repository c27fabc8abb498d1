"""retoma serve: the API over HTTP."""

from __future__ import annotations

import asyncio
import atexit
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import click

from retoma.cli import context, output
from retoma.cli.language import language
from retoma.system.garbage import loading, settle_down

if TYPE_CHECKING:
    from types import ModuleType

    from retoma.app.retoma import Retoma

USUAL_PORT = 8000

port_option = click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="N", help="Where the API listens (8000); 0 is any free port."
)


@click.command()
@context.app_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@port_option
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name under which it may be called.")
@click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True, help="Server processes.")
@click.option("--read-only", is_flag=True, help="Refuse every change: the pages and the API only show.")
@click.option("--socket", "sockets", type=int, multiple=True, hidden=True)  # one of several is given where they listen
@click.option("--sheet", "sheets", type=int, multiple=True, hidden=True)  # and where they count
def serve(
    reference: str | None,
    host: str,
    port: int | None,
    hosts: tuple[str, ...],
    processes: int,
    read_only: bool,
    sockets: tuple[int, ...],
    sheets: tuple[int, ...],
) -> None:
    """Serve the API over HTTP until told to stop.

    Only this machine can reach it, unless --host says otherwise; then callers must hold a key (retoma key create, or
    RETOMA_API_KEY). While there is no key, callers on this machine send what 'retoma token' prints.
    """
    import uvloop

    from retoma.app.loader import find_app
    from retoma.isolate import adopt
    from retoma.telemetry.logs import log_to_stderr
    from retoma.telemetry.tracing import configure

    where = context.reference_of(reference)
    app = find_app(where)
    if read_only:
        app.registry.settings = app.settings.model_copy(update={"web_read_only": "on"})
    adopt(app.settings)
    log_to_stderr(level=app.settings.log_level, format=app.settings.log_format)
    send_spans = configure(label="serve")
    atexit.register(send_spans)
    if sockets:
        uvloop.run(_one_of_several(app, sockets, hosts, sheets))
        return
    with server().listen(host, USUAL_PORT if port is None else port) as listening:
        arguments = ["--app", where, *(f"--allow-host={name}" for name in hosts)]
        arguments += ["--read-only"] if read_only else []
        uvloop.run(_serve(app, listening, hosts, processes, arguments))


async def _serve(
    app: Retoma, listening: socket.socket, hosts: tuple[str, ...], processes: int, arguments: list[str]
) -> None:
    from retoma.isolate.probe import watch_over

    web, stop = server(), asyncio.Event()
    if app.settings.sandbox == "require":  # what is sent here is opened by children, too
        await watch_over("require")
    async with app:
        who = await web.guard(app, listening)
        output.talk("The API is at {url}/api/v1. Ctrl-C ends.", url=web.url_of(listening))
        output.relay(who)
        for line in web.pages_of(app, listening, language()):
            output.say(line, err=True)
        with _told_to_stop(stop):
            if processes == 1:
                async with web.served(app, listening, allow_hosts=hosts):
                    settle_down()
                    await stop.wait()
            else:
                from retoma.web.server.multi_process import serve_together

                await serve_together(processes, listening, arguments, stop=stop, tell=output.relay)


async def _one_of_several(
    app: Retoma, sockets: tuple[int, ...], hosts: tuple[str, ...], sheets: tuple[int, ...]
) -> None:
    """Serve until standard input ends: then whoever started us says so, or is gone. Ctrl-C is for them."""
    import os
    import sys

    from retoma.telemetry.sheet import Sheet

    web, stop = server(), asyncio.Event()
    with ExitStack() as stack, _told_to_stop(asyncio.Event()):
        ours, *others = [stack.enter_context(socket.socket(fileno=each)) for each in sockets]
        counted = [stack.enter_context(closing(Sheet(each))) for each in sheets]
        async with app, web.served(app, ours, others=others, allow_hosts=hosts, sheets=counted):
            settle_down()
            reading = sys.stdin.fileno()
            os.set_blocking(reading, False)
            asyncio.get_running_loop().add_reader(reading, stop.set)
            await stop.wait()


def server() -> ModuleType:
    """The room of the web server, if its parts are installed."""
    from retoma.errors import ConfigurationError

    try:
        with loading():
            from retoma.web.server import server as serving
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The API needs {error.name}, which is not installed.", next="pip install 'retoma[web]'"
        ) from None
    return serving


@contextmanager
def _told_to_stop(stop: asyncio.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set *stop* inside the block. Whoever tells us again does not want to wait."""
    loop, signals = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)

    def told() -> None:
        stop.set()
        for each in signals:
            loop.remove_signal_handler(each)

    for each in signals:
        loop.add_signal_handler(each, told)
    try:
        yield
    finally:
        for each in signals:
            loop.remove_signal_handler(each)
