"""retoma watchdog: the rounds that every worker and every server makes, without either."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from retoma.cli import context, output
from retoma.cli.language import Phrase

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.worker.watchdog import Watchdog

_SLACK = 1.0  # seconds


@click.command()
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="How long to rest between two rounds (RETOMA_SWEEP_SECONDS).",
)
@click.option("--once", is_flag=True, help="Make one round, print what it did, and end.")
def watchdog(every: float | None, *, once: bool) -> None:
    """Look after jobs, batches and schedules until told to stop. Needs no program; as many as you like may run.

    A round takes back the jobs of workers that fell silent, ends what waited too long, asks why batches do not move,
    and queues what is due by the clock. Every worker and every server does the same: this is for when neither is there.
    """
    context.ask(lambda app: _round(app) if once else _watch(app, every or app.settings.sweep_seconds))


def _rounds(app: Retoma) -> Watchdog:
    from retoma.worker.watchdog import Watchdog

    return Watchdog(lambda: app.database)


async def _round(app: Retoma) -> None:
    from retoma.telemetry import Event, listen
    from retoma.telemetry.events import (
        AlertOpened,
        BatchAdvanced,
        BatchFailed,
        BatchStalled,
        JobRecovered,
        JobsExpired,
        ScheduleFired,
    )

    names: dict[type[Event], str] = {
        JobRecovered: Phrase("jobs recovered"),
        JobsExpired: Phrase("jobs expired"),
        BatchStalled: Phrase("batches stalled"),
        BatchAdvanced: Phrase("batches that go on"),
        BatchFailed: Phrase("batches failed"),
        ScheduleFired: Phrase("schedules fired"),
        AlertOpened: Phrase("alerts opened"),
    }
    did = Counter(dict.fromkeys(names.values(), 0))

    def count(event: Event) -> None:
        did[names[type(event)]] += event.jobs if isinstance(event, JobsExpired) else 1

    rounds = _rounds(app)
    forget = listen(count, wants=names.__contains__)
    try:
        await rounds.sweep()
        await _outwait_grace(app, rounds)
        for duty in (rounds.look_after, rounds.fire, rounds.mend, rounds.judge_alerts, rounds.send_alerts):
            await duty()
    finally:
        forget()
    output.fields(did)


async def _outwait_grace(app: Retoma, rounds: Watchdog) -> None:
    """Who fell silent has the rest of its lease to come back when nobody could reach the database for a while, as an
    embedded one that nobody else uses; a round that did not wait for it would never take anything back there.
    """
    now = await app.database.now()
    silent = [each for each in await app.workers.all() if each.seen_at + timedelta(seconds=each.lease_seconds) < now]
    if not silent:
        return
    ids = {each.id for each in silent}
    grace = max(each.lease_seconds for each in silent)
    output.talk(
        "The database has just come back: workers that fell silent have up to {grace:g} s to do so. Waiting.",
        grace=grace,
    )
    until = time.monotonic() + grace + _SLACK
    while time.monotonic() < until and ids & {each.id for each in await app.workers.all()}:
        await asyncio.sleep(_SLACK)
        await rounds.sweep()


async def _watch(app: Retoma, seconds: float) -> None:
    from retoma.telemetry.logs import log_to_stderr

    settings = app.settings
    log_to_stderr(level=settings.log_level, format=settings.log_format, label=settings.worker_label)
    if sys.stderr.isatty():
        output.talk("Looking after jobs, batches and schedules, every {seconds:g} s. Ctrl-C ends it.", seconds=seconds)
    asked = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, asked.set)
    await _rounds(app).go_on(seconds, asked)
