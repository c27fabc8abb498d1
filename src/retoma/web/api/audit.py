"""The audit, for those who may see everything: who did what, when and from where."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from retoma.app.access.audit import Audited
from retoma.app.access.keys import ADMIN
from retoma.web.api.schemas import requests
from retoma.web.api.schemas.responses import Schema
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/audit", tags=["audit"], route_class=ApiRoute)

Outcome = Literal["begun", "done", "failed", "looked", "refused"]
Concerned = Annotated[str, Field(pattern=r"^[a-z]{1,40}(:.{1,200})?$")]


class AuditFilter(requests.Wanted):
    """Which rows: *who* is a key's id or name, *object* a kind or kind:id, such as batch:42."""

    who: requests.Text | None = None
    action: requests.Text | None = None
    object: Concerned | None = None
    outcome: Outcome | None = None
    since: requests.Moment | None = None
    until: requests.Moment | None = None
    cursor: requests.Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), requests.WHOLE] = 50


class Trail(Schema):
    """Rows of the audit, the newest first."""

    audit: list[Audited]
    next: str | None


@router.get("")
@needs(ADMIN)
async def list_audit(
    wanted: Annotated[AuditFilter, Query()], visit: Here, request: Request, response: Response
) -> Trail:
    """Who did what. Every change, every look at content and every refused key, the newest first."""
    found = await visit.app.audit.page(
        who=wanted.who,
        action=wanted.action,
        object=wanted.object,
        outcome=wanted.outcome,
        since=wanted.since,
        until=wanted.until,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return Trail(audit=page, next=following)
