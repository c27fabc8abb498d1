"""A table of the caller's: the meaning of its columns, and the statements over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from retoma.errors import ConfigurationError
from retoma.store.query import Query, array, load

_SQL = load("retoma.hosts", "caller_table.sql")

_CLOCKS = {
    "timestamp with time zone": "clock_timestamp()",
    "timestamp without time zone": "(clock_timestamp() at time zone 'UTC')",
}
_JSON = ("json", "jsonb")
_NOT_COLUMNS = ("name", "schema", "processing", "waiting", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Where checkpoints are stored: a table of yours, the columns that hold each part, and the values of its status.

    A column that your table does not have is None; the first seven are required.
    """

    name: str = "quote_requests"
    schema: str | None = None
    key: str = "id"
    status: str = "status"
    checkpoint: str = "processing_checkpoint"
    heartbeat: str = "last_heartbeat"
    worker: str = "worker_id"
    data: str = "resume_data"
    attempts: str = "attempt_number"
    started: str | None = "started_at"
    completed: str | None = "completed_at"
    progress: str | None = "progress_percentage"
    error: str | None = "error_message"
    processing: str = "PROCESSING"
    waiting: tuple[str, ...] = ("PENDING",)
    failed: str = "ERROR"

    def columns(self) -> dict[str, str]:
        """The part that each column holds, and the column's name."""
        named = ((each.name, getattr(self, each.name)) for each in fields(self) if each.name not in _NOT_COLUMNS)
        return {part: column for part, column in named if column is not None}


class Found(NamedTuple):
    """A row in its current state; *silent* when its worker has sent no heartbeat for too long."""

    status: str | None
    worker: str | None
    attempts: int
    checkpoint: str | None
    data: str | None
    silent: bool


class Given(NamedTuple):
    """A row that was released, by its key, and its status now."""

    key: Any
    status: str


class _Type(NamedTuple):
    name: str
    type: str


def types(table: Table) -> Query[_Type]:
    """The types of the table's columns, without lengths."""
    return Query(_SQL["types"], _Type, {"table": _place(table)})


class Statements:
    """The statements over one table, once the types of its columns are known."""

    def __init__(self, table: Table, types: Mapping[str, str]) -> None:
        columns = table.columns()
        if missing := sorted(column for column in columns.values() if column not in types):
            lacks = f"has no column {', '.join(missing)}" if types else "is not there"
            raise ConfigurationError(
                f"The table {table.name} {lacks}.",
                next="Pass table=Table(name=…, …), which says what your columns are called.",
            )
        self._table = table
        self._types = {part: types[column] for part, column in columns.items()}
        for part in ("heartbeat", "started", "completed"):
            self._must_be(part, tuple(_CLOCKS))
        self._must_be("data", _JSON)
        self._names = {part: _quoted(column) for part, column in columns.items()}
        self._fill = {
            **self._names,
            **{f"{part}_type": type for part, type in self._types.items()},
            "table": _place(table).replace("%", "%%"),
            "now": self._now("heartbeat"),
        }
        self._words = {"processing": table.processing, "waiting": array(table.waiting)}

    def _must_be(self, part: str, allowed: tuple[str, ...]) -> None:
        if part in self._types and self._types[part] not in allowed:
            raise ConfigurationError(
                f"The column {self._table.columns()[part]} of {self._table.name} is {self._types[part]}.",
                next=f"It must be {' or '.join(allowed)}.",
            )

    def look(self, key: object, timeout: float) -> Query[Found]:
        """The row in its current state."""
        return Query(_SQL["look"].format_map(self._fill), Found, {"key": key, "timeout": timeout})

    def take(self, key: object, me: str, timeout: float, most: int, *, first: str, afresh: bool) -> Query[str]:
        """Acquire the row, if no live worker holds it and attempts are left; returns its stage."""
        ours = f"{self._names['worker']} is null or {self._names['worker']}::text = %(me)s::text"
        stage, begun = self._parameter("checkpoint", "first"), self._now("started")
        changes = {
            "worker": self._parameter("worker", "me"),
            "status": self._parameter("status", "processing"),
            "heartbeat": self._now("heartbeat"),
            "attempts": f"coalesce({self._names['attempts']}, 0) + case when {ours} then 0 else 1 end",
            "checkpoint": stage if afresh else f"coalesce({self._names['checkpoint']}, {stage})",
            "started": begun if afresh else f"coalesce({self._names.get('started')}, {begun})",
            "completed": "null",
        }
        if afresh:
            changes |= {"data": "null", "progress": "0"}
        given = {"key": key, "me": me, "timeout": timeout, "most": most, "first": first}
        return self._query("take", str, changes, given | self._words)

    def save(self, key: object, me: str, values: Mapping[str, object], merged: str | None = None) -> Query[str]:
        """Write *values* and a heartbeat, and merge JSON into the data, while *me* holds the row."""
        changes = {part: self._parameter(part, part) for part in values} | {"heartbeat": self._now("heartbeat")}
        if merged is not None:
            kept = f"{self._names['data']}::jsonb"
            before = f"case when jsonb_typeof({kept}) = 'object' then {kept} else '{{}}'::jsonb end"
            changes["data"] = f"({before} || (%(merged)s::text)::jsonb)::{self._types['data']}"
        return self._query("write", str, changes, {**values, "merged": merged, "key": key, "me": me} | self._words)

    def end(self, key: object, me: str, values: Mapping[str, object]) -> Query[str]:
        """Write *values*, its status among them, and release the row, while *me* holds it."""
        changes = {part: self._parameter(part, part) for part in values}
        changes |= {"worker": "null", "heartbeat": self._now("heartbeat"), "completed": self._now("completed")}
        return self._query("write", str, changes, {**values, "key": key, "me": me} | self._words)

    def notice(self) -> Query[int]:
        """Give a heartbeat to rows that never had one, so that their silence has a start."""
        return self._query("notice", int, {}, self._words)

    def give_back(self, timeout: float, lost: float, most: int, limit: int) -> Query[Given]:
        """Recover rows from silent workers: to be enqueued again, or failed when their attempts are used up."""
        held, count = f"{self._names['worker']} is not null", f"coalesce({self._names['attempts']}, 0)"
        spent = f"{held} and {count} >= %(most)s::int"
        ends = {"status": self._parameter("status", "failed"), "completed": self._now("completed")}
        ends |= {"error": self._parameter("error", "why")}
        changes = {
            "worker": "null",
            "heartbeat": self._now("heartbeat"),
            "attempts": f"{count} + case when {held} and {count} < %(most)s::int then 1 else 0 end",
            **{part: f"case when {spent} then {end} else {self._names.get(part)} end" for part, end in ends.items()},
        }
        given = {"timeout": timeout, "lost": lost, "most": most, "limit": limit, "failed": self._table.failed}
        why = f"Its worker fell silent, and it had been given to another {most} times already."
        return self._query("give_back", Given, changes, given | {"why": why} | self._words)

    def _query(self, name: str, row: Any, changes: Mapping[str, str], params: Mapping[str, Any]) -> Query[Any]:
        said = ", ".join(f"{self._names[part]} = {value}" for part, value in changes.items() if part in self._names)
        sql = _SQL[name].format_map({**self._fill, "changes": said})
        # Only the parameters that the text names, because one of the drivers counts them.
        return Query(sql, row, {name: value for name, value in params.items() if f"%({name})s" in sql})

    def _parameter(self, part: str, name: str) -> str:
        return f"%({name})s::{self._types.get(part)}"

    def _now(self, part: str) -> str:
        return _CLOCKS.get(self._types.get(part, ""), "null")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def _place(table: Table) -> str:
    parts = [table.name] if table.schema is None else [table.schema, table.name]
    return ".".join('"' + each.replace('"', '""') + '"' for each in parts)
