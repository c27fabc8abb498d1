"""The audit of who did what: written in the transaction of the change, or right after it where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from retoma.commands.jobs import only
from retoma.errors import ConfigurationError, DatabaseUnreachable
from retoma.model import validation
from retoma.postgres.borrowing import BORROWER
from retoma.postgres.connections import CommandRunner
from retoma.postgres.database import Database
from retoma.store import audit, standing
from retoma.store.audit import Audited, Entry
from retoma.store.query import Query
from retoma.system.concurrency import Coalescer
from retoma.telemetry import emit
from retoma.telemetry.events import ActionAudited
from retoma.values.text import storable

__all__ = ["OUTCOMES", "Audit", "Audited", "Entry", "as_noted", "tell"]

Standings = Mapping[str, Callable[[str], Query[str]]]

OUTCOMES = {
    "begun": "is about to be done, outside a transaction",
    "done": "was done",
    "failed": "failed, and may have been done in part",
    "looked": "content was looked at",
    "refused": "was refused: no key, a wrong one, or one without the scope",
}
"""How an audited action ended."""

_CHANGED = frozenset({"done", "failed"})
_LONGEST = 500
_SECONDS = 10.0


def as_noted(values: Mapping[str, Any]) -> str | None:
    """The other facts about an action, as the row stores them."""
    return orjson.dumps(values, default=str).decode().replace("\\u0000", "") if values else None


def tell(entry: Entry) -> None:
    """Emit the log event of an audit entry."""
    what = f"{entry.object_kind} {entry.object_id or ''}".rstrip() if entry.object_kind else None
    emit(
        ActionAudited(
            who=entry.who,
            action=entry.action,
            object=what,
            outcome=entry.outcome,
            address=entry.address,
            route=entry.route,
            correlation=entry.correlation_id,
            times=entry.times,
        )
    )


class Audit(CommandRunner):
    """The audit of an app; *standings* are the state queries of its extensions."""

    def __init__(self, database: Callable[[], Database], standings: Callable[[], Standings] = dict) -> None:
        super().__init__(database)
        self._standings = standings
        self._kinds: Standings | None = None
        self._together: Coalescer[Entry, int] = Coalescer(self._write_together)

    async def standing(self, kind: str | None, id: str | None, *, conn: object = None) -> str | None:
        """The current state of a thing, as far as it may be shown; None when it does not exist."""
        if self._kinds is None:
            self._kinds = {**standing.KINDS, **self._standings()}
        if kind is None or id is None or kind not in self._kinds:
            return None
        return next(iter(await self._ask(only(self._kinds[kind](id)), conn)), None)

    async def write(self, entry: Entry, *, conn: object = None) -> None:
        """Add a row: in the transaction of *conn*, or in a group commit with concurrent writers. The row of a
        successful action also has the state afterwards.
        """
        after = entry.after
        if entry.outcome in _CHANGED and (now := await self.standing(entry.object_kind, entry.object_id, conn=conn)):
            after = orjson.dumps({**orjson.loads(now), **orjson.loads(after or "{}")}).decode()
        entry = replace(entry, after=after)
        if conn is not None:
            await self.write_all([entry], conn=conn)
        else:
            await self._together(_bounded(entry))

    async def write_all(self, entries: Sequence[Entry], *, conn: object) -> None:
        """Add rows as they are, in the transaction of *conn*."""
        if entries:
            await self._ask(only(audit.write([_bounded(each) for each in entries])), conn)

    async def _write_together(self, entries: list[Entry]) -> list[int]:
        BORROWER.set(None)  # the statement serves all waiting callers, not only the first
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._ask(only(audit.write(entries)))
        except TimeoutError:
            raise DatabaseUnreachable("The database did not write the audit in time.") from None

    async def page(
        self,
        *,
        who: str | None = None,
        action: str | None = None,
        object: str | None = None,
        outcome: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        since_seconds: float | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Audited]:
        """Rows, newest first. *who* is a key's id or name; *object* is a kind, or kind:id, such as batch:42. Limited to
        those *since* a time and before *until*, or to the last *since_seconds* by the database's clock.
        """
        validation.page("rows", limit)
        if outcome is not None and outcome not in OUTCOMES:
            raise ConfigurationError(f"There is no outcome {outcome!r}.", next=f"Outcomes are {', '.join(OUTCOMES)}.")
        kind, _, id = (object or "").partition(":")
        return await self._ask(
            only(
                audit.page(
                    who=who,
                    action=action,
                    object_kind=kind or None,
                    object_id=id or None,
                    outcome=outcome,
                    since=since,
                    until=until,
                    lately=since_seconds and min(since_seconds, validation.CENTURY),
                    before=before and min(before, validation.LARGEST_ID),
                    limit=limit,
                )
            )
        )


def _bounded(entry: Entry) -> Entry:
    return replace(entry, route=_short(entry.route) or "", object_id=_short(entry.object_id))


def _short(text: str | None) -> str | None:
    return text if text is None else storable(text[:_LONGEST])
