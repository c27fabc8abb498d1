"""The screens of quotes: a new quote or list, the quotes, the batches, one of each."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from retoma.pipelines.quotes.pages.bank import router as bank
from retoma.pipelines.quotes.pages.batches import router as batches
from retoma.pipelines.quotes.pages.context import ROOT
from retoma.pipelines.quotes.pages.decisions import router as decisions
from retoma.pipelines.quotes.pages.evidence import router as evidence
from retoma.pipelines.quotes.pages.items import router as items
from retoma.pipelines.quotes.pages.new import router as new
from retoma.web.http.auth import needs
from retoma.web.pages.languages import base_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(ROOT)
@needs("read", limited=True)
async def show_quotes(request: Request) -> Response:
    """The address as people type it leads to the one that is right."""
    return RedirectResponse(f"{base_of(request)}{ROOT}/", 307)


for each in (new, items, decisions, evidence, batches, bank):
    router.include_router(each, prefix=ROOT)
