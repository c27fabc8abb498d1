"""The job that delivers webhooks: it takes messages that are due, sends each once, and writes down how it ended."""

from __future__ import annotations

import asyncio

from retoma.commands import webhooks as rules
from retoma.commands.jobs import only
from retoma.model.retry import Retry
from retoma.model.validation import HOUSE_QUEUE
from retoma.postgres.connections import run_on
from retoma.providers import webhook_post
from retoma.run.pipeline import pipeline
from retoma.run.run import Run
from retoma.run.steps import AsyncConnection
from retoma.store import webhooks
from retoma.store.webhooks import Message, Outcome, SettledMessage
from retoma.system.settings import Settings
from retoma.telemetry import emit
from retoma.telemetry.events import WebhookDelivered, WebhookDisabled, WebhookFailed

_ROUNDS = 20
"""How many times one job looks for messages; what is left is for the next job."""


@pipeline(rules.SCHEDULE, internal=True, queue=HOUSE_QUEUE, retry=Retry(attempts=1), timeout=600.0)
async def deliver(_: None, run: Run, *, settings: Settings) -> dict[str, int]:
    """Deliver the webhooks that are due, and return how many arrived and how many did not."""
    arrived = missed = 0
    for round in range(_ROUNDS):
        taken, number = await _taken(run, round)
        if not number:
            break
        ended = await asyncio.gather(*(sent(message, settings) for message in taken))
        came = await _settled(run, round, ended)
        arrived, missed = arrived + came, missed + len(ended) - came
    return {"arrived": arrived, "missed": missed}


async def _taken(run: Run, round: int) -> tuple[list[Message], int]:
    """Messages that are due, and their number. Only the number is a checkpoint: secrets stay in their table. A later
    attempt of the job gets no messages here, and they are due again after their lease.
    """
    taken: list[Message] = []

    async def take(connection: AsyncConnection) -> int:
        taken[:] = await run_on(connection, only(webhooks.take(lease=rules.LEASE)))
        return len(taken)

    return taken, await run.transact(f"take/{round}", take)


async def _settled(run: Run, round: int, ended: list[tuple[Message, Outcome]]) -> int:
    """Write down how requests ended, and return how many arrived."""
    settled: list[list[SettledMessage]] = []
    # Each statement locks the row of its endpoint. In the order of the endpoints, so that two such jobs never deadlock.
    in_order = sorted(ended, key=lambda each: (each[0].endpoint_id, each[0].id))

    async def settle(connection: AsyncConnection) -> int:
        settled[:] = [await run_on(connection, only(webhooks.settle(*each))) for each in in_order]
        return sum(outcome.arrived for _, outcome in ended)

    came = await run.transact(f"settle/{round}", settle)
    for each, endpoints in zip(in_order, settled, strict=False):
        tell(*each, endpoints)
    return came


async def sent(message: Message, settings: Settings) -> tuple[Message, Outcome]:
    """*message*, sent once, and what follows from how that ended."""
    secrets = [message.secret, *([message.previous_secret] if message.previous_secret else [])]
    posted = await webhook_post.post(
        message.url,
        message.id,
        message.body,
        secrets,
        seconds=settings.webhook_seconds,
        private=settings.webhook_private == "on",
    )
    return message, rules.outcome_of(message, posted)


def tell(message: Message, outcome: Outcome, settled: list[SettledMessage]) -> None:
    """Emit the events of a request."""
    if outcome.arrived:
        emit(
            WebhookDelivered(
                endpoint=message.endpoint_id,
                message=message.id,
                kind=message.kind,
                attempt=message.attempt,
                status=outcome.status,
            )
        )
        return
    emit(
        WebhookFailed(
            endpoint=message.endpoint_id,
            message=message.id,
            kind=message.kind,
            attempt=message.attempt,
            status=outcome.status,
            error=outcome.error,
            final=outcome.delay is None,
        )
    )
    for endpoint in settled:
        if endpoint.disabled:
            emit(WebhookDisabled(endpoint=endpoint.id, reason="gone" if outcome.gone else "failing"))
