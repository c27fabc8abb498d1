"""How a command comes in: by the front door, with the settings of the environment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from retoma.cli.output import talk

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.system.settings import Settings

T = TypeVar("T")

READY = "retoma.pipelines:app"

app_option = click.option(
    "--app",
    "reference",
    metavar="MODULE:ATTRIBUTE",
    help="Your program, such as myapp:app or path/to/myapp.py:app (RETOMA_APP); else the ready pipelines.",
)


def settings() -> Settings:
    """The settings as they are now."""
    from retoma.system.settings import Settings

    found = Settings.load()
    announce(found)
    return found


def announce(settings: Settings) -> None:
    """Say that a database will be made, when one will: it takes seconds, and somebody may have meant another."""
    if not settings.database_url and not (settings.home / "secret.json").exists():
        talk("DATABASE_URL is not set: a PostgreSQL of its own is made in {home}.", home=settings.home)


def server() -> str | None:
    """The server to ask in place of a database: that of --api, else that of RETOMA_API_URL."""
    context = click.get_current_context(silent=True)
    given: str | None = None if context is None else context.find_root().obj
    return os.environ.get("RETOMA_API_URL") or None if given is None else given


def ask(question: Callable[[Retoma], Awaitable[T]]) -> T:
    """The answer to *question*, put to an open app that has no pipelines, or to the server that is named."""
    if (url := server()) is not None:
        return asyncio.run(_asked_of_server(url, question))
    from retoma.app.retoma import Retoma

    async def asked() -> T:
        async with Retoma(settings=settings()) as app:
            return await question(app)

    return _traced(asked)


async def _asked_of_server(url: str, question: Callable[[Retoma], Awaitable[T]]) -> T:
    from retoma.cli.remote import Remote, client_of

    async with client_of(url) as client:
        return await question(cast("Retoma", Remote(client)))


def ask_program(reference: str | None, question: Callable[[Retoma], Awaitable[T]]) -> T:
    """The answer to *question*, put to the program's own app: it knows its pipelines and its providers."""
    from retoma.app.loader import find_app
    from retoma.providers.factory import close

    settings()  # says where a database is made, when one is

    async def asked() -> T:
        async with find_app(reference_of(reference)) as app:
            try:
                return await question(app)
            finally:
                await close(app.registry.providers)

    return _traced(asked)


def _traced(asked: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The answer, with the spans of a command sent where OTEL_* says: a resume belongs to the story of its batch."""
    from retoma.telemetry import tracing

    if not tracing.wanted() or not tracing.available():
        return asyncio.run(asked())  # a shell may have OTEL_* for other programs
    send_spans = tracing.configure(label="command")
    try:
        return asyncio.run(asked())
    finally:
        send_spans()


def ask_server_or_program(reference: str | None, question: Callable[[Retoma], Awaitable[T]]) -> T:
    """The answer of the server that is named; where none is, that of the program's own app."""
    if (url := server()) is not None:
        return asyncio.run(_asked_of_server(url, question))
    return ask_program(reference, question)


def program(reference: str) -> Retoma:
    """The app that *reference* leads to."""
    from retoma.app.loader import find_app

    return find_app(reference)


def reference_of(given: str | None) -> str:
    """Where the program is: on the command line, else in RETOMA_APP, else the ready pipelines are it."""
    from retoma.system.settings import Settings

    return given or Settings.load().app or READY
