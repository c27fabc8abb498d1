"""The screen of the classifier: new lots, my lots, prompts, a quick test, and the page of an execution."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from retoma.web.classification import is_for
from retoma.web.pages.classifier_desk import ROOT
from retoma.web.pages.classifier_lots import router as lots
from retoma.web.pages.classifier_prompts import router as prompts
from retoma.web.pages.classifier_runs import router as runs
from retoma.web.pages.classifier_trial import router as trial
from retoma.web.pages.entry import Entry, PageDoor
from retoma.web.pages.languages import base_of
from retoma.web.visits import needs

__all__ = ["ENTRY", "is_for", "router"]

ENTRY = Entry(f"{ROOT}/", "nav.classification")

router = APIRouter(route_class=PageDoor, include_in_schema=False)


@router.get(ROOT)
@needs("read", limited=True)
async def show_classifier(request: Request) -> Response:
    """The address as people type it leads to the one that is right."""
    return RedirectResponse(f"{base_of(request)}{ROOT}/", 307)


for each in (lots, runs, prompts, trial):
    router.include_router(each, prefix=ROOT)
