"""Webhooks: the kinds of messages, and when one that did not arrive is sent again."""

from __future__ import annotations

import random

from retoma.providers.webhook_post import Posted
from retoma.store.webhooks import Message, Outcome

KINDS = {
    "batch.started": "a batch has its first job running",
    "batch.progress_25": "a quarter of a batch has ended",
    "batch.progress_50": "half of a batch has ended",
    "batch.progress_75": "three quarters of a batch have ended",
    "batch.stalled": "a batch does not progress, and has no innocent reason",
    "batch.paused": "a batch was paused, by a person or because a provider refuses the key",
    "batch.resumed": "a batch goes on",
    "batch.completed": "every job of a batch has ended",
    "batch.failed": "a batch was given up",
    "batch.cancelled": "a batch was cancelled",
    "budget.reached": "a batch was paused because its budget is used up",
    "job.failed": "a job failed for good; one message for each job",
    "worker.lost": "a worker ended without notice or fell silent, and its jobs are recovered",
}
"""What a message may tell."""
USUAL = tuple(kind for kind in KINDS if kind != "job.failed")
"""What an endpoint gets unless it asks for something else: a batch can have many thousand jobs that fail."""

DELAYS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds after each failed request until the next: more than three days in all."""
SCHEDULE = "retoma.deliver"
LEASE = 120.0
"""Seconds for which whoever takes a message has it."""


def outcome_of(message: Message, posted: Posted) -> Outcome:
    """What follows from how a request ended."""
    delay = None
    if not posted.arrived and not posted.gone and message.tries <= len(DELAYS):
        delay = max(DELAYS[message.tries - 1] * random.uniform(0.9, 1.1), posted.wait or 0.0)  # noqa: S311 - no secret
    return Outcome(
        arrived=posted.arrived,
        status=posted.status,
        error=posted.error,
        seconds=posted.seconds,
        delay=delay,
        gone=posted.gone,
    )
