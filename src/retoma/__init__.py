"""Durable, resumable, explained and paid-once work over documents, on PostgreSQL alone."""

import importlib
import sys
import types
import typing

if typing.TYPE_CHECKING:
    from retoma.app import Retoma
    from retoma.batch import Batch, BatchState, Progress
    from retoma.endings import Postpone, Reject, Review, Skip
    from retoma.errors import RetomaError
    from retoma.fingerprints import fingerprint
    from retoma.isolate import isolated
    from retoma.model import Attempt, Checkpoint, Job, JobState, Metrics, Presence, Queue, Receipt, Schedule
    from retoma.pipeline import Pipeline, pipeline
    from retoma.query import Query
    from retoma.retry import Retry
    from retoma.run import Run
    from retoma.settings import Settings
    from retoma.sync_run import SyncRun

__all__ = [
    "Attempt",
    "Batch",
    "BatchState",
    "Checkpoint",
    "Job",
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

_ROOMS = {
    "app": ("Retoma",),
    "batch": ("Batch", "BatchState", "Progress"),
    "fingerprints": ("fingerprint",),
    "endings": ("Postpone", "Reject", "Review", "Skip"),
    "errors": ("RetomaError",),
    "isolate": ("isolated",),
    "model": ("Attempt", "Checkpoint", "Job", "JobState", "Metrics", "Presence", "Queue", "Receipt", "Schedule"),
    "pipeline": ("Pipeline", "pipeline"),
    "query": ("Query",),
    "retry": ("Retry",),
    "run": ("Run",),
    "settings": ("Settings",),
    "sync_run": ("SyncRun",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


class _Hall(types.ModuleType):
    """The front hall: a name is fetched from its room when somebody first asks for it.

    A command's help, or the child of an isolated function, need not wait for a driver it will not use.
    """

    def __getattr__(self, name: str) -> typing.Any:
        if name not in _ROOM_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Importing retoma.pipeline would hang the module here, under the name of the function it is there for.
        if not (name in _ROOM_OF and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Hall
