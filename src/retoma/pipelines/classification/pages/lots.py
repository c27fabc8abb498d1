"""Lots: a new one, all of them, one with its history; files sent into it, and its execution begun."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from retoma.errors import ConfigurationError
from retoma.pipelines.classification.http import catalogue
from retoma.pipelines.classification.intake import MOST_FILES
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Project, SavedPrompt
from retoma.pipelines.classification.pages.context import ROOT, Library, shown, speaker, why_refused
from retoma.pipelines.files.ingest import LARGEST
from retoma.web.api.schemas.requests import HIGHEST, Id, Wanted
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, needs
from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

_LOTS = 25
_RUNS = 50
_LARGEST_FORM = 20_000
_NUMBERS = ("prompt_id", "chunk_tokens", "at_once", "max_resumes", "max_retries")
_TEXTS = ("model", "mode", "position")
FILES = ".pdf,.txt,.docx,.zip"
"""What the button offers; the server looks at the content and takes a few kinds more."""

Number = Annotated[Id, Path()]


async def prompts_of(library: Classification) -> list[SavedPrompt]:
    """The prompts to choose from; that of the house is always among them."""
    await library.default_prompt()
    return await library.prompts()


# — a new one —


@router.get("/")
@needs("read", limited=True)
async def show_new_lot(library: Library, request: Request) -> Response:
    """The form of a new lot. With JavaScript it takes the files too; without, they are sent on the next page."""
    known = await prompts_of(library)
    return await shown(
        request,
        library,
        "new",
        "new",
        script_words=("classifier.new.", "classifier.refused."),
        now=datetime.now(UTC),
        prompts=known,
        house=(await library.default_prompt()).id,
        models=library.models(),
        most=MOST_FILES,
        largest=LARGEST,
        kinds=FILES,
    )


@router.post("/lotes")
@needs("submit", limited=True, streamed=True)
async def create_lot(library: Library, visit: Here, request: Request) -> Response:
    """A lot without documents yet, made from the plain form."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    given: dict[str, Any] = {name: said[name] for name in _TEXTS if said.get(name)}
    try:
        given |= {name: int(said[name]) for name in _NUMBERS if said.get(name)}
    except ValueError:
        raise ConfigurationError("A field that holds a number holds something else.") from None
    if any(isinstance(value, int) and abs(value) > HIGHEST for value in given.values()):
        raise ConfigurationError("A field that holds a number holds something else.")
    name = said.get("name", "").strip() or said.get("name_now", "")

    async def create(record: Recording) -> Project:
        async with visit.app.transaction() as conn:
            lot = await library.create_project(name, conn=conn, **given)
            await record(conn, lot.id)
        return lot

    lot = await recorded(visit, create)
    return RedirectResponse(f"{base_of(request)}{ROOT}/lotes/{lot.id}", 303)


# — all of them —


class LotsWanted(Wanted):
    """Which lots."""

    busca: Annotated[str, Field(max_length=200)] = ""
    antes: Annotated[int, Field(ge=1, lt=2**63)] | None = None


@router.get("/lotes")
@needs("read", limited=True)
async def list_lots(wanted: Annotated[LotsWanted, Query()], library: Library, request: Request) -> Response:
    """The executions under way, and the lots, the newest first."""
    found = await library.projects(search=wanted.busca.strip() or None, before=wanted.antes, limit=_LOTS + 1)
    return await shown(
        request,
        library,
        "lots",
        "lots",
        wanted=wanted,
        running=await library.running(),
        lots=found[:_LOTS],
        more=found[_LOTS - 1].id if len(found) > _LOTS else None,
    )


# — one —


@router.get("/lotes/{id}")
@needs("read", limited=True)
async def show_lot(id: Number, library: Library, request: Request) -> Response:
    """A lot: its documents, its settings, the history of its executions."""
    lot = await library.project(id)
    runs = await library.executions(project_id=id, limit=_RUNS)
    return await shown(
        request,
        library,
        "lot",
        "lots",
        lot=lot,
        runs=runs,
        documents=await library.documents(id, limit=_RUNS),
        house=(await library.default_prompt()).name,
        models=library.models(),
        most=MOST_FILES,
        largest=LARGEST,
        kinds=FILES,
    )


@router.post("/lotes/{id}/arquivos")
@needs("submit", limited=True, streamed=True, records=True)
async def send_files(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """Files from the plain form; each is kept, known already, or refused by itself. Sent again, none is there twice."""
    sent = await catalogue.upload_to_project(id, visit, request)
    if not sent.adicionados + sent.duplicados + sent.erros:
        raise Refusal("file_missing")
    say = speaker(request)
    return await shown(
        request,
        library,
        "sent",
        "lots",
        lot=await library.project(id),
        sent=sent,
        why=lambda code: why_refused(code, say),
    )


@router.post("/lotes/{id}/executar")
@needs("submit", limited=True)
async def start(
    id: Number, library: Library, visit: Here, request: Request, pilot: Annotated[int, Query(ge=0, le=1000)] = 0
) -> Response:
    """Begin to classify; what is at work already is gone on with. With a pilot, some documents go first."""
    batch, _ = await library.begin(id, correlation_id=visit.correlation_id, pilot=pilot, conn=visit.conn)
    await submitted(request, "batch", [batch.id])
    await quotas_of(request).make_room(visit, 0)
    if batch.held_at is not None:
        return RedirectResponse(f"{base_of(request)}/console/batches/{batch.id}/pilot", 303)
    return RedirectResponse(f"{base_of(request)}{ROOT}/execucoes/{batch.id}", 303)


@router.post("/lotes/{id}/arquivar")
@needs("submit", limited=True)
async def archive_lot(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """Take a lot out of the list; nothing of it is removed."""
    await library.archive_project(id, conn=visit.conn)
    return RedirectResponse(f"{base_of(request)}{ROOT}/lotes", 303)
