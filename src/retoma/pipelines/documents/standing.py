"""How a document stands, for the audit, as a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from retoma.store.query import Query, load

SQL = load("retoma.pipelines.documents.queries", "standing.sql")

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def document(id: str) -> Query[str]:
    return Query(SQL["document"], str, {"id": id if _UUID.fullmatch(id) else None})


KINDS: Mapping[str, Callable[[str], Query[str]]] = {"document": document}
