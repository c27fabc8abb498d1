"""Several queries in one statement: what a page or a check wants to know at once takes one way to the server."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter

from retoma.store.query import PARAMETER, Query


def together(*queries: Query[Any]) -> Query[tuple[list[Any], ...]]:
    """The rows of each of *queries*, in their order, read in one snapshot. They travel as JSON, so that this is for
    small results.
    """
    # Two queries may call different values by one name, so each has names of its own.
    params = {f"{name}_{place}": value for place, each in enumerate(queries) for name, value in each.params.items()}
    parts = [_part(PARAMETER.sub(rf"%(\1_{place})s", each.sql)) for place, each in enumerate(queries)]
    rows = [each.row for each in queries]

    def read(*texts: str) -> tuple[list[Any], ...]:
        return tuple(_read(row, text) for row, text in zip(rows, texts, strict=True))

    return Query("select " + ",\n".join(parts), read, params)


def _part(sql: str) -> str:
    whole = sql.rstrip().rstrip(";")
    # A line of its own for the end: the last one may be a comment.
    return f"(select coalesce(json_agg(row_to_json(part)), '[]')::text from (\n{whole}\n) as part)"  # noqa: S608 - ours


def _read(row: Callable[..., Any], text: str) -> list[Any]:
    found: list[Any] = _adapter(row).validate_python(orjson.loads(text))
    return found


@cache
def _adapter(row: Callable[..., Any]) -> TypeAdapter[Any]:
    return TypeAdapter(list[row])  # type: ignore[valid-type]
