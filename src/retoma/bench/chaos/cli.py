"""retoma chaos: real workers under kills, and what became of the work."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from typing import TYPE_CHECKING

import click

from retoma.cli import context, output
from retoma.cli.language import Phrase, words
from retoma.errors import ConfigurationError

if TYPE_CHECKING:
    from retoma.bench.chaos.run import Work

_SAID = {
    "executor killed": Phrase("An executor of {label} was killed."),
    "worker killed": Phrase("The worker {label} was killed whole."),
    "executor frozen": Phrase("An executor of {label} stands still."),
    "worker frozen": Phrase("The worker {label} stands still."),
    "connections cut": Phrase("All connections to the database were cut."),
}


@click.command()
@click.option("--jobs", type=click.IntRange(1, 100_000), default=300, show_default=True, help="How many jobs to run.")
@click.option(
    "--faults", type=click.IntRange(0, 10_000), default=30, show_default=True, help="How often workers are struck."
)
@click.option("--seed", type=int, metavar="S", help="The same number chooses the same faults again.")
@context.app_option
@click.option("--pipeline", metavar="NAME", help="With --app: run this pipeline of yours.")
@click.option("--input", "text", metavar="JSON", help="With --pipeline: what each job gets.")
@click.option("--keep", is_flag=True, help="Keep the folder with the database and the logs of the workers.")
def chaos(
    jobs: int,
    faults: int,
    seed: int | None,
    reference: str | None,
    pipeline: str | None,
    text: str | None,
    *,
    keep: bool,
) -> None:
    """Kill, freeze and cut off real workers while they work, and print as JSON what became of the jobs.

    Three workers run the jobs on a PostgreSQL of its own in a temporary
    folder; nobody else's database or worker is touched. The exit code is 1
    if a job was lost, or if anything that was saved was done again.
    """
    from retoma.bench.chaos.run import run
    from retoma.demo.stage import staged
    from retoma.isolate import kernel

    if not kernel.LINUX:
        raise ConfigurationError(
            Phrase("This needs Linux, where the processes of a worker are found in /proc."),
            next=Phrase("Run it on a Linux machine or in a container."),
        )
    work = _work(reference, pipeline, text)
    chosen = secrets.randbelow(1_000_000) if seed is None else seed
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _interrupted)
    with staged(keep=keep) as stage:
        report = asyncio.run(run(stage, work, jobs=jobs, faults=faults, seed=chosen, tell=_tell))
        if keep:
            output.talk("Kept: {folder}", folder=stage.folder)
    output.print_json(report.as_json())
    click.get_current_context().exit(0 if report.kept else 1)


def _work(reference: str | None, pipeline: str | None, text: str | None) -> Work:
    """What is to be run. A program of a user works in the database of this run, or not at all."""
    from retoma.bench.chaos.run import Work
    from retoma.cli.worker import input_of
    from retoma.system.settings import Settings

    if pipeline is None or text is None:
        if reference or pipeline or text:
            raise click.UsageError(words("For jobs of your own give all three: --app, --pipeline and --input."))
        return Work()
    program = context.reference_of(reference)
    for name in ("DATABASE_URL", "RETOMA_DATABASE_URL"):
        os.environ.pop(name, None)  # so that what the program still names is written in it
    app = context.program(program)
    if app.settings.database_url:
        raise ConfigurationError(
            Phrase("{program} names its database itself, and its workers would be killed while they work there.",
                   program=program),
            next=Phrase("Leave the address to DATABASE_URL, which is not used here."),
        )  # fmt: skip
    found = app.registry.pipeline(pipeline)
    theirs = {kind: given for kind, given in app.registry.providers.items() if kind is not Settings}
    return Work(program, found, input_of(found, text), theirs)


def _tell(kind: str, label: str) -> None:
    output.talk(_SAID[kind], label=label)


def _interrupted(number: int, _frame: object) -> None:
    # As Ctrl-C does: what was started is ended on the way out.
    sys.exit(128 + number)
