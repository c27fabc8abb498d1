"""What people teach over HTTP: examples of a project, and executions gone through again with them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from retoma.errors import ConfigurationError
from retoma.model.ids import BatchId
from retoma.pipelines.classification.examples import Example
from retoma.pipelines.classification.http.catalogue import Number
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.pipeline import classify_document
from retoma.pipelines.classification.refinements import Refinement
from retoma.pipelines.classification.taught_file import MOST_BYTES, Said
from retoma.pipelines.classification.teaching import Teaching
from retoma.web.api.schemas.requests import HIGHEST, Asked, Wanted
from retoma.web.api.schemas.responses import Fault, Schema, Time
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.errors import Refusal
from retoma.web.http.multipart import Upload
from retoma.web.http.route import ApiRoute
from retoma.web.words.sentences import in_portuguese

router = APIRouter(route_class=ApiRoute)

NAME = classify_document.name
_PROBLEMS = 1000
Text = Annotated[str, Field(min_length=1, max_length=1000)]


class NewExample(Asked):
    """A document, by its code or the name of its file, and what it is."""

    documento: Text
    categoria: Text


class NewExamples(Asked):
    """What somebody says of documents."""

    exemplos: Annotated[list[NewExample], Field(min_length=1, max_length=20_000)]


class TaughtRowProblem(Schema):
    """A row that taught nothing."""

    linha: int
    codigo: str
    erro: str


class Taught(Schema):
    """What became of the rows: each taught something, was known, or has a problem."""

    mensagem: str
    ensinados: int
    ja_conhecidos: int
    resultados_decididos: int
    problemas: list[TaughtRowProblem]

    @classmethod
    def seen(cls, done: Teaching) -> Taught:
        """As it goes over the wire."""
        said = f"{done.taught} ensinados, {done.known} já conhecidos, {len(done.problems)} com problema."
        return cls(
            mensagem=said,
            ensinados=done.taught,
            ja_conhecidos=done.known,
            resultados_decididos=done.results,
            problemas=[
                TaughtRowProblem(linha=each.line, codigo=each.reason, erro=in_portuguese(each.message) or each.message)
                for each in done.problems[:_PROBLEMS]
            ],
        )


class ExampleShown(Schema):
    """A document of which a person said the kind."""

    id: int
    codigo_id: int
    codigo_documento: str
    nome_arquivo: str | None
    categoria: str
    encontrado_antes: str | None
    execucao_id: int | None
    origem: Literal["review", "page", "file", "api"]
    decidido_por: str
    decidido_em: Time

    @classmethod
    def seen(cls, each: Example) -> ExampleShown:
        """As it goes over the wire."""
        return cls(
            id=each.id,
            codigo_id=each.document_id,
            codigo_documento=each.code,
            nome_arquivo=each.filename,
            categoria=each.label,
            encontrado_antes=each.proposed,
            execucao_id=each.batch_id,
            origem=each.source,
            decidido_por=each.decided_by,
            decidido_em=each.decided_at,
        )


class LabelGained(Schema):
    """What a refinement did to one label."""

    categoria: str
    decididos: int
    certos_antes: int
    certos_depois: int
    resultados_antes: int
    resultados_depois: int


class RefinementShown(Schema):
    """An execution that was gone through again, or is being."""

    id: int
    execucao_id: int
    tarefa_id: int
    pedido_por: str
    pedido_em: Time
    em_andamento: bool
    terminado_em: Time | None
    exemplos: int | None
    total: int | None
    mudaram: int | None
    decididos: int | None
    certos_antes: int | None
    certos_depois: int | None
    por_categoria: list[LabelGained]

    @classmethod
    def seen(cls, each: Refinement) -> RefinementShown:
        """As it goes over the wire."""
        gain = each.gain
        return cls(
            id=each.id,
            execucao_id=each.batch_id,
            tarefa_id=each.job_id,
            pedido_por=each.asked_by,
            pedido_em=each.asked_at,
            em_andamento=each.at_work,
            terminado_em=each.finished_at,
            exemplos=each.examples,
            total=each.total,
            mudaram=each.changed,
            decididos=gain and gain.decided,
            certos_antes=gain and gain.agreed_before,
            certos_depois=gain and gain.agreed_after,
            por_categoria=[
                LabelGained(
                    categoria=row.label,
                    decididos=row.decided,
                    certos_antes=row.agreed_before,
                    certos_depois=row.agreed_after,
                    resultados_antes=row.results_before,
                    resultados_depois=row.results_after,
                )
                for row in (gain.labels if gain else ())
            ],
        )


class ExampleFilter(Wanted):
    """Which examples: those after an id."""

    depois_de: Annotated[int, Field(ge=0, le=HIGHEST)] = 0
    limite: Annotated[int, Field(ge=1, le=2000)] = 2000


CSV_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["arquivo"],
                    "properties": {"arquivo": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}


def _library(visit: Visit) -> Classification:
    visit.only(NAME)
    return Classification(visit.app)


@router.get("/projetos/{id}/exemplos")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_examples(id: Number, wanted: Annotated[ExampleFilter, Query()], visit: Here) -> list[ExampleShown]:
    """The documents of a project of which a person said the kind, in the order in which they said it."""
    found = await _library(visit).examples(id, after=wanted.depois_de, limit=wanted.limite)
    return [ExampleShown.seen(each) for each in found]


@router.post("/projetos/{id}/exemplos")
@needs("review", limited=True, refuses=("pipelines_limited",))
async def teach_project(id: Number, new: NewExamples, visit: Here) -> Taught:
    """Say what documents are. Each becomes an example of the project, and the result of its document; a row that is not
    taken is told.
    """
    rows = [
        Said(line=line, document=each.documento, label=each.categoria)
        for line, each in enumerate(new.exemplos, start=1)
    ]
    return Taught.seen(await _library(visit).teach(id, rows, by=visit.caller, conn=visit.conn))


@router.post("/projetos/{id}/exemplos/arquivo", openapi_extra=CSV_FILE)
@needs(
    "review",
    limited=True,
    streamed=True,
    refuses=("pipelines_limited", "file_missing", "payload_too_large", "multipart_expected"),
)
async def teach_project_by_file(id: Number, visit: Here, request: Request) -> Taught:
    """The same from a CSV file with a column of documents and one of labels. Names of columns, separator and encoding
    are recognised.
    """
    library = _library(visit)
    content = await received(request)

    async def teach(record: Recording) -> Teaching:
        async with visit.app.transaction() as conn:
            done = await library.teach_file(id, content, by=visit.caller, conn=conn)
            await record(conn, id)
        return done

    try:
        return Taught.seen(await recorded(visit, teach))
    except ConfigurationError as error:
        fault = Fault(pointer="arquivo", code="file_unreadable", detail=str(error))
        raise Refusal("validation_failed", said=str(error), faults=[fault]) from error


async def received(request: Request) -> bytes:
    """The one file of a request."""
    found: bytes | None = None
    async for _, content in Upload(request).files():
        pieces = bytearray()
        async for piece in content:
            pieces += piece
            if len(pieces) > MOST_BYTES:
                raise Refusal("payload_too_large", limit=MOST_BYTES)
        found = bytes(pieces) if found is None else found
    if found is None:
        raise Refusal("file_missing")
    return found


@router.delete("/exemplos/{id}")
@needs("review", limited=True, refuses=("pipelines_limited", "conflict"))
async def forget_example(id: Number, visit: Here) -> ExampleShown:
    """Take an example back; the result of its document is again what was found. A decision of the review desk is undone
    there.
    """
    return ExampleShown.seen(await _library(visit).forget(id, by=visit.caller, conn=visit.conn))


@router.post("/execucoes/{id}/refinar", status_code=202)
@needs("review", limited=True, refuses=("pipelines_limited", "conflict"))
async def refine_execution(
    id: Annotated[int, Path(ge=1, le=HIGHEST)], visit: Here, response: Response
) -> RefinementShown:
    """Go through an execution again with what was taught, in the background. One that is at work is the answer."""
    visit.see(NAME, f"execution {id}")
    asked, _ = await Classification(visit.app).refine(BatchId(id), by=visit.caller, conn=visit.conn)
    response.headers["Location"] = f"/classificador/api/execucoes/{id}/refinos"
    return RefinementShown.seen(asked)


@router.get("/execucoes/{id}/refinos")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_refinements(id: Annotated[int, Path(ge=1, le=HIGHEST)], visit: Here) -> list[RefinementShown]:
    """How often an execution was gone through again, and what it was worth, the newest first."""
    visit.see(NAME, f"execution {id}")
    library = Classification(visit.app)
    await library.execution(BatchId(id))
    return [RefinementShown.seen(each) for each in await library.refinements(BatchId(id))]
