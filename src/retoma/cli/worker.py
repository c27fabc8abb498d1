"""retoma worker, up and enqueue: the commands that need the user's program."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import click

from retoma.cli import acting, context, output, params
from retoma.cli.language import Phrase, language
from retoma.cli.serve import USUAL_PORT, port_option, server

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.app.retoma import Retoma
    from retoma.run.pipeline import Pipeline
    from retoma.worker.supervisor import Worker

F = TypeVar("F", bound=Callable[..., Any])


def _how_to_work(command: F) -> F:
    """The options that worker and up have in common."""
    options = (
        context.app_option,
        click.option("--queues", metavar="NAME,NAME", help="Work on these queues only."),
        click.option("--at-once", type=click.IntRange(min=1), metavar="N", help="Jobs at the same time per executor."),
        click.option("--processes", type=click.IntRange(min=1), metavar="N", help="Executor processes."),
        click.option("--id", "label", metavar="LABEL", help="The name people see (WORKER_ID)."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@_how_to_work
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="Where Prometheus finds the metrics of this worker (RETOMA_METRICS_PORT).",
)
@click.pass_context
def worker(ctx: click.Context, /, reference: str | None, metrics_port: int | None, **options: Any) -> None:
    """Work on the jobs of a program until told to stop.

    The first SIGTERM or Ctrl-C drains: steps at hand are finished and saved, the rest goes back to the queue, and
    the exit code is 0. A second one does not wait for the steps. Start as many as you like, on any machine.
    """
    if ctx.invoked_subcommand is None:
        asyncio.run(_work(context.reference_of(reference), options, upgrade=None, metrics_port=metrics_port))


@worker.command()
@click.argument("label")
def drain(label: str) -> None:
    """Ask the workers that run now under LABEL to take no more jobs and to end, wherever they are.

    Steps at hand are finished and saved, and the rest goes back to the queue. They hear of it with their next
    heartbeat; a worker that starts later is not concerned.
    """
    asked = context.ask(
        lambda app: acting.change(
            app, "worker", label, lambda conn: app.workers.drain(label, by=acting.person(), conn=conn)
        )
    )
    output.talk("Executors that were asked to end: {count}; 'retoma workers' shows how they do.", count=len(asked))


@click.command()
@_how_to_work
@port_option
def up(reference: str | None, port: int | None, **options: Any) -> None:
    """Start all that a program needs on this machine: database, tables, API and a worker; Ctrl-C ends all of it.

    The database is the one of DATABASE_URL, or an embedded PostgreSQL that stops with its last user. Without --app
    the ready pipelines are served.
    """
    asyncio.run(_work(context.reference_of(reference), options, upgrade=True, beside=_api(port)))


def _api(port: int | None) -> Callable[[Retoma, Worker], AbstractAsyncContextManager[None]]:
    """The API on this machine's own address; when nobody said where and the usual port is taken, on any other."""

    @asynccontextmanager
    async def serving(app: Retoma, worker: Worker) -> AsyncIterator[None]:
        from retoma.errors import ConfigurationError

        web = server()
        try:
            listening = web.listen("127.0.0.1", USUAL_PORT if port is None else port)
        except ConfigurationError:
            if port is not None:
                raise
            listening = web.listen("127.0.0.1", 0)
        with listening:
            who = await web.guard(app, listening)
            output.talk("The API is at {url}/api/v1.", url=web.url_of(listening))
            output.relay(who)
            for line in web.pages_of(app, listening, language()):
                output.say(line, err=True)
            # The worker makes the rounds; and what its executors count is shown here, too.
            async with web.served(app, listening, rounds=False, sheets=worker.sheets):
                yield

    return serving


async def _work(
    reference: str,
    options: dict[str, Any],
    *,
    upgrade: bool | None,
    beside: Callable[[Retoma, Worker], AbstractAsyncContextManager[object]] | None = None,
    metrics_port: int | None = None,
) -> None:
    from retoma.app.loader import find_app
    from retoma.telemetry.logs import log_to_stderr

    app = find_app(reference)
    settings = app.settings
    queues = [name.strip() for name in (options.pop("queues") or "").split(",") if name.strip()]
    label = options["label"] or settings.worker_label
    found = app.worker(**options, queues=queues or None, reference=reference)
    found.metrics_port = settings.metrics_port if metrics_port is None else metrics_port
    _doubt(app, reference, queues)
    log_to_stderr(level=settings.log_level, format=settings.log_format, label=label)
    context.announce(settings)
    await app.open(upgrade=upgrade)
    try:
        if sys.stderr.isatty():
            _greet(app, reference, queues, label)
        async with nullcontext() if beside is None else beside(app, found):
            await found.run()
    finally:
        await app.close()


def _doubt(app: Retoma, reference: str, queues: list[str]) -> None:
    """Say so when a queue is none of the program's: that may be a slip, or meant for jobs queued there by name."""
    known = {app.registry.pipelines[name].queue for name in app.registry.own}
    if strange := [name for name in queues if name not in known]:
        output.talk(
            "No pipeline of {reference} has the queue {strange}; there only jobs that were queued with "
            "queue= are worked on. Its own queues are {known}.",
            reference=reference,
            strange=", ".join(strange),
            known=", ".join(sorted(known)) or Phrase("none"),
        )


def _greet(app: Retoma, reference: str, queues: list[str], label: str) -> None:
    pipelines = [name for name in app.registry.own if not queues or app.registry.pipelines[name].queue in queues]
    known = ", ".join(pipelines) or Phrase("nothing")
    output.talk(
        "Worker {label} (process {pid}) works on {known} of {reference}. Ctrl-C drains and ends.",
        label=label,
        pid=os.getpid(),
        known=known,
        reference=reference,
    )
    if pipelines and reference != context.READY:
        output.talk(
            "In another terminal: retoma enqueue --app {reference} {pipeline} '…'",
            reference=reference,
            pipeline=pipelines[0],
        )


@click.command()
@click.argument("pipeline")
@click.argument("input", metavar="JSON")
@context.app_option
@click.option("--key", help="Your own name for this input: the same key gives the same job back.")
@click.option("--delay", type=params.duration, metavar="TIME", help="Not before this has passed, such as 15m.")
def enqueue(pipeline: str, input: str, reference: str | None, key: str | None, delay: timedelta | None) -> None:
    """Queue one job of PIPELINE over an input written as JSON ('-' reads it from standard input).

    The job's id is printed.
    """
    text = sys.stdin.read() if input == "-" else input
    seconds = delay.total_seconds() if delay else 0.0
    receipt = asyncio.run(_enqueue(context.reference_of(reference), pipeline, text, key, seconds))
    if not receipt.new:
        output.talk("Job {id} has the key {key!r} already; it is {state}.", id=receipt.id, key=key, state=receipt.state)
    output.say(receipt.id)


def input_of(pipeline: Pipeline[Any, Any], text: str) -> Any:
    """The input that *text* writes as JSON."""
    from retoma.errors import ConfigurationError
    from retoma.values.codec import Misfit

    try:
        return pipeline.input.decode(text)
    except Misfit as misfit:
        raise ConfigurationError(
            f"This is not an input of {pipeline.name!r}: {misfit}.",
            next=_wanted(pipeline)
            if _is_json(text)
            else 'Write it as JSON in single quotes, such as \'"text"\' or \'{"name": "value"}\'.',
        ) from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _wanted(pipeline: Pipeline[Any, Any]) -> str:
    """What kind of JSON *pipeline* takes, in a few words."""
    schema = pipeline.input.schema
    if fields := list(schema.get("properties", {})):
        needed = ", ".join(schema.get("required", [])) or "none of them"
        return f"Give a JSON object with the fields {', '.join(fields)}; needed: {needed}."
    return f"Give JSON of the type {schema.get('type', 'that its input has')}."


def _named(app: Retoma, name: str, reference: str) -> Pipeline[Any, Any]:
    from retoma.errors import UnknownPipeline
    from retoma.run.registry import near_to

    try:
        return app.registry.pipeline(name)
    except UnknownPipeline as error:
        if reference != context.READY or near_to(name, app.registry.own):
            raise
        raise UnknownPipeline(
            error.message, next="Name your own program with --app MODULE:ATTRIBUTE, or in RETOMA_APP."
        ) from None


async def _enqueue(reference: str, name: str, text: str, key: str | None, delay: float) -> Any:
    from retoma.app.loader import find_app

    app = find_app(reference)
    pipeline = _named(app, name, reference)
    value = input_of(pipeline, text)
    async with app:
        return await acting.change(
            app,
            "job",
            None,
            lambda conn: app.enqueue(pipeline, value, key=key, delay=delay, conn=conn),
            made=lambda receipt: receipt.id,
        )
