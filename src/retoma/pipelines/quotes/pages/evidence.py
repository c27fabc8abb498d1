"""Evidence as it was kept: the page or answer of a price itself and its picture, and the photograph of the item."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.errors import NotFound
from retoma.pipelines.quotes.http.kept import sent
from retoma.pipelines.quotes.images import MOST_OF_ITEM
from retoma.pipelines.quotes.model import Source
from retoma.pipelines.quotes.pages.context import CONTENT, Library, Number, led
from retoma.pipelines.quotes.reports import Reports
from retoma.web.api.schemas.requests import Id
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.quotas import submitted
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/itens/{id}", route_class=PageRoute)

Part = Annotated[Id, Path()]


@router.get("/fontes/{source}/evidencia")
@needs(CONTENT, limited=True)
async def show_evidence(id: Number, source: Part, library: Library, visit: Here) -> Response:
    """What was read, byte for byte: its SHA-256 is that of the report."""
    found = await _source(library, visit, id, source)
    kind = found.evidence_kind or "text/html"
    return await sent(visit, found.evidence_blob, kind, f"fonte-{source}", inline=False)


@router.get("/fontes/{source}/captura")
@needs(CONTENT, limited=True)
async def show_screenshot(id: Number, source: Part, library: Library, visit: Here) -> Response:
    """The picture of the page."""
    found = await _source(library, visit, id, source)
    return await sent(visit, found.screenshot_file_id, "image/png", f"fonte-{source}", inline=True)


@router.get("/imagem")
@needs(CONTENT, limited=True)
async def show_image(
    id: Number, library: Library, visit: Here, numero: Annotated[int, Query(ge=1, le=MOST_OF_ITEM)] = 1
) -> Response:
    """A photograph of the item, byte for byte as it was sent."""
    visit.may(CONTENT)  # so that the audit has it
    images = (await library.quote(id)).images
    if numero > len(images):
        raise NotFound(f"Quote {id} has no image {numero}.")
    image = images[numero - 1]
    return await sent(visit, image.blob, image.kind, f"item-{id}-{numero}", inline=True)


@router.post("/fontes/{source}/captura")
@needs("operate", limited=True)
async def retake_screenshot(id: Number, source: Part, library: Library, visit: Here, request: Request) -> Response:
    """Have the picture of a page taken that has none."""
    job = await Reports(library.app).retake(id, source, by=visit.caller, conn=visit.conn)
    await submitted(request, "job", [job])
    return led(request, f"/itens/{id}?dito=retaking")


async def _source(library: Library, visit: Visit, id: int, source: int) -> Source:
    visit.may(CONTENT)  # so that the audit has it
    for each in await library.sources(id):
        if each.id == source:
            return each
    raise NotFound(f"Quote {id} has no source {source}.")
