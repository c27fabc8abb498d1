"""The rows of a session's checkpoints, judged anew: what is invalid is marked, kept, and never used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from retoma.app.fetch import fetch
from retoma.pipelines.books import checkpoints
from retoma.pipelines.books.model import Row
from retoma.pipelines.books.search import Candidate, Search, search
from retoma.pipelines.books.verdicts import Expected


@dataclass(frozen=True, slots=True)
class Found:
    """What the rows of a session come to."""

    search: Search
    versions: dict[str, int]
    """How many checkpoints each chapter has, valid or not."""
    set_aside: int
    """How many were valid until this look."""


async def judged_rows(connection: object, expected: Expected, numbers: Sequence[str]) -> Found:
    """Judge every row of a session; the session's row is locked by the caller. *numbers* are the chapters in order."""
    assert expected.session_id is not None
    rows = await fetch(connection, checkpoints.of(expected.session_id))
    by_name = {str(row.id): row for row in rows}
    # A row that was set aside stays so, whatever it looks like today.
    found = search([candidate(row) for row in rows if row.verdict == "valid"], chapters=numbers, expected=expected)
    if rows and found.outcome == "no_checkpoint":
        found = replace(found, outcome="none_valid")
    for each in found.invalid:
        await fetch(connection, checkpoints.set_aside(by_name[each.candidate.name].id, each.verdict.faults[0]))
    return Found(found, dict(Counter(row.chapter_number for row in rows)), len(found.invalid))


def candidate(row: Row) -> Candidate:
    """A row, for the search."""
    return Candidate(
        name=str(row.id), body=bytes(row.body), chapter_number=row.chapter_number, written_at=row.created_at
    )
