"""Lists of items: sent as text or as a file, listed, followed, continued, stopped, paid for, taken away as files."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from retoma.errors import Conflict
from retoma.model.ids import BatchId
from retoma.pipelines.quotes import list_templates
from retoma.pipelines.quotes.archives import ZIP, archive
from retoma.pipelines.quotes.exports import CSV, results
from retoma.pipelines.quotes.http import batch_schemas as shapes
from retoma.pipelines.quotes.http import schemas as desk_shapes
from retoma.pipelines.quotes.http.context import CONTENT, LIMITED, Library, Number, base_of, files_of
from retoma.pipelines.quotes.http.forms import READS, Given, given, made, refusal
from retoma.pipelines.quotes.http.kept import streamed
from retoma.pipelines.quotes.http.photographs import UNKEPT, kept_images, released
from retoma.pipelines.quotes.http.quote_schemas import QuotesShown
from retoma.pipelines.quotes.http.quotes import MADE, paged
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import MOST_BYTES, ItemList, ListRefused, read_list, read_text
from retoma.pipelines.quotes.reports import MEDIA_TYPES, Reports
from retoma.web.api.schemas import requests
from retoma.web.api.schemas.responses import Fault
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.http.route import ApiRoute
from retoma.web.words import language_of, number_of

ROOT = "/api/batch-quotes"

router = APIRouter(prefix=ROOT, tags=["quotes"], route_class=ApiRoute)

_PROBLEMS_TOLD = 100
_PROBLEMS_SHOWN = 1000
MOST_AT_THE_DOOR = 200
"""Quotes of a batch whose draft is written within a request; a larger one is work for a worker."""
PLAIN = {"Content-Encoding": "identity"}
"""For what is packed already."""
_FILES = {"pdf": "pdf", "excel": "xlsx", "xlsx": "xlsx"}


# — coming in —


@router.post("/text", status_code=202, response_model=shapes.BatchMade, responses=MADE, openapi_extra=shapes.TEXT)
@needs("submit", limited=True, streamed=True, refuses=(*LIMITED, *READS))
async def create_batch_from_text(library: Library, visit: Here, request: Request) -> Response:
    """Ask for the price of each item in a text, parted by semicolons or lines, and come back at once."""
    came = await given(request)
    order = came.into(shapes.TextListOrder)
    try:
        listed = read_text(order.input_text)
    except ListRefused as error:
        raise refusal(error) from None
    return await _begun(library, visit, request, came, order, listed)


@router.post("/file", status_code=202, response_model=shapes.BatchMade, responses=MADE, openapi_extra=shapes.FILE)
@needs("submit", limited=True, streamed=True, refuses=(*LIMITED, *READS))
async def create_batch_from_file(library: Library, visit: Here, request: Request) -> Response:
    """Ask for the price of each item in a CSV or XLSX list, and come back at once. Columns are recognised by their
    names, and each row that is not taken is told. The same list, sent again while it is at work, is the same batch.
    """
    came = await given(request, files=1)
    if not came.files:
        raise Refusal("file_missing")
    order = came.into(shapes.FileListOrder)
    filename, content = came.files[0]
    if len(content) > MOST_BYTES:
        told = f"The file has more than {MOST_BYTES:,} bytes."
        raise refusal(ListRefused("list_too_large", told, next="Send it in parts."))
    try:
        listed = await asyncio.to_thread(read_list, content, filename=filename, columns=order.columns())
    except ListRefused as error:
        raise refusal(error) from None
    return await _begun(library, visit, request, came, order, listed)


@router.post("/images", status_code=202, response_model=shapes.BatchMade, responses=MADE, openapi_extra=shapes.IMAGES)
@needs("submit", limited=True, streamed=True, refuses=(*LIMITED, *READS, *UNKEPT))
async def create_batch_from_images(
    wanted: Annotated[shapes.ImageGroups, Query()], library: Library, visit: Here, request: Request
) -> Response:
    """Ask for the price of each item that a photograph shows, and come back at once. Its code is the name of the file;
    with ``group=name``, up to five files called alike but for a number (4711_1.jpg, 4711_2.jpg) show one item. An image
    that is not taken is told, and the others go on. A model that sees images is needed.
    """
    came, listed = await kept_images(library, request, grouped=wanted.group == "name")
    async with released(library, [image for each in listed.items for image in each.kept], visit):
        order = came.into(shapes.ListOrder)
        return await _begun(library, visit, request, came, order, listed)


async def _begun(
    library: Quotes, visit: Visit, request: Request, came: Given, order: shapes.ListOrder, listed: ItemList
) -> Response:
    if listed.problems and not listed.items:
        raise _nothing(listed)
    filename, content = came.files[0] if came.files else ("", None)
    sha256 = None if content is None else hashlib.sha256(content).hexdigest()

    async def make() -> tuple[int | None, Response]:
        await quotas_of(request).make_room(visit, len(listed.items))
        id, new = await library.create_batch(
            listed,
            name=(order.name or filename).strip(),
            filename=filename,
            sha256=sha256,
            project_id=order.project_id,
            researcher=(order.pesquisador or "").strip() or None,
            by=visit.caller,
            conn=visit.conn,
        )
        if new:
            await submitted(request, "batch", [id])
        standing = await library.batch_status(id, conn=visit.conn)
        place = base_of(request, f"{ROOT}/{id}")
        told = shapes.BatchMade(
            id=id,
            new=new,
            status=standing.batch_status,
            total_items=standing.total_items,
            problem_rows=len(listed.problems),
            problems=[
                shapes.RowProblem(line=each.line, problem=each.reason, message=each.message)
                for each in listed.problems[:_PROBLEMS_TOLD]
            ],
            status_url=place,
        )
        response = Response(told.model_dump_json(), 202, {"Location": place}, "application/json")
        return id if new else None, response

    return await made(visit, request, came, make)


def _nothing(listed: ItemList) -> Refusal:
    """Every row of a list has a problem: each is told, as far as somebody would read on."""
    told = listed.problems[:_PROBLEMS_TOLD]
    return Refusal(
        "validation_failed",
        said=f"The list has no items. {len(listed.problems)} rows have a problem.",
        next="Correct the rows, and send it again.",
        faults=[Fault(pointer=f"/{each.line}", code=each.reason, detail=each.message) for each in told],
    )


# — looking —


@router.get("")
@needs("read", limited=True, refuses=LIMITED)
async def list_batch_quotes(
    wanted: Annotated[shapes.BatchQuoteFilter, Query()],
    library: Library,
    visit: Here,
    request: Request,
    response: Response,
) -> shapes.BatchQuotes:
    """The lists that were sent, the newest first, each as it stands."""
    before = None if wanted.cursor is None else opened(wanted.cursor)
    found = await library.batches(project_id=wanted.project_id, before=before, limit=wanted.limit + 1)
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    content = visit.may(CONTENT)
    shown = [shapes.BatchQuote.seen(each, await library.batch_status(each.id), content=content) for each in page]
    return shapes.BatchQuotes(batches=shown, next=following)


@router.get("/template", responses=files_of("text/csv"), response_class=Response)
@needs("read", limited=True, refuses=LIMITED)
async def get_batch_template(wanted: Annotated[shapes.TemplateWanted, Query()], request: Request) -> Response:
    """An empty list as CSV, with the columns that an upload recognises. Only the description must be filled in."""
    asked = wanted.lang or language_of(request.headers.get("accept-language", ""), otherwise="pt")
    headers = {"Content-Disposition": f'attachment; filename="{list_templates.NAMES[asked]}"'}
    return Response(list_templates.template(asked), media_type=CSV, headers=headers)


@router.get("/{id:int}")
@needs("read", limited=True, refuses=LIMITED)
async def get_batch_quotes(id: Number, library: Library, visit: Here) -> shapes.BatchWhole:
    """A batch as it stands, with the rows of its list that were not taken and why."""
    batch = await library.batch(id)
    problems = await library.items(id, only_problems=True, limit=_PROBLEMS_SHOWN) if batch.problems else []
    standing = await library.batch_status(BatchId(id))
    return shapes.BatchWhole.whole(batch, standing, problems, content=visit.may(CONTENT))


@router.get("/{id}/quotes")
@needs("read", limited=True, refuses=LIMITED)
async def list_quotes_of_batch(
    id: Number,
    wanted: Annotated[shapes.QuotesOfBatchFilter, Query()],
    library: Library,
    visit: Here,
    request: Request,
    response: Response,
) -> QuotesShown:
    """The quotes of a batch, the newest first, a page at a time."""
    await library.batch(id)
    since, until = wanted.span()
    return await paged(
        library,
        visit,
        request,
        response,
        wanted,
        batch_id=id,
        id=wanted.quote_id,
        search=wanted.search,
        project_id=wanted.project_id,
        since=since,
        until=until,
    )


@router.get("/{id}/costs")
@needs("read", limited=True, refuses=LIMITED)
async def get_batch_costs(id: Number, library: Library) -> shapes.BatchCosts:
    """What a batch cost at each provider, in dollars and in reais; what is in doubt may have been paid as well."""
    return shapes.BatchCosts.seen(id, await library.costs(BatchId(id)))


@router.get(
    "/{id}/download/{format}",
    responses=files_of(MEDIA_TYPES["pdf"], MEDIA_TYPES["xlsx"], "text/csv", ZIP),
    response_class=Response,
)
@needs(CONTENT, limited=True, refuses=(*LIMITED, "conflict"))
async def download_batch(
    id: Number, format: Annotated[Literal["pdf", "excel", "xlsx", "csv", "zip"], Path()], library: Library, visit: Here
) -> Response:
    """The report of a batch as PDF or as a spreadsheet, a draft until it is closed; or all its results as CSV, with the
    rows that were not taken; or a ZIP with that CSV and the report of each quote that has ended, written while it is
    sent. The report of a large batch is written by a worker, once it was asked for.
    """
    batch = await library.batch(id)
    ending = _FILES.get(format, format)
    headers = {"Content-Disposition": f'attachment; filename="lote-{id}.{ending}"'}
    if ending == "csv":
        return StreamingResponse(results(library, BatchId(id)), media_type=CSV, headers=headers)
    reports = Reports(visit.app)
    if ending == "zip":
        return StreamingResponse(await archive(reports, id), media_type=ZIP, headers=headers | PLAIN)
    kind: Any = ending
    for closed in await library.closed_reports(id):
        if blob := closed.pdf_blob if kind == "pdf" else closed.xlsx_blob:
            return await streamed(visit, blob, MEDIA_TYPES[ending], f"lote-{id}.{ending}")
    count = batch.rows - batch.problems
    if count > MOST_AT_THE_DOOR:
        if blob := await reports.written(kind, id):
            return await streamed(visit, blob, MEDIA_TYPES[ending], f"lote-{id}.{ending}")
        raise Conflict(
            f"The report of a batch of {count:,} quotes is written by a worker.",
            next="Ask for it with POST …/generate-results, and come back when it is ready.",
        )
    content = await reports.file(kind, batch_id=id)
    return Response(content, media_type=MEDIA_TYPES[ending], headers=headers)


@router.post("/{id}/generate-results", status_code=202)
@needs("operate", limited=True, refuses=(*LIMITED, "conflict"))
async def generate_batch_results(
    id: Number, library: Library, visit: Here, request: Request, wanted: shapes.ReportWanted | None = None
) -> shapes.ReportMaking:
    """Have the report of a batch written, however many quotes it has, as PDF and as a spreadsheet. Asked again while it
    is on its way, it answers the same. With ``close``, the report is final when it is ready: it never changes, and
    nobody decides about its quotes from then on.
    """
    close = (wanted or shapes.ReportWanted()).close
    made = await Reports(library.app).order(id, closing=close, by=visit.caller, conn=visit.conn)
    await submitted(request, "job", [made.job_id])
    return shapes.ReportMaking.seen(made, base_of(request, f"{ROOT}/{id}/download"))


@router.get("/{id}/results")
@needs("read", limited=True, refuses=LIMITED)
async def list_batch_results(id: Number, library: Library, request: Request) -> shapes.ReportsMaking:
    """The reports of a batch that workers write or have written, the newest first: how far each is, and where its files
    are once it is ready.
    """
    await library.batch(id)
    place = base_of(request, f"{ROOT}/{id}/download")
    found = await Reports(library.app).ordered(id)
    return shapes.ReportsMaking(results=[shapes.ReportMaking.seen(each, place) for each in found])


# — acting —


@router.post("/{id}/resume")
@needs(
    "operate",
    limited=True,
    refuses=(*LIMITED, "conflict", "batch_not_resumable", "resume_limit_reached", "operation_running"),
)
async def resume_batch_quotes(
    id: Number,
    wanted: Annotated[desk_shapes.ResumeChoice, Query()],
    library: Library,
    visit: Here,
    _: requests.Nothing | None = None,
) -> desk_shapes.BatchResumed:
    """Continue a batch where it stopped; with ``reset_errors=true`` quotes that failed are tried again, too. What their
    stages have paid for is not paid again.
    """
    await library.app.jobs.recover()
    done = await library.resume_batch(BatchId(id), reset_errors=wanted.reset_errors, by=visit.caller, conn=visit.conn)
    return desk_shapes.BatchResumed(
        message=f"Lote {id} retomado." if done.changed else f"O lote {id} já está em andamento.",
        task_id=visit.correlation_id,
        pending_quotes=done.pending_quotes,
        reset_error_quotes=done.reset_error_quotes,
    )


@router.post("/{id}/cancel")
@needs("operate", limited=True, refuses=(*LIMITED, "already_finished", "operation_running"))
async def cancel_batch_quotes(
    id: Number, library: Library, visit: Here, _: requests.Nothing | None = None
) -> shapes.BatchCancelled:
    """Stop a batch for good. Quotes that are done stay done; asked again, it answers that nothing is left to stop."""
    count = await library.cancel_batch(BatchId(id), by=visit.caller, conn=visit.conn)
    standing = await library.batch_status(BatchId(id), conn=visit.conn)
    said = number_of(count, "cotação cancelada", "cotações canceladas")
    return shapes.BatchCancelled(
        message=f"Lote {id} cancelado: {said}.", id=id, status=standing.batch_status, cancelled_quotes=count
    )
