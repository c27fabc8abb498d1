"""What the pages are measured among, as queries."""

from __future__ import annotations

from retoma.store.query import Query, load

SQL = load("retoma.bench.queries", "page_figures.sql")

Row = tuple[object, ...]


def _row(*columns: object) -> Row:
    return columns


def _named(name: str, definition: str) -> tuple[str, str]:
    return name, definition


def fill_batches(number: int, each: int) -> Query[Row]:
    return Query(SQL["fill_batches"], _row, {"number": number, "each": each})


def fill_waiting(jobs: int) -> Query[Row]:
    return Query(SQL["fill_waiting"], _row, {"jobs": jobs})


def fill_failed(jobs: int) -> Query[Row]:
    return Query(SQL["fill_failed"], _row, {"jobs": jobs})


def fill_review(jobs: int) -> Query[Row]:
    return Query(SQL["fill_review"], _row, {"jobs": jobs})


def fill_history(jobs: int) -> Query[Row]:
    return Query(SQL["fill_history"], _row, {"jobs": jobs})


def half_way(id: int) -> Query[Row]:
    return Query(SQL["half_way"], _row, {"id": id})


def fill_calls(calls: int, id: int) -> Query[Row]:
    return Query(SQL["fill_calls"], _row, {"calls": calls, "id": id})


def indexes(name: str) -> Query[tuple[str, str]]:
    return Query(SQL["indexes"], _named, {"name": name})
