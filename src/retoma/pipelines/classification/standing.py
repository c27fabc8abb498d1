"""How the things of the classifier stand, for the audit, as queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from retoma.store.query import Query, load

SQL = load("retoma.pipelines.classification.queries", "standing.sql")


def _number(id: str) -> int | None:
    return int(id) if re.fullmatch(r"[0-9]{1,18}", id) else None


def prompt(id: str) -> Query[str]:
    return Query(SQL["prompt"], str, {"id": _number(id)})


def project(id: str) -> Query[str]:
    return Query(SQL["project"], str, {"id": _number(id)})


def code(id: str) -> Query[str]:
    return Query(SQL["code"], str, {"id": _number(id)})


def example(id: str) -> Query[str]:
    return Query(SQL["example"], str, {"id": _number(id)})


KINDS: Mapping[str, Callable[[str], Query[str]]] = {
    "prompt": prompt,
    "project": project,
    "code": code,
    "example": example,
}
