"""The quick test: one document and a prompt, the result beside it, and nothing kept."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from retoma.pipelines.classification.http import catalogue
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.pages.context import Library, shown, speaker, why_refused
from retoma.pipelines.classification.pages.lots import prompts_of
from retoma.pipelines.files.ingest import LARGEST
from retoma.web.http.auth import Here, needs
from retoma.web.http.errors import Refusal
from retoma.web.pages.render import POLICY
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/teste", route_class=PageRoute)

# The document that was chosen is shown from the browser's own memory; it is a PDF by the type that our script gives it.
_POLICY = POLICY.replace("frame-src 'self'", "frame-src 'self' blob:")


@router.get("")
@needs("read", limited=True)
async def show_trial(library: Library, request: Request) -> Response:
    """The form, and room for the result."""
    return await _shown(library, request)


@router.post("")
@needs("submit", limited=True, streamed=True)
async def try_document(library: Library, visit: Here, request: Request) -> Response:
    """Classify one file now; nothing is stored."""
    try:
        found = await catalogue.try_document(visit, request)
    except Refusal as refusal:
        if not refusal.faults:
            raise
        say, fault = speaker(request), refusal.faults[0]
        return await _shown(library, request, refused=why_refused(fault.code, say), detail=fault.detail)
    return await _shown(library, request, found=found)


async def _shown(library: Classification, request: Request, **values: Any) -> Response:
    usual: dict[str, Any] = {"found": None, "refused": None, "detail": None}
    response = await shown(
        request,
        library,
        "trial",
        "trial",
        script_words=("classifier.trial.",),
        prompts=await prompts_of(library),
        house=(await library.default_prompt()).id,
        models=library.models(),
        largest=LARGEST,
        **(usual | values),
    )
    response.headers["Content-Security-Policy"] = _POLICY
    return response
