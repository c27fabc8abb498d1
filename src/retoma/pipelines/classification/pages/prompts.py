"""Prompts: all of them, a new one, one changed into its next version, one taken out of the lists."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.errors import ConfigurationError, Conflict
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import SavedPrompt
from retoma.pipelines.classification.pages.context import CONTENT, ROOT, Library, shown
from retoma.pipelines.classification.pages.lots import prompts_of
from retoma.web.api.schemas.requests import Id
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/prompts", route_class=PageRoute)

_LARGEST_FORM = 1_000_000
_UNFIT = 422

Number = Annotated[Id, Path()]


@router.get("")
@needs("read", limited=True)
async def list_prompts(
    library: Library, request: Request, dito: Annotated[Literal["", "off"], Query()] = ""
) -> Response:
    """The prompts that are in use, by name."""
    return await shown(request, library, "prompts", "prompts", prompts=await prompts_of(library), said=dito)


@router.get("/novo")
@needs("submit", limited=True)
async def show_new_prompt(library: Library, request: Request) -> Response:
    """An empty form."""
    return await _form(library, request, None)


@router.get("/{id}")
@needs("read", limited=True)
async def show_prompt(
    id: Number, library: Library, request: Request, dito: Annotated[Literal["", "saved"], Query()] = ""
) -> Response:
    """A prompt as it stands, with every text it had."""
    return await _form(library, request, await library.prompt(id), saved=bool(dito))


@router.post("")
@needs("submit", limited=True, streamed=True)
async def create_prompt(library: Library, visit: Here, request: Request) -> Response:
    """Keep a new prompt."""
    return await _saved(library, visit, request, None)


@router.post("/{id}")
@needs("submit", limited=True, streamed=True)
async def change_prompt(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """Another name or text: the text becomes a version of its own."""
    prompt = await library.prompt(id)
    return await _saved(library, visit, request, prompt, content=visit.may(CONTENT))


@router.post("/{id}/desativar")
@needs("submit", limited=True)
async def archive_prompt(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """Take a prompt out of the lists."""
    await library.archive_prompt(id, conn=visit.conn)
    return RedirectResponse(f"{base_of(request)}{ROOT}/prompts?dito=off", 303)


async def _saved(
    library: Classification, visit: Visit, request: Request, prompt: SavedPrompt | None, *, content: bool = True
) -> Response:
    said = await fields_of(request, largest=_LARGEST_FORM)
    # Browsers write the ends of lines with two characters; the text is what it was before.
    written = {
        "name": said.get("name", ""),
        "description": said.get("description", ""),
        "content": said.get("content", "").replace("\r\n", "\n"),
    }
    given = dict(written)
    if not content:
        given.pop("content")  # whoever may not read it cannot have changed it

    async def save(record: Recording) -> SavedPrompt:
        async with visit.app.transaction() as conn:
            if prompt is None:
                kept = await library.create_prompt(given.pop("name"), given.pop("content"), **given, conn=conn)
            else:
                kept = await library.change_prompt(prompt.id, **given, conn=conn)
            await record(conn, kept.id)
        return kept

    try:
        kept = await recorded(visit, save)
    except (ConfigurationError, Conflict) as error:
        return await _form(
            library, request, prompt, given=written, taken=isinstance(error, Conflict), wrong=error.message
        )
    return RedirectResponse(f"{base_of(request)}{ROOT}/prompts/{kept.id}?dito=saved", 303)


async def _form(
    library: Classification,
    request: Request,
    prompt: SavedPrompt | None,
    *,
    given: dict[str, Any] | None = None,
    taken: bool = False,
    wrong: str = "",
    saved: bool = False,
) -> Response:
    response = await shown(
        request,
        library,
        "prompt",
        "prompts",
        prompt=prompt,
        given=given,
        taken=taken,
        wrong=wrong,
        saved=saved,
        versions=(await library.prompt_versions(prompt.id))[::-1] if prompt else [],
    )
    if wrong:
        response.status_code = _UNFIT
    return response
