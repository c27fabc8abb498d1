"""What the API answers and no value of an app has, and how answers become values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from retoma.model.batch import BatchState
from retoma.model.ids import BatchId, JobId
from retoma.model.machine import DutyRound, TableSize
from retoma.model.review import Agreed
from retoma.model.upkeep import Overstay

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Made:
    """A batch that was made."""

    id: BatchId
    state: BatchState
    total: int | None


@dataclass(frozen=True, slots=True)
class Done:
    """What a resume, a retry or a restart did. *word* says why nothing was done, when *changed* is False."""

    id: BatchId
    changed: bool
    word: str
    jobs: int
    state: BatchState
    resumes: int
    max_resumes: int
    epoch: int
    operation_id: int | None


@dataclass(frozen=True, slots=True)
class Filled:
    """How many jobs were added to a batch, and how many were there already under their keys."""

    added: int
    known: int


@dataclass(frozen=True, slots=True)
class Queued:
    """A job that was queued."""

    id: JobId


@dataclass(frozen=True, slots=True)
class Repriced:
    """Calls of unknown cost that have a cost now, and the call after which the next piece begins."""

    calls: int
    cost: Decimal
    left: int
    after: int | None


@dataclass(frozen=True, slots=True)
class Audited:
    """A row of the audit: who did what to what, when and from where."""

    id: int
    at: datetime
    who: str
    name: str | None
    via: str
    address: str | None
    route: str
    action: str
    object_kind: str | None
    object_id: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    correlation_id: str | None
    outcome: str
    times: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often people kept what was proposed: by pipeline, label and version, and by tenth of the confidence."""

    decided: int
    agreed: int
    labels: list[Agreed]
    tenths: list[Agreed]

    def by_label(self) -> list[Agreed]:
        """One row for each pipeline, label and version."""
        return self.labels

    def by_tenth(self) -> list[Agreed]:
        """One row for each tenth of the confidence, of those that have one."""
        return self.tenths


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor looked at: green, amber or red, what was seen, and the fix."""

    level: str
    what: str
    seen: str
    next: str


@dataclass(frozen=True, slots=True)
class SystemState:
    """Versions, sizes, retention, the watchdog's rounds, and how busy the server process that answered is."""

    version: str
    revision: str | None
    needed_revision: str
    database_bytes: int
    retention_days: float
    streams: int
    pool_open: int
    pool_idle: int
    pool_most: int
    pool_waiting: int
    tables: list[TableSize]
    rounds: list[DutyRound]
    overstays: list[Overstay]


@dataclass(frozen=True, slots=True)
class News:
    """A piece of news of a stream: its kind, and its number in the story of the batch, if it has one."""

    event: str
    id: int | None
    data: dict[str, Any]


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def value_of(kind: type[T], told: Mapping[str, Any], **more: Any) -> T:
    """The value of *kind* that the API has *told*, with what an answer leaves out because the question says it. Fields
    that this version does not know are left aside.
    """
    return cast(T, _adapter(cast(Any, kind)).validate_python({**told, **more}))


def values_of(kind: type[T], told: Iterable[Mapping[str, Any]], **more: Any) -> list[T]:
    """The same of many."""
    return [value_of(kind, each, **more) for each in told]


def as_text(told: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """*told* with the JSON values under *names* as text, as the tables keep them. An input is never missing: what the
    key may not see is null.
    """
    kept = dict(told)
    for name in names:
        value = told.get(name)
        kept[name] = json.dumps(value, ensure_ascii=False) if value is not None or name in ("input", "value") else None
    return kept


def given(**options: Any) -> dict[str, Any]:
    """Those of *options* that were given; the server has the defaults of the others."""
    return {name: _plain(value) for name, value in options.items() if value is not None}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value.isoformat() if isinstance(value, datetime) else value
