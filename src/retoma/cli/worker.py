"""retoma worker, up and enqueue: the commands that need the user's program."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import click

from retoma.cli import door, show, values
from retoma.cli.serve import USUAL_PORT, port_option, server

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.app import Retoma

F = TypeVar("F", bound=Callable[..., Any])


def _how_to_work(command: F) -> F:
    """The options that worker and up have in common."""
    options = (
        door.app_option,
        click.option("--queues", metavar="NAME,NAME", help="Work on these queues only."),
        click.option("--at-once", type=click.IntRange(min=1), metavar="N", help="Jobs at the same time per executor."),
        click.option("--processes", type=click.IntRange(min=1), metavar="N", help="Executor processes."),
        click.option("--id", "label", metavar="LABEL", help="The name people see (WORKER_ID)."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@_how_to_work
def worker(reference: str | None, **options: Any) -> None:
    """Work on the jobs of a program until told to stop.

    The first SIGTERM or Ctrl-C drains: steps at hand are finished and saved, the rest goes back to the queue, and
    the exit code is 0. A second one does not wait for the steps. Start as many as you like, on any machine.
    """
    asyncio.run(_work(door.reference_of(reference), options, upgrade=None))


@click.command()
@_how_to_work
@port_option
def up(reference: str | None, port: int | None, **options: Any) -> None:
    """Start all that a program needs on this machine: database, tables, API and a worker; Ctrl-C ends all of it.

    The database is the one of DATABASE_URL, or an embedded PostgreSQL that stops with its last user. Without --app
    the ready pipelines are served.
    """
    asyncio.run(_work(door.reference_of(reference), options, upgrade=True, beside=_api(port)))


def _api(port: int | None) -> Callable[[Retoma], AbstractAsyncContextManager[None]]:
    """The API on this machine's own address; when nobody said where and the usual port is taken, on any other."""

    @asynccontextmanager
    async def serving(app: Retoma) -> AsyncIterator[None]:
        from retoma.errors import ConfigurationError

        web = server()
        try:
            listening = web.listen("127.0.0.1", USUAL_PORT if port is None else port)
        except ConfigurationError:
            if port is not None:
                raise
            listening = web.listen("127.0.0.1", 0)
        with listening:
            show.talk(f"The API is at {web.url_of(listening)}/api/v1. {await web.guard(app, listening)}")
            for line in web.pages_of(app, listening):
                show.talk(line)
            async with web.served(app, listening):
                yield

    return serving


async def _work(
    reference: str,
    options: dict[str, Any],
    *,
    upgrade: bool | None,
    beside: Callable[[Retoma], AbstractAsyncContextManager[object]] = nullcontext,
) -> None:
    from retoma.find import find_app
    from retoma.telemetry.logs import log_to_stderr

    app = find_app(reference)
    settings = app.settings
    queues = [name.strip() for name in (options.pop("queues") or "").split(",") if name.strip()]
    label = options["label"] or settings.worker_label
    found = app.worker(**options, queues=queues or None, reference=reference)
    _doubt(app, reference, queues)
    log_to_stderr(level=settings.log_level, format=settings.log_format, label=label)
    await app.open(upgrade=upgrade)
    try:
        if sys.stderr.isatty():
            _greet(app, reference, queues, label)
        async with beside(app):
            await found.run()
    finally:
        await app.close()


def _doubt(app: Retoma, reference: str, queues: list[str]) -> None:
    """Say so when a queue is none of the program's: that may be a slip, or meant for jobs queued there by name."""
    known = {app.front.pipelines[name].queue for name in app.front.own}
    if strange := [name for name in queues if name not in known]:
        show.talk(
            f"No pipeline of {reference} has the queue {', '.join(strange)}; there only jobs that were queued with "
            f"queue= are worked on. Its own queues are {', '.join(sorted(known)) or 'none'}."
        )


def _greet(app: Retoma, reference: str, queues: list[str], label: str) -> None:
    pipelines = [name for name in app.front.own if not queues or app.front.pipelines[name].queue in queues]
    known = ", ".join(pipelines) or "nothing"
    show.talk(f"Worker {label} (process {os.getpid()}) works on {known} of {reference}. Ctrl-C drains and ends.")
    if pipelines and reference != door.READY:
        show.talk(f"In another terminal: retoma enqueue --app {reference} {pipelines[0]} '…'")


@click.command()
@click.argument("pipeline")
@click.argument("input", metavar="JSON")
@door.app_option
@click.option("--key", help="Your own name for this input: the same key gives the same job back.")
@click.option("--delay", type=values.duration, metavar="TIME", help="Not before this has passed, such as 15m.")
def enqueue(pipeline: str, input: str, reference: str | None, key: str | None, delay: timedelta | None) -> None:
    """Queue one job of PIPELINE over an input written as JSON ('-' reads it from standard input).

    The job's id is printed.
    """
    text = sys.stdin.read() if input == "-" else input
    seconds = delay.total_seconds() if delay else 0.0
    receipt = asyncio.run(_enqueue(door.reference_of(reference), pipeline, text, key, seconds))
    if not receipt.new:
        show.talk(f"Job {receipt.id} has the key {key!r} already; it is {receipt.state}.")
    click.echo(receipt.id)


async def _enqueue(reference: str, name: str, text: str, key: str | None, delay: float) -> Any:
    from retoma.errors import CheckpointInvalid, ConfigurationError
    from retoma.find import find_app

    app = find_app(reference)
    pipeline = app.front.pipeline(name)
    try:
        value = pipeline.input.decode(text)
    except CheckpointInvalid as error:
        raise ConfigurationError(
            # Its first words are about checkpoints; what follows them is as true of an input.
            f"This is not an input of {name!r}: {error.message.partition(': ')[2] or error.message}",
            next='Write it as JSON in single quotes, such as \'"text"\' or \'{"name": "value"}\'.',
        ) from None
    async with app:
        return await app.enqueue(pipeline, value, key=key, delay=delay)
