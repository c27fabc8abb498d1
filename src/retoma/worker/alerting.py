"""Alerts of the watchdog: judge what is wrong, keep an incident for each, and send it once through each channel."""

from __future__ import annotations

import asyncio

from retoma.model.alert import Delivery, Finding, Turn
from retoma.postgres.database import Database
from retoma.store import alerts
from retoma.system.settings import Settings
from retoma.telemetry import emit
from retoma.telemetry.events import AlertOpened, AlertResolved, AlertUnsent
from retoma.worker.alert_channels import Unsent, send_mail, send_webhook

UNSERVED_SECONDS = 120.0
LATE_SECONDS = 600.0
FAILED_SECONDS = 3600.0
SILENT_SECONDS = 900.0
STUCK_JOBS = 10
QUIET_SECONDS = 60.0
"""How long a rule must find nothing before an incident is over."""
_PAUSE_SECONDS = 60.0  # longer than a message takes, so that nobody else sends it meanwhile
_TRIES = 8

_SENDERS = {"webhook": send_webhook, "email": send_mail}


def channels_of(settings: Settings) -> list[str]:
    """The channels that this process can send through."""
    channels = ["webhook"] if settings.alert_webhook else []
    return [*channels, "email"] if settings.alert_smtp and settings.alert_email_to else channels


async def judge(database: Database, *, quiet: float = QUIET_SECONDS) -> list[Turn]:
    """Look for what is wrong, and open or resolve incidents accordingly."""
    found: list[Finding] = await database.all(
        alerts.judge(
            unserved_seconds=UNSERVED_SECONDS,
            late_seconds=LATE_SECONDS,
            failed_seconds=FAILED_SECONDS,
            silent_seconds=SILENT_SECONDS,
            stuck_jobs=STUCK_JOBS,
        )
    )
    turns = await database.all(alerts.note(found, quiet=quiet))
    for each in turns:
        event = AlertOpened if each.what == "opened" else AlertResolved
        emit(event(alert=each.id, rule=each.rule, subject=each.subject, severity=each.severity))
    return turns


async def send(database: Database) -> int:
    """Send what is due through the channels of this process, and return how many messages were sent."""
    settings = database.settings
    channels = channels_of(settings)
    if not channels:
        return 0
    await database.all(alerts.plan(channels, resolved=settings.alert_resolved == "on"))
    sent = 0
    while due := await database.all(alerts.take(channels, pause=_PAUSE_SECONDS, most=_TRIES)):
        for each in due:
            sent += await _send_one(database, each)
    return sent


async def _send_one(database: Database, message: Delivery) -> bool:
    error = None
    try:
        await asyncio.to_thread(_SENDERS[message.channel], message, database.settings)
    except Unsent as failure:
        error = str(failure)[:500]
        emit(AlertUnsent(alert=message.alert_id, channel=message.channel, tries=message.tries, error=error))
    await database.all(alerts.delivered(message.alert_id, message.channel, message.what, error=error))
    return error is None
