"""Re-planning a batch: another configuration for the jobs that have not begun, and how the cohorts compare."""
# ruff: noqa: FAST003 - the batch that {id} names comes in as Found

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from retoma.app.retoma import Retoma
from retoma.web.api.batches import CONTENT, Found, told
from retoma.web.api.schemas import batch_figures as shapes
from retoma.web.api.schemas import batch_requests
from retoma.web.api.schemas.batches import Resumed
from retoma.web.http.auth import Here, needs
from retoma.web.http.errors import Refusal
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/batches", tags=["batches"], route_class=ApiRoute)


def takes_any(app: Retoma, pipeline: str) -> bool:
    """Whether anybody may say the configuration of its batches; that of a product is made by the product."""
    return not (pipeline in app.registry.own and app.registry.pipeline(pipeline).internal)


def page_to_replan(app: Retoma, pipeline: str) -> str | None:
    """The path, with ``{id}``, of the page on which a product re-plans its batches."""
    for each in app.extensions:
        if each.replans and any(pipeline == own.name for own in each.load_pipelines()):
            return each.replans
    return None


@router.get("/{id}/cohorts")
@needs("read", limited=True)
async def list_cohorts(batch: Found, visit: Here) -> shapes.Cohorts:
    """The configurations of a batch, and how the jobs went that ran under each: failures, cost, time, reviews and the
    agreement of people. A configuration is there with the scope ``content:read``.
    """
    content = visit.may(CONTENT)
    found = await visit.app.batches.cohorts(batch.id)
    return shapes.Cohorts(cohorts=[shapes.Cohort.of(each, content=content) for each in found])


@router.post("/{id}/replan", status_code=202)
@needs("operate", limited=True, refuses=("operation_running", "conflict", "value_unstorable", "pipeline_internal"))
async def replan_batch(
    batch: Found, new: batch_requests.Replan, visit: Here, request: Request, response: Response
) -> Resumed:
    """Another configuration for the jobs that have not begun. They are a cohort of their own; those that have begun go
    on under theirs, and what was paid stays paid.
    """
    if not takes_any(visit.app, batch.pipeline):
        raise Refusal("pipeline_internal", pipeline=batch.pipeline)
    visit.noted.update({"note": new.note} if new.note else {})
    done = await visit.app.batches.replan(
        batch.id, configuration=new.configuration, note=new.note, by=visit.caller, wait=False, conn=visit.conn
    )
    return told(done, request, response)
