"""Work that is handed in now and has its result later: what was handed in is paid, and a look at it is free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from retoma.providers import Extraction, Extractor, ProviderDown


class ResultLost(ProviderDown):
    """What was handed in has no result and never will: it was forgotten, or could not be finished. Handed in anew it
    may have one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """There is no result yet: look again after *seconds*, and not before."""

    seconds: float


@runtime_checkable
class Submitter(Extractor, Protocol):
    """An Extractor that takes a document in and reads it in its own time. What it took in is written down, and after a
    crash the same result is looked for instead of another being paid.
    """

    kept_seconds: float
    """For how long a result can be looked for, from when it was handed in."""

    async def submit(self, file: Path, *, kind: str, timeout: float) -> str:
        """Hand *file* in; what comes back leads to its result, also from another process."""
        ...

    async def look(self, operation: str, *, timeout: float) -> Extraction | Pending:
        """What the document says that was handed in as *operation*, if that is known by now. One look: it neither
        waits nor tries again. Raises ResultLost, or RequestRejected, when there will be no result.
        """
        ...
