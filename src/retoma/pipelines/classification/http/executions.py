"""The classifier over HTTP, in the routes its users have always had. Acting is a POST that comes back at once; the work
is done by workers, and the stream only watches.
"""
# ruff: noqa: FAST003 - the execution that {id} names comes in as Found

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from retoma.app import Retoma
from retoma.pipelines.classification.exports import MEDIA_TYPES
from retoma.pipelines.classification.handler import classify_document
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Execution
from retoma.pipelines.classification.words import EXECUTIONS
from retoma.web import asked
from retoma.web import classification_catalogue as catalogue
from retoma.web import classification_result_shapes as result_shapes
from retoma.web import classification_shapes as shapes
from retoma.web.classification_stream import Teller
from retoma.web.cursors import cursor_of, opened, point_to_next
from retoma.web.door import Door
from retoma.web.stream import Newsroom
from retoma.web.visits import Here, Visit, needs

PREFIX = "/classificador/api"
NAME = classify_document.name
CONTENT = "content:read"

router = APIRouter(tags=["classification"], route_class=Door)
router.include_router(catalogue.router)

_FORMATS = {"excel": "xlsx", "csv": "csv", "json": "json"}


def is_for(app: Retoma) -> bool:
    """Whether *app* has the pipeline."""
    return NAME in app.front.pipelines


async def _found(id: Annotated[asked.Id, Path()], visit: Here) -> Execution:
    visit.see(NAME, f"execution {id}")
    return await Classification(visit.app).execution(id, conn=visit.conn)


Found = Annotated[Execution, Depends(_found)]
"""The execution that the path names, if the caller may see it."""


async def _now(visit: Visit, id: int) -> Execution:
    return await Classification(visit.app).execution(id, conn=visit.conn)


# — looking —


@router.get("/execucoes-em-andamento")
@needs("read", limited=True)
async def list_running_executions(visit: Here) -> list[shapes.Summary]:
    """The executions that have not ended, the newest first."""
    visit.only(NAME)
    return [shapes.Summary.seen(each) for each in await Classification(visit.app).running()]


@router.get("/execucoes/{id}")
@needs("read", limited=True)
async def get_execution(execution: Found) -> shapes.Summary:
    """An execution as it stands. Every figure is from one snapshot."""
    return shapes.Summary.seen(execution)


@router.get("/execucoes/{id}/status-detalhado")
@needs("read", limited=True)
async def get_execution_detail(execution: Found, visit: Here) -> shapes.Detail:
    """An execution with its heartbeat, its errors, the route it came from, its pace and why it does not move."""
    found, pace, failed = await Classification(visit.app).detail(execution.id)
    return shapes.Detail.looked_at(found, pace, failed, content=visit.may(CONTENT))


@router.get("/execucoes/{id}/erros")
@needs("read", limited=True)
async def list_execution_errors(execution: Found, visit: Here) -> shapes.Faults:
    """The documents in error, the newest first. Their words are there with the scope ``content:read``."""
    failed = await Classification(visit.app).errors(execution.id)
    faults = [shapes.DocumentFault.seen(each, content=visit.may(CONTENT)) for each in failed]
    return shapes.Faults(execucao_id=execution.id, total_erros=len(faults), erros=faults)


@router.get("/execucoes/{id}/resultados")
@needs("read", limited=True)
async def list_execution_results(
    execution: Found,
    wanted: Annotated[result_shapes.ResultFilter, Query()],
    visit: Here,
    request: Request,
    response: Response,
) -> list[result_shapes.ResultShown]:
    """The documents and what was found in them, in order."""
    found = await Classification(visit.app).results(
        execution.id,
        category=wanted.categoria,
        confidence=wanted.confianca,
        only_errors=wanted.apenas_erros,
        after=0 if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limite + 1,
    )
    page = found[: wanted.limite]
    point_to_next(request, response, cursor_of(page[-1].id) if len(found) > wanted.limite else None)
    return [result_shapes.ResultShown.seen(each, content=visit.may(CONTENT)) for each in page]


@router.get("/execucoes/{id}/mosaico")
@needs("read", limited=True)
async def get_execution_mosaic(execution: Found, visit: Here) -> result_shapes.Mosaic:
    """One letter per document, for a picture of all of them at once."""
    letters = (await Classification(visit.app).mosaic(execution.id)).translate(_LETTERS)
    return result_shapes.Mosaic(execucao_id=execution.id, total=len(letters), documentos=letters)


_LETTERS = str.maketrans("qrcvfsx", "PACCEUX")


@router.get(
    "/execucoes/{id}/exportar/{formato}", responses={200: {"content": {kind: {} for kind in MEDIA_TYPES.values()}}}
)
@needs(CONTENT, limited=True)
async def export_execution(
    execution: Found, formato: Annotated[Literal["excel", "csv", "json"], Path()], visit: Here
) -> Response:
    """All results as a spreadsheet, as CSV, or as JSON with the full answers."""
    format = _FORMATS[formato]
    headers = {"Content-Disposition": f'attachment; filename="classificacao-{execution.id}.{format}"'}
    pieces = Classification(visit.app).export(execution.id, format)
    return StreamingResponse(pieces, media_type=MEDIA_TYPES[format], headers=headers)


@router.get("/execucoes/{id}/eventos", responses={200: {"content": {"text/event-stream": {}}}})
@needs("read", limited=True)
async def follow_execution(
    execution: Found,
    visit: Here,
    request: Request,
    after: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """What happens, as it happens. ``Last-Event-ID`` (or ``after``) says where to go on."""
    seen = int(last_event_id) if last_event_id and last_event_id.isdecimal() else after
    if execution.state.ended and seen == execution.event_seq:
        return Response(status_code=204)  # a browser that gets this does not come again
    newsroom: Newsroom = request.state.newsroom
    teller = Teller(Classification(visit.app), newsroom, execution.id, content=visit.may(CONTENT))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(teller.tell(seen), media_type="text/event-stream", headers=headers)


@router.get("/projetos/{id}/execucoes")
@needs("read", limited=True)
async def list_project_executions(id: Annotated[asked.Id, Path()], visit: Here) -> list[shapes.Summary]:
    """The executions of a project, the newest first."""
    visit.only(NAME)
    library = Classification(visit.app)
    await library.project(id)
    return [shapes.Summary.seen(each) for each in await library.executions(project_id=id)]


# — acting —


@router.post("/projetos/{id}/executar", status_code=202)
@needs("submit", limited=True)
async def start_execution(
    id: Annotated[asked.Id, Path()], visit: Here, request: Request, response: Response, body: shapes.Start | None = None
) -> shapes.Started:
    """Begin to classify a project, and come back at once. What is at work already is gone on with."""
    visit.only(NAME)
    how = body or shapes.Start()
    batch, new = await Classification(visit.app).begin(
        id, documents=how.codigos_ids, reuse=how.reaproveitar, correlation_id=visit.correlation_id, conn=visit.conn
    )
    place = request.url.path.rsplit("/projetos/", 1)[0] + f"/execucoes/{batch.id}"
    response.headers["Location"] = place
    return shapes.Started(
        mensagem=f"Execução {batch.id} iniciada." if new else f"A execução {batch.id} já está em andamento.",
        execucao_id=batch.id,
        projeto_id=id,
        status=EXECUTIONS[batch.state],
        total_arquivos=batch.total or 0,
        rota_origem=batch.route,
        ja_em_andamento=not new,
        status_url=f"{place}/status-detalhado",
        eventos_url=f"{place}/eventos",
    )


def _places(request: Request, response: Response) -> dict[str, Any]:
    place = response.headers["Location"] = request.url.path.rsplit("/", 1)[0]
    return {"status_url": f"{place}/status-detalhado", "eventos_url": f"{place}/eventos"}


_RESUMED = {
    "resumed": "Execução retomada de onde parou.",
    "completed": "Nada restava por fazer: a execução está concluída.",
    "already_running": "A execução já está em andamento.",
    "already_finished": "A execução já foi concluída.",
}


@router.post("/execucoes/{id}/retomar", status_code=202)
@needs("operate", limited=True)
async def resume_execution(execution: Found, visit: Here, request: Request, response: Response) -> shapes.Resumed:
    """Continue from where it stopped, and come back at once. Asked again while it runs, it answers that it does."""
    done = await Classification(visit.app).resume(execution.id, by=visit.caller, conn=visit.conn)
    now = await _now(visit, execution.id)
    return shapes.Resumed(
        mensagem=_RESUMED[done.word],
        execucao_id=now.id,
        status=EXECUTIONS[now.state],
        mudou=done.changed,
        ja_em_andamento=done.word == "already_running",
        ja_processados=now.done,
        pendentes=now.queued + now.running,
        tentativas_retry=now.resumes,
        max_retries=now.max_resumes,
        rota_origem=now.route,
        **_places(request, response),
    )


@router.post("/execucoes/{id}/reprocessar-erros", status_code=202)
@needs("operate", limited=True)
async def retry_execution_errors(execution: Found, visit: Here, request: Request, response: Response) -> shapes.Retried:
    """Try only the documents in error again, and come back at once."""
    done = await Classification(visit.app).retry_failed(execution.id, conn=visit.conn)
    now = await _now(visit, execution.id)
    said = f"Reprocessando {done.jobs} documentos com erro." if done.changed else "Não há erros a reprocessar."
    return shapes.Retried(
        mensagem=said,
        execucao_id=now.id,
        status=EXECUTIONS[now.state],
        total_erros=execution.failed,
        reprocessaveis=done.jobs,
        rota_origem=now.route,
        **_places(request, response),
    )


def _stopped(now: Execution, said: str) -> shapes.Stopped:
    return shapes.Stopped(
        mensagem=said,
        execucao_id=now.id,
        status=EXECUTIONS[now.state],
        arquivos_processados=now.done,
        total_arquivos=now.total,
    )


@router.post("/execucoes/{id}/cancelar")
@needs("operate", limited=True)
async def cancel_execution(execution: Found, visit: Here) -> shapes.Stopped:
    """Stop it for good. What is done stays done."""
    await visit.app.cancel_batch(execution.id, conn=visit.conn)
    return _stopped(await _now(visit, execution.id), "Execução cancelada.")


@router.post("/execucoes/{id}/pausar")
@needs("operate", limited=True)
async def pause_execution(execution: Found, visit: Here) -> shapes.Stopped:
    """Let it rest. What runs goes back after the step at hand; ``retomar`` lets it go on."""
    await visit.app.pause(execution.id, conn=visit.conn)
    return _stopped(await _now(visit, execution.id), "Execução pausada.")


@router.delete("/execucoes/{id}")
@needs("operate", limited=True)
async def archive_execution(execution: Found, visit: Here) -> shapes.Stopped:
    """Take it out of the lists; nothing of it is removed. Refused while it is at work."""
    await Classification(visit.app).archive(execution.id, conn=visit.conn)
    return _stopped(await _now(visit, execution.id), "Execução arquivada.")


@router.post("/watchdog/verificar")
@needs("operate", limited=True)
async def check_stalled(visit: Here) -> shapes.Round:
    """Look for executions in which nothing moves, now. Every worker does so by itself."""
    visit.only(NAME)
    await visit.app.look_after_batches()
    stalled = [each for each in await Classification(visit.app).running() if each.state == "stalled"]
    found = [
        shapes.Stalled(
            execucao_id=each.id,
            projeto_id=each.project_id,
            motivo=shapes.trouble_of(each),
            ultimo_heartbeat=each.last_progress_at,
            ultimo_codigo=each.last_key,
            processados=each.done,
            total=each.total,
            rota_origem=each.route,
        )
        for each in stalled
    ]
    said = f"{len(found)} execuções travadas." if found else "Nenhuma execução travada."
    return shapes.Round(mensagem=said, travadas=found)
