"""Errors over all batches, a search, and the views that people save."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.app.access.keys import ADMIN
from retoma.web.api.schemas import operations as shapes
from retoma.web.api.schemas import requests
from retoma.web.http.auth import Here, needs
from retoma.web.http.route import ApiRoute

router = APIRouter(tags=["finding"], route_class=ApiRoute)

CONTENT = "content:read"


@router.get("/errors")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_all_errors(wanted: Annotated[shapes.ErrorWindow, Query()], visit: Here) -> shapes.Failures:
    """What failed in the last hours in any batch, by what is the same in the errors. Those that are ``new`` were not
    there before. Their words are there with the scope ``content:read``.
    """
    found = await visit.app.jobs.errors(hours=wanted.hours, pipeline=visit.only(wanted.pipeline), limit=wanted.limit)
    content = visit.may(CONTENT)
    return shapes.Failures(errors=[shapes.FailureGroup.of(each, content=content) for each in found])


@router.get("/search")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def search_all(wanted: Annotated[shapes.SearchText, Query()], visit: Here, request: Request) -> shapes.SearchHits:
    """Jobs and batches by id, jobs by key, by the name of a file at the end of their key, and by correlation id."""
    found = await visit.app.jobs.search(wanted.q, pipeline=visit.only(wanted.pipeline))
    base = request.url.path.removesuffix("/search")
    nouns = {"job": "jobs", "batch": "batches"}
    return shapes.SearchHits(
        hits=[
            shapes.SearchHit(
                kind=each.kind,
                id=each.id,
                by=each.by,
                title=each.title,
                state=each.state,
                pipeline=each.pipeline,
                url=f"{base}/{nouns[each.kind]}/{each.id}",
            )
            for each in found
        ]
    )


@router.get("/views")
@needs("read", limited=True)
async def list_views(wanted: Annotated[shapes.ViewList, Query()], visit: Here) -> shapes.Views:
    """The caller's own saved views, and those that everybody shares."""
    found = await visit.app.system.views(visit.caller, page=wanted.page)
    return shapes.Views(views=[shapes.SavedView.of(each) for each in found])


@router.post("/views", status_code=201)
@needs("operate", limited=True)
async def keep_view(new: shapes.NewView, visit: Here, request: Request, response: Response) -> shapes.SavedView:
    """Keep the query of a page under a name, for oneself or shared. One's own view of that name is replaced."""
    kept = await visit.app.system.keep_view(
        new.name, page=new.page, query=new.query, owner=visit.caller, shared=new.shared, conn=visit.conn
    )
    response.headers["Location"] = f"{request.url.path}/{kept.id}"
    return shapes.SavedView.of(kept)


@router.delete("/views/{id}", status_code=204)
@needs("operate", limited=True)
async def remove_view(id: Annotated[requests.Id, Path()], visit: Here, _body: requests.Nothing | None = None) -> None:
    """Remove a view: one's own; with ``admin``, anybody's."""
    owner = None if visit.may(ADMIN) else visit.caller
    await visit.app.system.remove_view(id, owner=owner, conn=visit.conn)
