"""The screen of the classifier: new lots, my lots, prompts, a quick test, and the page of an execution."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from retoma.pipelines.classification.pages.context import ROOT
from retoma.pipelines.classification.pages.context import router as desk
from retoma.pipelines.classification.pages.lots import router as lots
from retoma.pipelines.classification.pages.prompts import router as prompts
from retoma.pipelines.classification.pages.runs import router as runs
from retoma.pipelines.classification.pages.trial import router as trial
from retoma.web.http.auth import needs
from retoma.web.pages.languages import base_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(ROOT)
@needs("read", limited=True)
async def show_classifier(request: Request) -> Response:
    """The address as people type it leads to the one that is right."""
    return RedirectResponse(f"{base_of(request)}{ROOT}/", 307)


for each in (desk, lots, runs, prompts, trial):
    router.include_router(each, prefix=ROOT)
