"""Prompts, projects and documents of the classifier over HTTP; files come in as they arrive and are read by workers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, ValidationError

from retoma.pipelines.classification.handler import classify_document
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Announced, Intake
from retoma.pipelines.content import FileRefused
from retoma.pipelines.files import LARGEST
from retoma.web import asked
from retoma.web import classification_catalogue_shapes as shapes
from retoma.web.door import Door
from retoma.web.problems import Refusal
from retoma.web.shapes import Fault, Shape
from retoma.web.uploads import Upload
from retoma.web.visits import Here, Visit, needs

router = APIRouter(route_class=Door)

NAME = classify_document.name
CONTENT = "content:read"
_PIECE = 1 << 18
_FILES = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"arquivos": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                }
            }
        },
    }
}

Number = Annotated[asked.Id, Path()]


def _library(visit: Visit) -> Classification:
    visit.only(NAME)
    return Classification(visit.app)


@router.get("/status")
@needs("read", limited=True)
async def get_models(visit: Here) -> shapes.Models:
    """Whether documents can be classified here, and by which models."""
    known = _library(visit).models()
    return shapes.Models(disponivel=True, modelo_padrao=known[0], modelos_disponiveis=known)


# — prompts —


@router.get("/prompts")
@needs("read", limited=True)
async def list_prompts(visit: Here) -> list[shapes.PromptShown]:
    """The prompts, by name. Their texts are there with the scope ``content:read``."""
    library = _library(visit)
    found = await library.prompts() or [await library.default_prompt()]
    return [shapes.PromptShown.seen(each, content=visit.may(CONTENT)) for each in found]


@router.post("/prompts", status_code=201)
@needs("submit", limited=True)
async def create_prompt(new: shapes.NewPrompt, visit: Here) -> shapes.PromptShown:
    """Keep a prompt. A line of categories that cannot be read is refused here."""
    made = await _library(visit).create_prompt(
        new.nome,
        new.conteudo,
        description=new.descricao,
        document_codes=new.codigos_documento,
        conn=visit.conn,
    )
    return shapes.PromptShown.seen(made, content=True)


@router.get("/prompts/{id}")
@needs("read", limited=True)
async def get_prompt(id: Number, visit: Here) -> shapes.PromptShown:
    """A prompt. Its text is there with the scope ``content:read``."""
    return shapes.PromptShown.seen(await _library(visit).prompt(id), content=visit.may(CONTENT))


@router.put("/prompts/{id}")
@needs("submit", limited=True)
async def change_prompt(id: Number, change: shapes.PromptChange, visit: Here) -> shapes.PromptShown:
    """Another name or text. Executions keep the text they were made with."""
    made = await _library(visit).change_prompt(
        id,
        name=change.nome,
        content=change.conteudo,
        description=change.descricao,
        document_codes=change.codigos_documento,
        conn=visit.conn,
    )
    return shapes.PromptShown.seen(made, content=True)


@router.delete("/prompts/{id}")
@needs("submit", limited=True)
async def archive_prompt(id: Number, visit: Here) -> shapes.Said:
    """Take a prompt out of the list."""
    await _library(visit).archive_prompt(id, conn=visit.conn)
    return shapes.Said(mensagem="Prompt desativado.")


# — projects —


class ProjectFilter(Shape):
    """Which projects: those whose name holds *busca*, before an id."""

    busca: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    antes_de: asked.Id | None = None
    limite: Annotated[int, Field(ge=1, le=200)] = 200


@router.get("/projetos")
@needs("read", limited=True)
async def list_projects(wanted: Annotated[ProjectFilter, Query()], visit: Here) -> list[shapes.ProjectShown]:
    """The projects, the newest first."""
    found = await _library(visit).projects(search=wanted.busca, before=wanted.antes_de, limit=wanted.limite)
    return [shapes.ProjectShown.seen(each) for each in found]


@router.post("/projetos", status_code=201)
@needs("submit", limited=True)
async def create_project(new: shapes.NewProject, visit: Here) -> shapes.ProjectShown:
    """A new project (a lot of documents)."""
    given = shapes.settings_of(new.model_dump())
    return shapes.ProjectShown.seen(await _library(visit).create_project(given.pop("name"), conn=visit.conn, **given))


@router.get("/projetos/{id}")
@needs("read", limited=True)
async def get_project(id: Number, visit: Here) -> shapes.ProjectShown:
    """A project and how its documents are classified."""
    return shapes.ProjectShown.seen(await _library(visit).project(id))


@router.put("/projetos/{id}")
@needs("submit", limited=True)
async def change_project(id: Number, change: shapes.ProjectChange, visit: Here) -> shapes.ProjectShown:
    """Other settings. Executions keep those they were made with."""
    given = shapes.settings_of(change.model_dump())
    return shapes.ProjectShown.seen(await _library(visit).change_project(id, conn=visit.conn, **given))


@router.delete("/projetos/{id}")
@needs("submit", limited=True)
async def archive_project(id: Number, visit: Here) -> shapes.Said:
    """Take a project out of the list. Its executions go on and stay."""
    await _library(visit).archive_project(id, conn=visit.conn)
    return shapes.Said(mensagem="Projeto desativado.")


# — documents —


class CodeFilter(Shape):
    """Which documents: those after an id."""

    depois_de: Annotated[int, Field(ge=0, lt=2**63)] = 0
    limite: Annotated[int, Field(ge=1, le=2000)] = 2000


@router.get("/projetos/{id}/codigos")
@needs("read", limited=True)
async def list_codes(id: Number, wanted: Annotated[CodeFilter, Query()], visit: Here) -> list[shapes.CodeShown]:
    """The documents of a project, in the order in which they came."""
    found = await _library(visit).documents(id, after=wanted.depois_de, limit=wanted.limite)
    return [shapes.CodeShown.seen(each) for each in found]


@router.post("/projetos/{id}/codigos", status_code=201)
@needs("submit", limited=True)
async def add_codes(id: Number, new: shapes.NewCodes, visit: Here) -> shapes.CodesAdded:
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
    return shapes.CodesAdded(mensagem=f"{added} códigos adicionados.", adicionados=added, total=total)


@router.delete("/codigos/{id}")
@needs("submit", limited=True)
async def remove_code(id: Number, visit: Here) -> shapes.Said:
    """Take a document out of its project. Executions that have it keep it."""
    await _library(visit).remove_document(id, conn=visit.conn)
    return shapes.Said(mensagem="Documento removido do projeto.")


@router.post("/lotes/{id}/upload", openapi_extra=_FILES)
@needs("submit", limited=True, streamed=True)
async def upload_to_project(id: Number, visit: Here, request: Request) -> shapes.Uploaded:
    """Send files: PDF, TXT, DOCX and others, or a ZIP of them. Each is kept, known already, or refused by itself."""
    library = _library(visit)
    await library.project(id)
    into = Intake()
    async for filename, content in Upload(request).files():
        await library.add_upload(id, filename, content, into)
    said = f"{len(into.added)} documentos adicionados, {len(into.known)} já existiam, {len(into.refused)} com erro."
    return shapes.Uploaded(
        mensagem=said,
        adicionados=len(into.added),
        duplicados=len(into.known),
        erros=len(into.refused),
        detalhes_erros=[
            shapes.UploadFault(arquivo=each.filename, erro=each.why, codigo=each.code) for each in into.refused
        ],
        detalhes_duplicados=[shapes.Duplicate(arquivo=name, codigo_documento=one.code) for name, one in into.known],
    )


# — one document that is not kept —


class TrialForm(Shape):
    """The fields beside the file."""

    prompt_id: asked.Id | None = None
    prompt_texto: shapes.Content | None = None
    modelo: shapes.Model | None = None
    modo_processamento: shapes.Mode | None = None
    posicao_chunk: shapes.Position | None = None
    tamanho_chunk: shapes.Tokens | None = None


@router.post("/classificar-avulso", openapi_extra=_FILES)
@needs("submit", limited=True, streamed=True)
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
            raise _refused(error.code, str(error)) from error
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
        custo_usd=str(found.cost),
        chunk_usado=found.chunk_used,
        modelo=found.model,
        resultado_json=found.found.answer,
    )


def _refused(code: str, said: str) -> Refusal:
    return Refusal("validation_failed", said=said, faults=[Fault(pointer="arquivo", code=code, detail=said)])


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


def _form(fields: dict[str, str]) -> TrialForm:
    given: dict[str, Any] = {name: value for name, value in fields.items() if value.strip()}
    try:
        return TrialForm.model_validate(given)
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
