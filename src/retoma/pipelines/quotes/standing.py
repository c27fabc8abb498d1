"""How a quote stands, for the audit, as a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from retoma.store.query import Query, load

SQL = load("retoma.pipelines.quotes.queries", "standing.sql")


def quote(id: str) -> Query[str]:
    return Query(SQL["quote"], str, {"id": int(id) if re.fullmatch(r"[0-9]{1,18}", id) else None})


KINDS: Mapping[str, Callable[[str], Query[str]]] = {"quote": quote}
