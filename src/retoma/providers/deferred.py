"""Deferred work: it is submitted now, paid with the submission, and polled for free until its result is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from retoma.providers import Extraction, Extractor, ProviderDown


class ResultLost(ProviderDown):
    """The submitted work has no result and never will: it was forgotten, or could not be finished. A new
    submission may have one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """There is no result yet: poll again after *seconds*, and not before."""

    seconds: float


@runtime_checkable
class Submitter(Extractor, Protocol):
    """An Extractor that accepts a document and reads it in its own time. The submission is recorded, and after a crash
    the same result is polled instead of paying for another.
    """

    kept_seconds: float
    """For how long after the submission a result can be polled."""

    async def submit(self, file: Path, *, kind: str, timeout: float) -> str:
        """Submit *file*; the returned operation leads to its result, also from another process."""
        ...

    async def look(self, operation: str, *, timeout: float) -> Extraction | Pending:
        """The content of the document submitted as *operation*, if it is there. One poll: it neither waits nor retries.
        Raises ResultLost, or RequestRejected, when there will be no result.
        """
        ...
