"""Prompts, projects and documents of the classifier over HTTP; files come in as they arrive and are read by workers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field, ValidationError

from retoma.pipelines.classification.http import catalogue_schemas as shapes
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Announced, Intake
from retoma.pipelines.classification.pipeline import classify_document
from retoma.pipelines.files.content import FileRefused
from retoma.pipelines.files.ingest import LARGEST
from retoma.pipelines.files.refusals import REFUSED
from retoma.web.api.schemas import requests
from retoma.web.api.schemas.responses import Fault
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.error_codes import TAGGED
from retoma.web.http.errors import Refusal
from retoma.web.http.etags import is_named, refuse_other, tag_of
from retoma.web.http.multipart import Upload
from retoma.web.http.route import ApiRoute
from retoma.web.words import catalogue, number_of
from retoma.web.words.sentences import in_portuguese

router = APIRouter(route_class=ApiRoute)

NAME = classify_document.name
_OF_A_TRIAL = ("pipelines_limited", "not_found", "answer_unfit", "provider_unavailable")
CONTENT = "content:read"
_PIECE = 1 << 18
Number = Annotated[requests.Id, Path()]
Shown = TypeVar("Shown", shapes.PromptShown, shapes.ProjectShown)


def _library(visit: Visit) -> Classification:
    visit.only(NAME)
    return Classification(visit.app)


def _tagged(response: Response, shown: Shown) -> Shown:
    """What is *shown*, with a tag that a change can name it by."""
    response.headers["ETag"] = tag_of(shown)
    return shown


@router.get("/status")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_models(visit: Here) -> shapes.Models:
    """Whether documents can be classified here, and by which models."""
    known = _library(visit).models()
    return shapes.Models(disponivel=True, modelo_padrao=known[0], modelos_disponiveis=known)


# — prompts —


@router.get("/prompts")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_prompts(visit: Here) -> list[shapes.PromptShown]:
    """The prompts, by name, without their texts: those are with each prompt by itself."""
    library = _library(visit)
    found = await library.prompts() or [await library.default_prompt()]
    return [shapes.PromptShown.seen(each, content=False) for each in found]


@router.post("/prompts", status_code=201)
@needs("submit", limited=True, refuses=("pipelines_limited", "conflict"))
async def create_prompt(new: shapes.NewPrompt, visit: Here, request: Request, response: Response) -> shapes.PromptShown:
    """Keep a prompt. A line of categories that cannot be read is refused here."""
    made = await _library(visit).create_prompt(
        new.nome,
        new.conteudo,
        description=new.descricao,
        document_codes=new.codigos_documento,
        conn=visit.conn,
    )
    response.headers["Location"] = f"{request.url.path}/{made.id}"
    return shapes.PromptShown.seen(made, content=visit.may(CONTENT))


@router.get("/prompts/{id}")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_prompt(id: Number, visit: Here, response: Response) -> shapes.PromptShown:
    """A prompt. Its text is there with the scope ``content:read``."""
    return _tagged(response, shapes.PromptShown.seen(await _library(visit).prompt(id), content=visit.may(CONTENT)))


async def _same_prompt(id: int, visit: Visit, request: Request) -> None:
    if is_named(request):
        now = await _library(visit).prompt(id, hold=True, conn=visit.conn)
        refuse_other(request, tag_of(shapes.PromptShown.seen(now, content=visit.may(CONTENT))))


@router.put("/prompts/{id}", responses=TAGGED)
@needs("submit", limited=True, refuses=("pipelines_limited", "conflict", "precondition_failed"))
async def change_prompt(
    id: Number, change: shapes.PromptChange, visit: Here, request: Request, response: Response
) -> shapes.PromptShown:
    """Another name or text. Executions keep the text they were made with."""
    await _same_prompt(id, visit, request)
    made = await _library(visit).change_prompt(
        id,
        name=change.nome,
        content=change.conteudo,
        description=change.descricao,
        document_codes=change.codigos_documento,
        conn=visit.conn,
    )
    return _tagged(response, shapes.PromptShown.seen(made, content=visit.may(CONTENT)))


@router.delete("/prompts/{id}")
@needs("submit", limited=True, refuses=("pipelines_limited", "precondition_failed"))
async def archive_prompt(id: Number, visit: Here, request: Request) -> shapes.Said:
    """Take a prompt out of the list."""
    await _same_prompt(id, visit, request)
    await _library(visit).archive_prompt(id, conn=visit.conn)
    return shapes.Said(mensagem="Prompt desativado.")


# — projects —


class ProjectFilter(requests.Wanted):
    """Which projects: those whose name holds *busca*, before an id."""

    busca: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    antes_de: requests.Id | None = None
    limite: Annotated[int, Field(ge=1, le=200)] = 200


@router.get("/projetos")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_projects(wanted: Annotated[ProjectFilter, Query()], visit: Here) -> list[shapes.ProjectShown]:
    """The projects, the newest first."""
    found = await _library(visit).projects(search=wanted.busca, before=wanted.antes_de, limit=wanted.limite)
    return [shapes.ProjectShown.seen(each) for each in found]


@router.post("/projetos", status_code=201)
@needs("submit", limited=True, refuses=("pipelines_limited", "not_found"))
async def create_project(
    new: shapes.NewProject, visit: Here, request: Request, response: Response
) -> shapes.ProjectShown:
    """A new project (a lot of documents)."""
    given = shapes.settings_of(new.model_dump())
    made = await _library(visit).create_project(given.pop("name"), conn=visit.conn, **given)
    response.headers["Location"] = f"{request.url.path}/{made.id}"
    return shapes.ProjectShown.seen(made)


@router.get("/projetos/{id}")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_project(id: Number, visit: Here, response: Response) -> shapes.ProjectShown:
    """A project and how its documents are classified."""
    return _tagged(response, shapes.ProjectShown.seen(await _library(visit).project(id)))


async def _same_project(id: int, visit: Visit, request: Request) -> None:
    if is_named(request):
        now = await _library(visit).project(id, hold=True, conn=visit.conn)
        refuse_other(request, tag_of(shapes.ProjectShown.seen(now)))


@router.put("/projetos/{id}", responses=TAGGED)
@needs("submit", limited=True, refuses=("pipelines_limited", "precondition_failed"))
async def change_project(
    id: Number, change: shapes.ProjectChange, visit: Here, request: Request, response: Response
) -> shapes.ProjectShown:
    """Other settings. Executions keep those they were made with."""
    await _same_project(id, visit, request)
    given = shapes.settings_of(change.model_dump())
    made = await _library(visit).change_project(id, conn=visit.conn, **given)
    return _tagged(response, shapes.ProjectShown.seen(made))


@router.delete("/projetos/{id}")
@needs("submit", limited=True, refuses=("pipelines_limited", "precondition_failed"))
async def archive_project(id: Number, visit: Here, request: Request) -> shapes.Said:
    """Take a project out of the list. Its executions go on and stay."""
    await _same_project(id, visit, request)
    await _library(visit).archive_project(id, conn=visit.conn)
    return shapes.Said(mensagem="Projeto desativado.")


# — documents —


class CodeFilter(requests.Wanted):
    """Which documents: those after an id."""

    depois_de: Annotated[int, Field(ge=0, le=requests.HIGHEST)] = 0
    limite: Annotated[int, Field(ge=1, le=2000)] = 2000


@router.get("/projetos/{id}/codigos")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_codes(id: Number, wanted: Annotated[CodeFilter, Query()], visit: Here) -> list[shapes.CodeShown]:
    """The documents of a project, in the order in which they came."""
    found = await _library(visit).documents(id, after=wanted.depois_de, limit=wanted.limite)
    return [shapes.CodeShown.seen(each) for each in found]


@router.post("/projetos/{id}/codigos", status_code=201)
@needs("submit", limited=True, refuses=("pipelines_limited",))
async def add_codes(
    id: Number, new: shapes.NewCodes, visit: Here, request: Request, response: Response
) -> shapes.CodesAdded:
    """Codes of documents whose files are still to come; a file that is called like one becomes that document."""
    given = [
        Announced(code=each)
        if isinstance(each, str)
        else Announced(code=each.codigo, case_number=each.numero_processo, description=each.descricao)
        for each in new.codigos
    ]
    library = _library(visit)
    added = await library.announce(id, given, conn=visit.conn)
    total = (await library.project(id, conn=visit.conn)).documents
    response.headers["Location"] = request.url.path
    said = number_of(added, "código adicionado", "códigos adicionados")
    return shapes.CodesAdded(mensagem=f"{said}.", adicionados=added, total=total)


@router.delete("/codigos/{id}")
@needs("submit", limited=True, refuses=("pipelines_limited",))
async def remove_code(id: Number, visit: Here) -> shapes.Said:
    """Take a document out of its project. Executions that have it keep it."""
    await _library(visit).remove_document(id, conn=visit.conn)
    return shapes.Said(mensagem="Documento removido do projeto.")


@router.post("/lotes/{id}/upload", openapi_extra=shapes.FILES)
@needs("submit", limited=True, streamed=True, records=True, refuses=("pipelines_limited", *REFUSED))
async def upload_to_project(id: Number, visit: Here, request: Request) -> shapes.Uploaded:
    """Send files: PDF, TXT, DOCX and others, or a ZIP of them. Each is kept, known already, or refused by itself."""
    library = _library(visit)
    await library.project(id)
    upload = Upload(request)
    into = Intake(pay=upload.purse.pay, entry=visit.entry)
    async for filename, content in upload.files():
        await library.add_upload(id, filename, content, into)
        visit.audited = bool(into.added)
    if not (into.added or into.known or into.refused):
        raise Refusal("file_missing")
    added = number_of(len(into.added), "documento adicionado", "documentos adicionados")
    known = number_of(len(into.known), "já existia", "já existiam")
    said = f"{added}, {known}, {len(into.refused)} com erro."
    return shapes.Uploaded(
        mensagem=said,
        adicionados=len(into.added),
        duplicados=len(into.known),
        erros=len(into.refused),
        detalhes_erros=[
            shapes.UploadFault(arquivo=each.filename, erro=_in_words(each.code, each.why), codigo=each.code)
            for each in into.refused
        ],
        detalhes_duplicados=[shapes.Duplicate(arquivo=name, codigo_documento=one.code) for name, one in into.known],
    )


# — one document that is not kept —


@router.post("/classificar-avulso", openapi_extra=shapes.TRIAL)
@needs("submit", limited=True, streamed=True, refuses=(*_OF_A_TRIAL, *REFUSED))
async def try_document(visit: Here, request: Request) -> shapes.Trial:
    """Classify one file now: ``arquivo``, and ``prompt_id`` or ``prompt_texto``. The file is not kept;
    what a model was asked is written down with its cost.
    """
    library = _library(visit)
    with tempfile.TemporaryFile() as spool:
        filename, fields = await _received(request, spool)
        form = _form(fields)
        given = form.model_dump(exclude={"prompt_id", "prompt_texto"})
        try:
            found = await library.classify_one(
                filename,
                _pieces(spool),
                prompt=form.prompt_texto,
                prompt_id=form.prompt_id,
                **shapes.settings_of(given),
            )
        except FileRefused as error:
            raise _refused(error.code, error.message, error.next) from error
    return shapes.Trial(
        nome_arquivo=found.filename,
        sucesso=True,
        categoria=found.found.category,
        subcategoria=found.found.subcategory,
        confianca=found.found.confidence,
        pontuacao=found.found.score,
        revisar=found.found.confidence == "baixa",
        justificativa=found.found.justification,
        trecho=found.found.quote,
        texto_via=found.text_source,
        tokens_extraidos=found.text_tokens,
        tokens_usados=found.tokens,
        custo_usd=None if found.cost is None else str(found.cost),
        chunk_usado=found.chunk_used,
        modelo=found.model,
        resultado_json=found.found.answer,
    )


def _in_words(code: str, why: str) -> str:
    """Why a file was not taken, in the language of the classifier's users."""
    words = catalogue("pt").get(code)
    exact = in_portuguese(why)
    return exact or (words.title + "." if words else why)


def _refused(code: str, said: str, next: str = "") -> Refusal:
    fault = Fault(pointer="arquivo", code=code, detail=said)
    return Refusal("validation_failed", said=said, next=next, faults=[fault])


async def _received(request: Request, spool: IO[bytes]) -> tuple[str, dict[str, str]]:
    """The name of the one file, which is in *spool* then, and the fields around it."""
    upload, name, size = Upload(request), None, 0
    async for filename, content in upload.files():
        if name is not None:
            raise _refused("one_file", "Send one file.")
        name = filename
        async for piece in content:
            size += len(piece)
            if size > LARGEST:
                raise Refusal("payload_too_large", limit=LARGEST)
            await asyncio.to_thread(spool.write, piece)
    if name is None:
        raise _refused("file_missing", "Send the document as 'arquivo'.")
    return name, upload.fields


def _form(fields: dict[str, str]) -> shapes.TrialForm:
    given: dict[str, Any] = {name: value for name, value in fields.items() if value.strip()}
    try:
        return shapes.TrialForm.model_validate(given)
    except ValidationError as error:
        faults = [
            Fault(pointer=str(each["loc"][0]) if each["loc"] else "", code=each["type"], detail=each["msg"])
            for each in error.errors(include_url=False)
        ]
        raise Refusal("validation_failed", faults=faults) from None


async def _pieces(spool: IO[bytes]) -> AsyncIterator[bytes]:
    await asyncio.to_thread(spool.seek, 0)
    while piece := await asyncio.to_thread(spool.read, _PIECE):
        yield piece
