"""Checkpoints for tasks outside Retoma: the stages of a row in a table of the caller's, on the caller's own
session or connection.

A worker acquires a row under a name that is unique per manager. Every later write states that name: when a worker was
presumed dead, its write matches no row, and it gets an error. All times are the database's.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Generator, Mapping
from contextlib import suppress
from datetime import timedelta
from enum import Enum, StrEnum
from typing import Any, NamedTuple, TypeVar

from retoma.errors import ConfigurationError, LeaseLost, RowConflict, Unstorable
from retoma.hosts.caller_table import Found, Statements, Table, types
from retoma.postgres.connections import run_on, run_on_sync
from retoma.store.query import Command, Query

__all__ = ["AsyncCheckpointManager", "CheckpointManager", "ProcessingCheckpoint", "Recovered", "Table"]

T = TypeVar("T")

_FULL = 100
_LONGEST_NAME = 80  # of the 100 letters that a worker's name may have, the rest is for what makes it unique


class ProcessingCheckpoint(StrEnum):
    """The stages of a quote, in their order; any other text or enumeration works as well."""

    INIT = "INIT"
    AI_ANALYSIS_START = "AI_ANALYSIS_START"
    AI_ANALYSIS_DONE = "AI_ANALYSIS_DONE"
    FIPE_SEARCH = "FIPE_SEARCH"
    SHOPPING_SEARCH_START = "SHOPPING_SEARCH_START"
    SHOPPING_SEARCH_DONE = "SHOPPING_SEARCH_DONE"
    PRICE_EXTRACTION_START = "PRICE_EXTRACTION_START"
    PRICE_EXTRACTION_PROGRESS = "PRICE_EXTRACTION_PROGRESS"
    PRICE_EXTRACTION_DONE = "PRICE_EXTRACTION_DONE"
    FINALIZATION = "FINALIZATION"
    COMPLETED = "COMPLETED"


class Recovered(NamedTuple):
    """The keys of rows that were recovered from silent workers: to be enqueued *again*, or *failed* for good."""

    again: list[Any]
    failed: list[Any]


class _Commands:
    """The operations of a manager as commands; its two kinds run them on the database."""

    def __init__(
        self,
        db: Any,
        *,
        table: Table | None = None,
        worker_id: str | None = None,
        heartbeat_timeout: timedelta = timedelta(minutes=10),
        max_attempts: int = 5,
        commit: bool = False,
    ) -> None:
        if commit and not hasattr(db, "commit"):
            raise ConfigurationError(
                f"A {type(db).__name__} cannot be asked to commit.",
                next="Leave commit=True out, and commit yourself.",
            )
        name = worker_id or f"{socket.gethostname()}:{os.getpid()}"
        self.worker_id = f"{name[:_LONGEST_NAME]}:{secrets.token_hex(8)}"
        self.table = table or Table()
        self._db = db
        self._timeout = heartbeat_timeout.total_seconds()
        self._most = max_attempts
        self._commit = commit
        self._known: Statements | None = None

    # — commands —

    def _statements(self) -> Command[Statements]:
        if self._known is None:
            self._known = Statements(self.table, dict((yield types(self.table))))
        return self._known

    def _look(self, row: Any) -> Command[Found]:
        key = _key(row, self.table)
        found: list[Found] = yield (yield from self._statements()).look(key, self._timeout)
        if not found:
            raise RowConflict(f"{self.table.name} has no row {key}.", code="missing")
        return found[0]

    def _resumable(self, row: Any) -> Command[bool]:
        found = yield from self._look(row)
        begun = found.checkpoint not in (None, ProcessingCheckpoint.INIT)
        return begun and self._refusal(row, found) is None

    def _take(self, row: Any, *, afresh: bool = False) -> Command[str]:
        key = _key(row, self.table)
        statements = yield from self._statements()
        first = ProcessingCheckpoint.INIT.value
        taken: list[str] = yield statements.take(
            key, self.worker_id, self._timeout, self._most, first=first, afresh=afresh
        )
        if taken:
            return taken[0]
        found = yield from self._look(row)
        # It was released between the two statements: report it as held, so that the caller tries again.
        raise self._refusal(row, found) or self._busy(row, found)

    def _data(self, row: Any) -> Command[dict[str, Any]]:
        found = yield from self._look(row)
        data = json.loads(found.data) if found.data else {}
        return data if isinstance(data, dict) else {}

    def _save(
        self, row: Any, checkpoint: object, progress: float | None, data: Mapping[str, Any] | None
    ) -> Command[None]:
        values: dict[str, object] = {"checkpoint": _text(checkpoint)}
        if progress is not None:
            if not 0 <= progress <= _FULL:
                raise ConfigurationError(f"progress must be 0 to 100, and is {progress}.", next="Say 0 to 100.")
            values["progress"] = progress
        statements = yield from self._statements()
        merged = None if data is None else _json(data)
        values = {part: value for part, value in values.items() if part in self.table.columns()}
        yield from self._held(row, statements.save(_key(row, self.table), self.worker_id, values, merged))

    def _beat(self, row: Any) -> Command[None]:
        statements = yield from self._statements()
        yield from self._held(row, statements.save(_key(row, self.table), self.worker_id, {}))

    def _complete(self, row: Any, status: object, error: str | None) -> Command[None]:
        word = _text(status)
        if word in (self.table.processing, *self.table.waiting):
            raise ConfigurationError(f"{word} is not a final status.", next="Complete with DONE, ERROR or such.")
        values: dict[str, object] = {"status": word, "error": error}
        if word != self.table.failed:  # a failed row keeps the stage in which it failed
            values |= {"checkpoint": ProcessingCheckpoint.COMPLETED.value, "progress": _FULL}
        statements = yield from self._statements()
        values = {part: value for part, value in values.items() if part in self.table.columns()}
        yield from self._held(row, statements.end(_key(row, self.table), self.worker_id, values))

    def _recover(self, limit: int, lost_after: timedelta) -> Command[Recovered]:
        statements = yield from self._statements()
        yield statements.notice()
        given = yield statements.give_back(self._timeout, lost_after.total_seconds(), self._most, limit)
        failed = [each.key for each in given if each.status == self.table.failed]
        return Recovered([each.key for each in given if each.status != self.table.failed], failed)

    # — refusals —

    def _held(self, row: Any, query: Query[str]) -> Generator[Query[Any], list[Any], None]:
        if not (yield query):
            found = yield from self._look(row)
            holder = f"held by {found.worker}" if found.worker else "held by nobody"
            raise LeaseLost(
                f"Row {_key(row, self.table)} of {self.table.name} is no longer ours: it is {found.status}, {holder}. "
                "Nothing was written.",
                next="Stop working on it, and commit nothing that you did for it.",
            )

    def _refusal(self, row: Any, found: Found) -> RowConflict | None:
        key, name = _key(row, self.table), self.table.name
        if found.status not in (self.table.processing, *self.table.waiting):
            return RowConflict(f"Row {key} of {name} has ended: it is {found.status}.", code="ended")
        if found.worker in (None, self.worker_id):
            return None
        if not found.silent:
            return self._busy(row, found)
        if found.attempts >= self._most:
            return RowConflict(
                f"Row {key} of {name} has been given to another worker {found.attempts} times.",
                code="exhausted",
                next="Find out what it does to its workers, then set its number of attempts back.",
            )
        return None

    def _busy(self, row: Any, found: Found) -> RowConflict:
        return RowConflict(
            f"Row {_key(row, self.table)} of {self.table.name} is held by {found.worker or 'somebody'}.",
            code="held",
            next=f"Try again later: it is free when its worker has been silent for {self._timeout:g} s.",
        )


class CheckpointManager(_Commands):
    """Checkpoints on a session or connection of SQLAlchemy, or a connection of psycopg.

    A row is an object of your ORM, a mapping, or a key. Nothing is committed unless you ask for it: with *commit* each
    call ends with a commit, or with a rollback when it raises.
    """

    def can_resume(self, row: Any) -> bool:
        """Whether there is a stage to continue from, and no live worker but us holds the row."""
        return self._run(self._resumable(row))

    def get_resume_checkpoint(self, row: Any) -> str:
        """Acquire the row, and return its last saved stage. Raises RowConflict when another
        holds it, or it has ended.
        """
        return self._run(self._take(row), changed=row)

    def get_resume_data(self, row: Any) -> dict[str, Any]:
        """The data saved to resume with."""
        return self._run(self._data(row))

    def start_processing(self, row: Any, *, afresh: bool = False) -> None:
        """Acquire the row. Existing stages and data stay, unless *afresh*: paid work is not discarded."""
        self._run(self._take(row, afresh=afresh), changed=row)

    def save_checkpoint(
        self,
        row: Any,
        checkpoint: object,
        progress_percentage: float | None = None,
        resume_data: Mapping[str, Any] | None = None,
    ) -> None:
        """Save a stage, and merge *resume_data* into the existing data. Raises LeaseLost when the
        row is no longer ours.
        """
        self._run(self._save(row, checkpoint, progress_percentage, resume_data), changed=row)

    def update_heartbeat(self, row: Any) -> None:
        """Renew the heartbeat. Raises LeaseLost when the row is no longer ours."""
        self._run(self._beat(row))

    def complete_processing(self, row: Any, status: object, error_message: str | None = None) -> None:
        """End with *status*, and release the row. Raises LeaseLost when it is no longer ours."""
        self._run(self._complete(row, status, error_message), changed=row)

    def recover_stuck(self, limit: int = 100, lost_after: timedelta = timedelta(hours=1)) -> Recovered:
        """Recover rows from silent workers, and rows that waited for *lost_after*, whose message is lost."""
        return self._run(self._recover(limit, lost_after))

    def _run(self, command: Command[T], changed: object = None) -> T:
        try:
            done = run_on_sync(self._db, command)
            if names := _attributes(self._db, changed, self.table):
                self._db.refresh(changed, attribute_names=names)
            if self._commit:
                self._db.commit()
        except BaseException:
            if self._commit:
                with suppress(Exception):  # a lost connection has rolled back, and the first error is the one to raise
                    self._db.rollback()
            raise
        return done


class AsyncCheckpointManager(_Commands):
    """The same on an async session or connection of SQLAlchemy, or an async connection of psycopg or asyncpg."""

    async def can_resume(self, row: Any) -> bool:
        """Whether there is a stage to continue from, and no live worker but us holds the row."""
        return await self._run(self._resumable(row))

    async def get_resume_checkpoint(self, row: Any) -> str:
        """Acquire the row, and return its last saved stage. Raises RowConflict when another
        holds it, or it has ended.
        """
        return await self._run(self._take(row), changed=row)

    async def get_resume_data(self, row: Any) -> dict[str, Any]:
        """The data saved to resume with."""
        return await self._run(self._data(row))

    async def start_processing(self, row: Any, *, afresh: bool = False) -> None:
        """Acquire the row. Existing stages and data stay, unless *afresh*: paid work is not discarded."""
        await self._run(self._take(row, afresh=afresh), changed=row)

    async def save_checkpoint(
        self,
        row: Any,
        checkpoint: object,
        progress_percentage: float | None = None,
        resume_data: Mapping[str, Any] | None = None,
    ) -> None:
        """Save a stage, and merge *resume_data* into the existing data. Raises LeaseLost when the
        row is no longer ours.
        """
        await self._run(self._save(row, checkpoint, progress_percentage, resume_data), changed=row)

    async def update_heartbeat(self, row: Any) -> None:
        """Renew the heartbeat. Raises LeaseLost when the row is no longer ours."""
        await self._run(self._beat(row))

    async def complete_processing(self, row: Any, status: object, error_message: str | None = None) -> None:
        """End with *status*, and release the row. Raises LeaseLost when it is no longer ours."""
        await self._run(self._complete(row, status, error_message), changed=row)

    async def recover_stuck(self, limit: int = 100, lost_after: timedelta = timedelta(hours=1)) -> Recovered:
        """Recover rows from silent workers, and rows that waited for *lost_after*, whose message is lost."""
        return await self._run(self._recover(limit, lost_after))

    async def _run(self, command: Command[T], changed: object = None) -> T:
        try:
            done = await run_on(self._db, command)
            if names := _attributes(self._db, changed, self.table):
                await self._db.refresh(changed, attribute_names=names)
            if self._commit:
                await self._db.commit()
        except BaseException:
            if self._commit:
                with suppress(Exception):
                    await self._db.rollback()
            raise
        return done


def _state(row: Any) -> Any:
    """SQLAlchemy's state of an ORM object; None for anything else."""
    return getattr(row, "_sa_instance_state", None)


def _key(row: Any, table: Table) -> Any:
    state = _state(row)
    if state is not None:
        if state.mapper.local_table.name != table.name:
            raise ConfigurationError(
                f"A {type(row).__name__} is a row of {state.mapper.local_table.name}, and not of {table.name}.",
                next="Pass table=Table(name=…) for the table that it belongs to.",
            )
        if state.identity is None:
            raise ConfigurationError(f"This {type(row).__name__} is not in the database yet.", next="Flush it before.")
        return state.identity[0]  # known without a query, which an async session could not make here
    if isinstance(row, Mapping):
        return row[table.key]
    return getattr(row, table.key, row)


def _attributes(db: Any, row: Any, table: Table) -> list[str]:
    """The attributes of an ORM object that we write: without a refresh the object would show the old values."""
    state = _state(row)
    if state is None or not hasattr(db, "refresh") or row not in db:
        return []
    columns = set(table.columns().values()) - {table.key}
    return [each.key for each in state.mapper.column_attrs if {column.name for column in each.columns} & columns]


def _text(word: object) -> str:
    value = word.value if isinstance(word, Enum) else word
    if not isinstance(value, str):
        raise ConfigurationError(f"{word!r} is not a text.", next="Pass a text, or an enumeration of texts.")
    return str(value)


def _json(data: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(data), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Unstorable(f"What is to be resumed with cannot be kept as JSON: {error}.") from error
