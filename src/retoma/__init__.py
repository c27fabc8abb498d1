"""Durable, resumable, explained and paid-once work over documents, on PostgreSQL alone."""

from retoma.app import Retoma
from retoma.codec import fingerprint
from retoma.endings import Postpone, Reject, Review, Skip
from retoma.errors import RetomaError
from retoma.isolate import isolated
from retoma.model import Attempt, Checkpoint, Job, JobState, Metrics, Presence, Queue, Receipt, Schedule
from retoma.pipeline import Pipeline, pipeline
from retoma.query import Query
from retoma.retry import Retry
from retoma.run import Run, SyncRun
from retoma.settings import Settings

__all__ = [
    "Attempt",
    "Checkpoint",
    "Job",
    "JobState",
    "Metrics",
    "Pipeline",
    "Postpone",
    "Presence",
    "Query",
    "Queue",
    "Receipt",
    "Reject",
    "Retoma",
    "RetomaError",
    "Retry",
    "Review",
    "Run",
    "Schedule",
    "Settings",
    "Skip",
    "SyncRun",
    "fingerprint",
    "isolated",
    "pipeline",
]
