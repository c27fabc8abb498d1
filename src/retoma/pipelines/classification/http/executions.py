"""The classifier over HTTP, in the routes its users have always had. Acting is a POST that comes back at once; the work
is done by workers, and the stream only watches.
"""
# ruff: noqa: FAST003 - the execution that {id} names comes in as Found

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from retoma.model.ids import BatchId
from retoma.pipelines.classification import pictures
from retoma.pipelines.classification.exports import MEDIA_TYPES
from retoma.pipelines.classification.http import catalogue, teaching
from retoma.pipelines.classification.http import result_schemas as result_shapes
from retoma.pipelines.classification.http import schemas as shapes
from retoma.pipelines.classification.http.causes import trouble_of
from retoma.pipelines.classification.http.stream import ExecutionVoice
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Execution
from retoma.pipelines.classification.pipeline import classify_document
from retoma.pipelines.classification.translations import EXECUTIONS
from retoma.web.api.schemas import requests
from retoma.web.http import etags
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.error_codes import headers_of
from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.http.route import ApiRoute
from retoma.web.http.stream import STREAM, streamed
from retoma.web.words import number_of

NAME = classify_document.name
CONTENT = "content:read"

router = APIRouter(tags=["classification"], route_class=ApiRoute)
router.include_router(catalogue.router)
router.include_router(teaching.router)

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": STREAM[200]["content"]["text/event-stream"]}},
    204: STREAM[204],
}
_EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            kind: {"schema": {"type": "object"} if "json" in kind else {"type": "string", "format": "binary"}}
            for kind in MEDIA_TYPES.values()
        },
        "headers": headers_of("Content-Disposition"),
    }
}
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The page; its file name ends with the number of the page.",
        "content": {"image/png": {"schema": {"type": "string", "format": "binary"}}},
        "headers": headers_of("Content-Disposition"),
    }
}
_ONLY_SHOWN = "default-src 'none'; frame-ancestors 'none'; sandbox"
_FORMATS = {"excel": "xlsx", "csv": "csv", "json": "json"}


async def _found(id: Annotated[requests.Id, Path()], visit: Here) -> Execution:
    visit.see(NAME, f"execution {id}")
    return await Classification(visit.app).execution(BatchId(id), conn=visit.conn)


Found = Annotated[Execution, Depends(_found)]
"""The execution that the path names, if the caller may see it."""


async def _now(visit: Visit, id: int) -> Execution:
    return await Classification(visit.app).execution(BatchId(id), conn=visit.conn)


# — looking —


@router.get("/execucoes-em-andamento")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_running_executions(visit: Here) -> list[shapes.Summary]:
    """The executions that have not ended, the newest first."""
    visit.only(NAME)
    return [shapes.Summary.seen(each, content=visit.may(CONTENT)) for each in await Classification(visit.app).running()]


@router.get("/execucoes/{id}")
@needs("read", limited=True)
async def get_execution(execution: Found, visit: Here, response: Response) -> shapes.Summary:
    """An execution as it stands. Every figure is from one snapshot."""
    shown = shapes.Summary.seen(execution, content=visit.may(CONTENT))
    response.headers["ETag"] = etags.tag_of(shown)
    return shown


@router.get("/execucoes/{id}/status-detalhado")
@needs("read", limited=True, tag=etags.of_batch_in(NAME))
async def get_execution_detail(execution: Found, visit: Here) -> shapes.Detail:
    """An execution with its heartbeat, its errors, the route it came from, its pace and why it does not move."""
    library = Classification(visit.app)
    found, pace, failed = await library.detail(execution.id)
    together = await library.finding(execution.id)
    return shapes.Detail.looked_at(found, pace, failed, together, content=visit.may(CONTENT))


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
    """The documents and what was found in them, in order, a page at a time: ``Link`` leads to the next. With
    ``detalhes=true`` come ``chunk_usado`` and ``resultado_json``, too.
    """
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
    return [result_shapes.ResultShown.seen(each, content=visit.may(CONTENT), details=wanted.detalhes) for each in page]


@router.get("/execucoes/{id}/resultados/{result}/pagina.png", responses=_PICTURE, response_class=Response)
@needs(CONTENT, limited=True, refuses=("page_unshown", "provider_unavailable"))
async def get_result_page(
    execution: Found, result: Annotated[requests.Id, Path()], visit: Here, request: Request
) -> Response:
    """A picture of the page on which the words stand that decided, with the words marked where the page has text; the
    first page where they are not found.
    """
    source = await Classification(visit.app).picture_source(execution.id, result)
    headers = {"ETag": f'"{source.tag}"', "Content-Security-Policy": _ONLY_SHOWN}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    try:
        found = await pictures.page_of(visit.app, source)
    except pictures.PageUnshown as error:
        raise Refusal("page_unshown", said=error.message) from error
    headers["Content-Disposition"] = f'inline; filename="{source.id}-{found.number}.png"'
    return Response(found.png, media_type="image/png", headers=headers)


@router.get("/execucoes/{id}/mosaico")
@needs("read", limited=True)
async def get_execution_mosaic(execution: Found, visit: Here) -> result_shapes.Mosaic:
    """One letter per document, for a picture of all of them at once."""
    letters = (await Classification(visit.app).mosaic(execution.id)).translate(_LETTERS)
    return result_shapes.Mosaic(execucao_id=execution.id, total=len(letters), documentos=letters)


_LETTERS = str.maketrans("qrcvfsx", "PACCEUX")


@router.get("/execucoes/{id}/exportar/{formato}", responses=_EXPORTED, response_class=StreamingResponse)
@needs(CONTENT, limited=True)
async def export_execution(
    execution: Found, formato: Annotated[Literal["excel", "csv", "json"], Path()], visit: Here
) -> Response:
    """All results as a spreadsheet, as CSV, or as JSON with the full answers."""
    format = _FORMATS[formato]
    headers = {"Content-Disposition": f'attachment; filename="classificacao-{execution.id}.{format}"'}
    pieces = Classification(visit.app).export(execution.id, format)
    return StreamingResponse(pieces, media_type=MEDIA_TYPES[format], headers=headers)


@router.get("/execucoes/{id}/eventos", responses=_STREAM, response_class=StreamingResponse)
@needs("read", limited=True)
async def follow_execution(
    execution: Found,
    visit: Here,
    request: Request,
    after: Annotated[int | None, Query(ge=0, le=requests.HIGHEST)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """What happens, as it happens. ``Last-Event-ID`` (or ``after``) says where to go on."""
    seen = requests.event_number(last_event_id, after)
    if execution.state.ended and seen == execution.event_seq:
        return Response(status_code=204)  # a browser that gets this does not come again
    voice = ExecutionVoice(Classification(visit.app), execution.id, content=visit.may(CONTENT))
    return streamed(request, execution.id, seen, voice, "text/event-stream")


@router.get("/projetos/{id}/execucoes")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_project_executions(id: Annotated[requests.Id, Path()], visit: Here) -> list[shapes.Summary]:
    """The executions of a project, the newest first."""
    visit.only(NAME)
    library = Classification(visit.app)
    await library.project(id)
    found = await library.executions(project_id=id)
    return [shapes.Summary.seen(each, content=visit.may(CONTENT)) for each in found]


# — acting —


@router.post("/projetos/{id}/executar", status_code=202)
@needs("submit", limited=True, refuses=("pipelines_limited", "batch_empty", "conflict"))
async def start_execution(
    id: Annotated[requests.Id, Path()],
    visit: Here,
    request: Request,
    response: Response,
    body: shapes.Start | None = None,
) -> shapes.Started:
    """Begin to classify a project, and come back at once. What is at work already is gone on with."""
    visit.only(NAME)
    how = body or shapes.Start()
    batch, new = await Classification(visit.app).begin(
        id,
        documents=how.codigos_ids,
        reuse=how.reaproveitar,
        refine=how.refinar,
        pilot=how.piloto,
        correlation_id=visit.correlation_id,
        conn=visit.conn,
    )
    await submitted(request, "batch", [batch.id])
    await quotas_of(request).make_room(visit, 0)
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


_NONE = "Não há erros a reprocessar."
_RESUMED = {
    "resumed": "Execução retomada de onde parou.",
    "no_workers": "Nenhum worker ativo: a execução continua assim que um for iniciado. Nenhuma retomada foi gasta.",
    "completed": "Nada restava por fazer: a execução está concluída.",
    "already_running": "A execução já está em andamento.",
    "already_finished": "A execução já foi concluída.",
}


@router.post("/execucoes/{id}/retomar", status_code=202)
@needs("operate", limited=True, refuses=("batch_not_resumable", "resume_limit_reached", "operation_running"))
async def resume_execution(
    execution: Found, visit: Here, request: Request, response: Response
) -> shapes.ExecutionResumed:
    """Continue from where it stopped, and come back at once. Asked again while it runs, it answers that it does."""
    done = await Classification(visit.app).resume(execution.id, by=visit.caller, conn=visit.conn)
    now = await _now(visit, execution.id)
    return shapes.ExecutionResumed(
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


@router.post("/execucoes/{id}/replanejar", status_code=202)
@needs("operate", limited=True, refuses=("operation_running", "conflict"))
async def replan_execution(
    execution: Found, new: shapes.AnotherPrompt, visit: Here, request: Request, response: Response
) -> shapes.ExecutionReplanned:
    """Another prompt for the documents that have not begun. Those that have begun go on with theirs, nothing is paid
    twice, and ``comparar_url`` compares the two.
    """
    visit.noted.update({"note": new.observacao} if new.observacao else {})
    done = await Classification(visit.app).replan(
        execution.id, new.prompt_id, model=new.modelo, note=new.observacao, by=visit.caller, conn=visit.conn
    )
    now = await _now(visit, execution.id)
    return shapes.ExecutionReplanned(
        mensagem=_REPLANNED[done.word],
        execucao_id=now.id,
        status=EXECUTIONS[now.state],
        mudou=done.changed,
        documentos_movidos=done.jobs,
        comparar_url=f"{request.scope.get('root_path', '')}/api/v1/batches/{now.id}/cohorts",
        **_places(request, response),
    )


_REPLANNED = {
    "replanned": "Os documentos que não tinham começado usam o novo prompt.",
    "already_planned": "A execução já usa este prompt.",
}


@router.post("/execucoes/{id}/reprocessar-erros", status_code=202)
@needs("operate", limited=True, refuses=("operation_running", "conflict", "batch_not_resumable"))
async def retry_execution_errors(execution: Found, visit: Here, request: Request, response: Response) -> shapes.Retried:
    """Try only the documents in error again, and come back at once."""
    done = await Classification(visit.app).retry_failed(execution.id, by=visit.caller, wait=False, conn=visit.conn)
    now = await _now(visit, execution.id)
    again = execution.failed if done.batch.operation_id else done.jobs  # of many, most are queued in a moment
    documents = number_of(again, "documento", "documentos")
    said = f"Reprocessando {documents} com erro." if done.batch.operation_id or done.changed else _NONE
    return shapes.Retried(
        mensagem=said,
        execucao_id=now.id,
        status=EXECUTIONS[now.state],
        total_erros=execution.failed,
        reprocessaveis=again,
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
@needs("operate", limited=True, refuses=("already_finished", "operation_running"))
async def cancel_execution(execution: Found, visit: Here) -> shapes.Stopped:
    """Stop it for good. What is done stays done."""
    await visit.app.batches.cancel(execution.id, by=visit.caller, wait=False, conn=visit.conn)
    return _stopped(await _now(visit, execution.id), "Execução cancelada.")


@router.post("/execucoes/{id}/pausar")
@needs("operate", limited=True, refuses=("conflict",))
async def pause_execution(execution: Found, visit: Here) -> shapes.Stopped:
    """Let it rest. What runs goes back after the step at hand; ``retomar`` lets it go on."""
    await visit.app.batches.pause(execution.id, by=visit.caller, conn=visit.conn)
    return _stopped(await _now(visit, execution.id), "Execução pausada.")


@router.delete("/execucoes/{id}")
@needs("operate", limited=True, refuses=("conflict", "precondition_failed"))
async def archive_execution(execution: Found, visit: Here, request: Request) -> shapes.Stopped:
    """Take it out of the lists; nothing of it is removed. Refused while it is at work."""
    library = Classification(visit.app)
    if etags.is_named(request):
        now = await library.execution(execution.id, hold=True, conn=visit.conn)
        etags.refuse_other(request, etags.tag_of(shapes.Summary.seen(now, content=visit.may(CONTENT))))
    await library.archive(execution.id, by=visit.caller, conn=visit.conn)
    return _stopped(await _now(visit, execution.id), "Execução arquivada.")


@router.post("/watchdog/verificar")
@needs("operate", limited=True, refuses=("pipelines_limited",))
async def check_stalled(visit: Here) -> shapes.Round:
    """Look for executions in which nothing moves, now. Every worker and every server does so by itself."""
    visit.only(NAME)
    await visit.app.batches.look_after()
    stalled = [each for each in await Classification(visit.app).running() if each.state == "stalled"]
    found = [
        shapes.Stalled(
            execucao_id=each.id,
            projeto_id=each.project_id,
            motivo=trouble_of(each, content=visit.may(CONTENT)),
            ultimo_heartbeat=each.last_progress_at,
            ultimo_codigo=each.last_key,
            processados=each.done,
            total=each.total,
            rota_origem=each.route,
        )
        for each in stalled
    ]
    said = number_of(len(found), "execução travada.", "execuções travadas.") if found else "Nenhuma execução travada."
    return shapes.Round(mensagem=said, travadas=found)
