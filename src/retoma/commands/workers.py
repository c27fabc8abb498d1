"""Commands on workers. Each one yields queries and receives their rows."""

from __future__ import annotations

from retoma.errors import NotFound
from retoma.store import workers
from retoma.store.query import Command


def drain(label: str, *, by: str | None) -> Command[list[int]]:
    """Ask every worker that runs now under *label* to end."""
    asked: list[int] = yield workers.drain(label, by=by)
    if not asked:
        raise NotFound(f"No worker runs under the label {label!r}.", next="'retoma workers' shows who works.")
    return sorted(asked)
