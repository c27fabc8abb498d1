"""retoma serve: the API over HTTP."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import click

from retoma.cli import door, show

if TYPE_CHECKING:
    from types import ModuleType

    from retoma.app import Retoma

USUAL_PORT = 8000

port_option = click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="N", help="Where the API listens (8000); 0 is any free port."
)


@click.command()
@door.app_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@port_option
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name under which it may be called.")
def serve(reference: str | None, host: str, port: int | None, hosts: tuple[str, ...]) -> None:
    """Serve the API over HTTP until told to stop.

    Only this machine can reach it, unless --host says otherwise; then callers must hold a key (retoma key create, or
    RETOMA_API_KEY).
    """
    from retoma.find import find_app

    app = find_app(door.reference_of(reference))
    asyncio.run(_serve(app, host, USUAL_PORT if port is None else port, hosts))


async def _serve(app: Retoma, host: str, port: int, hosts: tuple[str, ...]) -> None:
    from retoma.telemetry.logs import log_to_stderr

    web = server()
    log_to_stderr(level=app.settings.log_level, format=app.settings.log_format)
    with web.listen(host, port) as listening:
        async with app:
            who = await web.guard(app, listening)
            show.talk(f"The API is at {web.url_of(listening)}/api/v1. {who} Ctrl-C ends.")
            async with web.served(app, listening, allow_hosts=hosts):
                await _told_to_stop()


def server() -> ModuleType:
    """The room of the web server, if its parts are installed."""
    from retoma.errors import ConfigurationError

    try:
        from retoma.web import serving
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The API needs {error.name}, which is not installed.", next="pip install 'retoma[web]'"
        ) from None
    return serving


async def _told_to_stop() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, told.set)
    try:
        await told.wait()
    finally:
        # Whoever tells us a second time does not want to wait.
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
