"""Sessions, as queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson

from retoma.pipelines.books.model import Held, Input, Session
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.books.queries", "sessions.sql")


def _price(cost: Decimal, words: Decimal) -> tuple[Decimal, int]:
    return Decimal(cost), int(words)


def _removed(input_sha256: str | None, job_id: int | None) -> tuple[str | None, int | None]:
    return input_sha256, job_id


def keep_input(given: Input) -> Query[str]:
    params = {
        "sha256": given.sha256,
        "filename": given.filename,
        "kind": given.kind,
        "size": given.size,
        "blob": given.blob,
    }
    return Query(SQL["keep_input"], str, params)


def input(sha256: str) -> Query[Input]:
    return Query(SQL["input"], Input, {"sha256": sha256})


def begin(
    id: str,
    *,
    title: str,
    input_sha256: str | None,
    configuration: Mapping[str, Any],
    configuration_hash: str,
    started_at: datetime | None = None,
    correlation_id: str | None = None,
    created_by: str | None = None,
) -> Query[str]:
    params = {
        "id": id,
        "title": title,
        "input_sha256": input_sha256,
        "configuration": orjson.dumps(configuration).decode(),
        "configuration_hash": configuration_hash,
        "started_at": started_at,
        "correlation_id": correlation_id,
        "created_by": created_by,
    }
    return Query(SQL["begin"], str, params)


def same(input_sha256: str, configuration_hash: str) -> Query[str]:
    params = {"input_sha256": input_sha256, "configuration_hash": configuration_hash}
    return Query(SQL["same"], str, params)


def hold(id: str) -> Query[Held]:
    return Query(SQL["hold"], Held, {"id": id})


def owned(id: str, job: int) -> Query[Held]:
    return Query(SQL["owned"], Held, {"id": id, "job": job})


def queue(id: str, job: int) -> Query[str]:
    return Query(SQL["queue"], str, {"id": id, "job": job})


def attach(id: str, input_sha256: str) -> Query[str]:
    return Query(SQL["attach"], str, {"id": id, "input_sha256": input_sha256})


def planned(
    id: str, *, detector: str, left_out: Sequence[Any], doubts: Sequence[Any], pages: int | None, reader: str | None
) -> Query[str]:
    params = {
        "id": id,
        "detector": detector,
        "left_out": orjson.dumps(left_out).decode(),
        "doubts": orjson.dumps(doubts).decode(),
        "pages": pages,
        "reader": reader,
    }
    return Query(SQL["planned"], str, params)


def arranged(id: str, *, detector: str, left_out: Sequence[Any]) -> Query[str]:
    params = {"id": id, "detector": detector, "left_out": orjson.dumps(left_out).decode()}
    return Query(SQL["arranged"], str, params)


def approve(id: str) -> Query[str]:
    return Query(SQL["approve"], str, {"id": id})


def finish(id: str, *, done: bool) -> Query[str]:
    return Query(SQL["finish"], str, {"id": id, "done": done})


def one(id: str) -> Query[Session]:
    return Query(SQL["one"], Session, {"id": id})


def page(*, before: int | None = None, limit: int = 50) -> Query[Session]:
    return Query(SQL["page"], Session, {"before": before, "limit": limit})


def remove(id: str) -> Query[tuple[str | None, int | None]]:
    return Query(SQL["remove"], _removed, {"id": id})


def remove_input(sha256: str) -> Query[str]:
    return Query(SQL["remove_input"], str, {"sha256": sha256})


def price(configuration_hash: str) -> Query[tuple[Decimal, int]]:
    return Query(SQL["price"], _price, {"configuration_hash": configuration_hash})
