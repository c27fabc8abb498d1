"""How a command comes in: by the front door, with the settings of the environment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

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


def ask(question: Callable[[Retoma], Awaitable[T]]) -> T:
    """The answer to *question*, put to an open app that has no pipelines."""
    from retoma.app.retoma import Retoma

    async def asked() -> T:
        async with Retoma(settings=settings()) as app:
            return await question(app)

    return asyncio.run(asked())


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

    return asyncio.run(asked())


def program(reference: str) -> Retoma:
    """The app that *reference* leads to."""
    from retoma.app.loader import find_app

    return find_app(reference)


def reference_of(given: str | None) -> str:
    """Where the program is: on the command line, else in RETOMA_APP, else the ready pipelines are it."""
    from retoma.system.settings import Settings

    return given or Settings.load().app or READY
