"""The evidence of a price as it was kept: the page or answer itself, and its picture."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from retoma.errors import NotFound
from retoma.pipelines.quotes.http.kept import sent
from retoma.pipelines.quotes.model import Source
from retoma.pipelines.quotes.pages.context import CONTENT, Library, Number
from retoma.web.api.schemas.requests import Id
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/itens/{id}/fontes/{source}", route_class=PageRoute)

Part = Annotated[Id, Path()]


@router.get("/evidencia")
@needs(CONTENT, limited=True)
async def show_evidence(id: Number, source: Part, library: Library, visit: Here) -> Response:
    """What was read, byte for byte: its SHA-256 is that of the report."""
    found = await _source(library, visit, id, source)
    kind = found.evidence_kind or "text/html"
    return await sent(visit, found.evidence_blob, kind, f"fonte-{source}", inline=False)


@router.get("/captura")
@needs(CONTENT, limited=True)
async def show_screenshot(id: Number, source: Part, library: Library, visit: Here) -> Response:
    """The picture of the page."""
    found = await _source(library, visit, id, source)
    return await sent(visit, found.screenshot_file_id, "image/png", f"fonte-{source}", inline=True)


async def _source(library: Library, visit: Visit, id: int, source: int) -> Source:
    visit.may(CONTENT)  # so that the audit has it
    for each in await library.sources(id):
        if each.id == source:
            return each
    raise NotFound(f"Quote {id} has no source {source}.")
