"""Operations: one action on every job of any batch that a filter finds, with a dry run."""
# ruff: noqa: FAST003 - the operation that {id} names comes in as Found

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from retoma.model.batch import Operation
from retoma.web.api.schemas import operations as shapes
from retoma.web.api.schemas import requests
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/operations", tags=["operations"], route_class=ApiRoute)


async def _found(id: Annotated[requests.Id, Path()], visit: Here) -> Operation:
    operation = await visit.app.jobs.operation(id, conn=visit.conn)
    visit.see((operation.filter and operation.filter.pipeline) or "", f"operation {id}")
    return operation


Found = Annotated[Operation, Depends(_found)]
"""The operation that the path names, if the caller may see it."""


@router.post("", status_code=202, responses={200: {"model": shapes.DryRun, "description": "What it would do."}})
@needs("operate", limited=True, refuses=("pipelines_limited", "queue_reserved"))
async def begin_operation(
    new: shapes.NewOperation, visit: Here, request: Request, response: Response
) -> shapes.Operation | shapes.DryRun:
    """Do something to every job that the filter finds, in the background. With ``dry_run``, 200 says how many jobs that
    would be, with some of them, and nothing is changed. Jobs that it passes over are counted by reason.
    """
    which = new.filter.value(visit.only(new.filter.pipeline))
    how: dict[str, Any] = new.model_dump(include={"queue", "priority", "attempts", "reason"}, exclude_none=True)
    if new.dry_run:
        visit.unchanged = True
        response.status_code = 200
        return shapes.DryRun.told(await visit.app.jobs.dry_run(new.action, which, **how))
    begun = await visit.app.jobs.operate(new.action, which, by=visit.caller, wait=False, conn=visit.conn, **how)
    visit.noted.update(kind=new.action, filter=orjson.loads(which.text), **how)
    response.headers["Location"] = f"{request.url.path}/{begun.id}"
    return shapes.Operation.told(begun)


@router.get("")
@needs("read")
async def list_all_operations(
    wanted: Annotated[shapes.OperationList, Query()], visit: Here, request: Request, response: Response
) -> shapes.Operations:
    """Operations over all batches and on single ones, the newest first, and how far each has come."""
    found = await visit.app.jobs.operations(
        under_way=wanted.under_way,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return shapes.Operations(operations=[shapes.Operation.told(each) for each in page], next=following)


@router.get("/{id}")
@needs("read", limited=True)
async def get_operation(operation: Found) -> shapes.Operation:
    """An operation, and how far it has come."""
    return shapes.Operation.told(operation)


@router.post("/{id}/cancel")
@needs("operate", limited=True, refuses=("conflict",))
async def cancel_operation(
    id: Annotated[requests.Id, Path()], visit: Here, _body: requests.Nothing | None = None
) -> shapes.Operation:
    """End an operation. What it has done stays done. That of a batch ends with its batch."""
    operation = await _found(id, visit)
    return shapes.Operation.told(await visit.app.jobs.cancel_operation(operation.id, conn=visit.conn))
