"""The audit: who did what, when and from where; with filters, page by page, and as a table for a spreadsheet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from retoma.app.access.audit import OUTCOMES, Audited
from retoma.app.access.keys import ADMIN
from retoma.web.console.costs import as_csv
from retoma.web.console.figures import machine_page
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.cursors import cursor_of, opened
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/audit", route_class=PageRoute)

_LIMIT, _MOST = 50, 200
_PAGES = 50
Text = Annotated[str, Query(max_length=240)]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows somebody asks for; a field that is empty does not filter."""

    who: str
    action: str
    object: str
    outcome: str
    since: str
    until: str

    @property
    def query(self) -> dict[str, str]:
        """The same as an address has it."""
        return {name: value for name, value in asdict(self).items() if value}

    async def rows(self, visit: Visit, *, before: int | None, limit: int) -> list[Audited]:
        """The rows, the newest first."""
        return await visit.app.audit.page(
            who=self.who or None,
            action=self.action or None,
            object=self.object or None,
            outcome=self.outcome or None,
            since=_moment(self.since),
            until=_moment(self.until),
            before=before,
            limit=limit,
        )


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def wanted_of(
    who: Text = "", action: Text = "", object: Text = "", outcome: Text = "", since: Text = "", until: Text = ""
) -> Wanted:
    """What the address asks for."""
    known = outcome if outcome in OUTCOMES else ""
    return Wanted(who.strip(), action.strip(), object.strip(), known, since.strip(), until.strip())


@router.get("")
@needs(ADMIN)
async def show_audit(
    visit: Here,
    request: Request,
    who: Text = "",
    action: Text = "",
    object: Text = "",
    outcome: Text = "",
    since: Text = "",
    until: Text = "",
    cursor: Text = "",
) -> Response:
    """Who did what."""
    wanted = wanted_of(who, action, object, outcome, since, until)
    found = await wanted.rows(visit, before=opened(cursor) if cursor else None, limit=_LIMIT + 1)
    page = found[:_LIMIT]
    return machine_page(
        request,
        "audit.html",
        current="audit",
        rows=[{"entry": each, "changes": changes(each)} for each in page],
        filters=wanted.query,
        outcomes=tuple(OUTCOMES),
        following=cursor_of(page[-1].id) if len(found) > _LIMIT else None,
    )


def changes(entry: Audited) -> list[tuple[str, str, str]]:
    """What was otherwise afterwards: the name, and how it stood before and after."""
    before, after = entry.before or {}, entry.after or {}
    names = [name for name in (*before, *after) if before.get(name) != after.get(name)]
    return [(name, _shown(before.get(name)), _shown(after.get(name))) for name in dict.fromkeys(names)]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@router.get("/csv")
@needs(ADMIN)
async def export_audit(
    visit: Here,
    who: Text = "",
    action: Text = "",
    object: Text = "",
    outcome: Text = "",
    since: Text = "",
    until: Text = "",
) -> Response:
    """The rows of the same filter, at most ten thousand."""
    wanted, rows, before = wanted_of(who, action, object, outcome, since, until), [], None
    for _ in range(_PAGES):
        page = await wanted.rows(visit, before=before, limit=_MOST)
        rows += page
        if len(page) < _MOST:
            break
        before = page[-1].id
    return as_csv("audit.csv", COLUMNS, ([_plain(getattr(each, name)) for name in COLUMNS] for each in rows))


COLUMNS = (
    "id", "at", "who", "name", "via", "address", "route", "action", "object_kind", "object_id", "outcome", "times",
    "correlation_id", "before", "after",
)  # fmt: skip


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
