"""How quotes and the price bank stand, for the audit, as queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from retoma.store.query import Query, load

SQL = load("retoma.pipelines.quotes.queries", "standing.sql")


def _number(id: str) -> int | None:
    return int(id) if re.fullmatch(r"[0-9]{1,18}", id) else None


def quote(id: str) -> Query[str]:
    return Query(SQL["quote"], str, {"id": _number(id)})


def vehicle(id: str) -> Query[str]:
    return Query(SQL["vehicle"], str, {"id": _number(id)})


def bank_update(id: str) -> Query[str]:
    return Query(SQL["bank_update"], str, {"id": _number(id)})


KINDS: Mapping[str, Callable[[str], Query[str]]] = {"quote": quote, "vehicle": vehicle, "bank-update": bank_update}
