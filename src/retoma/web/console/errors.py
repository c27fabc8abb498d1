"""Errors: what failed lately in any batch, in groups of equal errors; one action for a whole group."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from retoma.web.console.render import console_page
from retoma.web.console.speaking import as_csv, views_of
from retoma.web.http.auth import Here, needs
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

CONTENT = "content:read"
WINDOWS = (24, 168, 720)

Hours = Annotated[Literal["24", "168", "720"], Query()]
Pipeline = Annotated[str, Query(max_length=200)]


@router.get("/errors")
@needs("read", limited=True)
async def list_errors(visit: Here, request: Request, hours: Hours = "24", pipeline: Pipeline = "") -> Response:
    """What failed lately, the largest group first."""
    groups = await visit.app.jobs.errors(hours=float(hours), pipeline=visit.only(pipeline or None))
    return console_page(
        request,
        "errors.html",
        current="errors",
        groups=groups,
        jobs=sum(each.jobs for each in groups),
        fresh=sum(each.new for each in groups),
        most=max((each.jobs for each in groups), default=0),
        hours=hours,
        windows=WINDOWS,
        pipeline=pipeline,
        content=visit.may(CONTENT),
        views=await views_of(visit, "errors"),
    )


@router.get("/errors/csv")
@needs("read", limited=True)
async def export_errors(visit: Here, hours: Hours = "24", pipeline: Pipeline = "") -> Response:
    """The same groups as a table."""
    groups = await visit.app.jobs.errors(hours=float(hours), pipeline=visit.only(pipeline or None))
    content = visit.may(CONTENT)
    rows = [
        (
            each.fingerprint,
            each.kind,
            each.example if content else None,
            each.reason,
            each.step,
            each.provider,
            each.jobs,
            each.batches,
            each.first_at.isoformat(),
            each.last_at.isoformat(),
            each.new,
        )
        for each in groups
    ]
    heads = ("fingerprint", "class", "error", "reason", "step", "provider", "jobs", "batches", "first", "last", "new")
    return as_csv("errors.csv", heads, rows)
