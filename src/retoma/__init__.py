"""Durable, resumable, explained and paid-once work over documents, on PostgreSQL alone."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.errors import RetomaError
    from retoma.isolate import isolated
    from retoma.model.batch import Batch, BatchState, Progress
    from retoma.model.endings import Postpone, Reject, Review, Skip
    from retoma.model.ids import BatchId, CallId, JobId
    from retoma.model.job import Attempt, Checkpoint, Job, JobState, Receipt
    from retoma.model.last_step import BatchEnd
    from retoma.model.queue import Queue
    from retoma.model.result import Result
    from retoma.model.retry import Retry
    from retoma.model.schedule import Schedule
    from retoma.model.worker import Metrics, Presence
    from retoma.run.pipeline import Pipeline, pipeline
    from retoma.run.run import Run
    from retoma.run.sync_run import SyncRun
    from retoma.store.query import Query
    from retoma.system.settings import Settings
    from retoma.values.fingerprints import fingerprint

__all__ = [
    "Attempt",
    "Batch",
    "BatchEnd",
    "BatchId",
    "BatchState",
    "CallId",
    "Checkpoint",
    "Job",
    "JobId",
    "JobState",
    "Metrics",
    "Pipeline",
    "Postpone",
    "Presence",
    "Progress",
    "Query",
    "Queue",
    "Receipt",
    "Reject",
    "Result",
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

# A name is imported on first use: a command's help, or the child of an isolated function, does not load a driver
# that it does not use.
_MODULES = {
    "app.retoma": ("Retoma",),
    "errors": ("RetomaError",),
    "isolate": ("isolated",),
    "model.batch": ("Batch", "BatchState", "Progress"),
    "model.endings": ("Postpone", "Reject", "Review", "Skip"),
    "model.ids": ("BatchId", "CallId", "JobId"),
    "model.job": ("Attempt", "Checkpoint", "Job", "JobState", "Receipt"),
    "model.last_step": ("BatchEnd",),
    "model.queue": ("Queue",),
    "model.result": ("Result",),
    "model.retry": ("Retry",),
    "model.schedule": ("Schedule",),
    "model.worker": ("Metrics", "Presence"),
    "run.pipeline": ("Pipeline", "pipeline"),
    "run.run": ("Run",),
    "run.sync_run": ("SyncRun",),
    "system.settings": ("Settings",),
    "store.query": ("Query",),
    "values.fingerprints": ("fingerprint",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> typing.Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
