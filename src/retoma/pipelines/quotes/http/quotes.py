"""Quotes: asked for, listed, looked at with all that was found, cancelled, quoted again; the routes of their users."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from retoma.errors import NotFound
from retoma.pipelines.quotes.http import quote_schemas as shapes
from retoma.pipelines.quotes.http.batch_schemas import ReportWanted
from retoma.pipelines.quotes.http.context import CONTENT, LIMITED, Library, Number, base_of, files_of
from retoma.pipelines.quotes.http.forms import READS, given, made
from retoma.pipelines.quotes.http.kept import sent
from retoma.pipelines.quotes.http.photographs import UNKEPT, kept_item, released
from retoma.pipelines.quotes.images import MOST_BYTES as MOST_IMAGE_BYTES
from retoma.pipelines.quotes.images import MOST_OF_ITEM
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.model import Quote
from retoma.pipelines.quotes.pricing.report import Report
from retoma.pipelines.quotes.reports import MEDIA_TYPES, Reports
from retoma.pipelines.quotes.stages import QuoteStatus
from retoma.web.api.schemas import requests
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.cursors import cursor_of, opened
from retoma.web.http.error_codes import headers_of
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.http.route import ApiRoute

ROOT = "/api/quotes"

router = APIRouter(prefix=ROOT, tags=["quotes"], route_class=ApiRoute)

MADE: dict[int | str, dict[str, Any]] = {202: {"headers": headers_of("Idempotency-Replayed")}}
"""The answer to what may carry an Idempotency-Key and is read as it comes in."""


# — coming in —


@router.post("", status_code=202, response_model=shapes.QuoteMade, responses=MADE, openapi_extra=shapes.ORDER)
@needs("submit", limited=True, streamed=True, refuses=(*LIMITED, *READS, *UNKEPT))
async def create_quote_request(library: Library, visit: Here, request: Request) -> Response:
    """Ask for the price of one item, by its words, by up to five photographs or by both, and come back at once; a
    worker finds it.
    """
    came = await given(request, files=MOST_OF_ITEM, largest=MOST_IMAGE_BYTES)
    order = came.into(shapes.PhotographedOrder if came.files else shapes.QuoteOrder)
    images = await kept_item(library, came)

    async def make() -> tuple[int, Response]:
        await quotas_of(request).make_room(visit, 1)
        id = await library.create(
            order.input_text,
            code=(order.codigo or "").strip() or None,
            place=(order.local or "").strip() or None,
            researcher=(order.pesquisador or "").strip() or None,
            project_id=order.project_id,
            image=images,
            condition=order.condition(),
            by=visit.caller,
            conn=visit.conn,
        )
        quote = await library.quote(id, conn=visit.conn)
        await submitted(request, "job", [quote.job_id])
        place = base_of(request, f"{ROOT}/{id}")
        told = shapes.QuoteMade(quote_request_id=id, status=quote.status, status_url=place)
        return id, Response(told.model_dump_json(by_alias=True), 202, {"Location": place}, "application/json")

    async with released(library, images, visit):
        return await made(visit, request, came, make)


# — looking —


@router.get("")
@needs("read", limited=True, refuses=LIMITED)
async def list_quote_requests(
    wanted: Annotated[shapes.QuoteFilter, Query()], library: Library, visit: Here, request: Request, response: Response
) -> shapes.QuotesShown:
    """Quotes, the newest first, a page at a time: ``page`` counts pages, and ``Link`` leads to the next one by its
    cursor, however many there are. The words of the items are there with the scope ``content:read``.
    """
    since, until = wanted.span()
    return await paged(
        library,
        visit,
        request,
        response,
        wanted,
        id=wanted.quote_id,
        search=wanted.search,
        project_id=wanted.project_id,
        since=since,
        until=until,
    )


async def paged(
    library: Quotes, visit: Visit, request: Request, response: Response, wanted: shapes.QuoteFilter, **only: Any
) -> shapes.QuotesShown:
    """The page of quotes that is *wanted*, *only* those that fit."""
    found = await library.quotes(
        **only,
        statuses=None if wanted.status is None else [wanted.status],
        before=None if wanted.cursor is None else opened(wanted.cursor),
        offset=(wanted.page - 1) * wanted.per_page,
        limit=wanted.per_page + 1,
    )
    page = found[: wanted.per_page]
    following = cursor_of(page[-1].id) if len(found) > wanted.per_page else None
    if following:
        # The cursor says where the next page begins: to count pages from there would leave some out.
        url = request.url.remove_query_params("page").include_query_params(cursor=following)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    content = visit.may(CONTENT)
    return shapes.QuotesShown(
        quotes=[shapes.QuoteShown.of(each, content=content) for each in page],
        page=wanted.page,
        per_page=wanted.per_page,
        next=following,
    )


@router.get("/{id}")
@needs("read", limited=True, refuses=LIMITED)
async def get_quote_request(id: Number, library: Library, visit: Here) -> shapes.QuoteWhole:
    """A quote as it stands. What was found, the products that count and those that do not with their reasons, is there
    with the scope ``content:read``.
    """
    quote = await library.quote(id)
    worth = await Reports(library.app).valuation(id) if quote.condition and visit.may(CONTENT) else None
    return await _whole(library, visit, quote, worth=worth)


async def _whole(library: Quotes, visit: Visit, quote: Quote, *, worth: Report | None = None) -> shapes.QuoteWhole:
    content = visit.may(CONTENT)
    tested = await library.sources(quote.id, conn=visit.conn) if content else []
    return shapes.QuoteWhole.seen(quote, tested, content=content, worth=worth)


@router.get("/{id}/integration-logs")
@needs("read", limited=True, refuses=LIMITED)
async def list_quote_integration_logs(
    id: Number,
    wanted: Annotated[shapes.LogFilter, Query()],
    library: Library,
    visit: Here,
    request: Request,
    response: Response,
) -> shapes.IntegrationLogs:
    """Every request to a provider that was made for a quote, the newest first: who was asked, in which step, what it
    cost. The request and the answer as it came are there with the scope ``content:read``.
    """
    before = None if wanted.cursor is None else opened(wanted.cursor)
    found = await library.calls(id, before=before, limit=wanted.limit + 1)
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    if following:
        url = request.url.include_query_params(cursor=following)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    content = visit.may(CONTENT)
    if content:  # a list reads no bodies
        page = [await library.app.calls.get(each.id) for each in page]
    return shapes.IntegrationLogs(
        logs=[shapes.IntegrationLog.seen(each, content=content) for each in page], next=following
    )


@router.get("/{id}/pdf", responses=files_of(MEDIA_TYPES["pdf"]), response_class=Response)
@needs(CONTENT, limited=True, refuses=LIMITED)
async def get_quote_pdf(id: Number, library: Library, visit: Here) -> Response:
    """The report of a quote: closed as it was written on that day, else a draft that says so."""
    await library.quote(id)
    content = await Reports(visit.app).file("pdf", quote_id=id)
    headers = {"Content-Disposition": f'attachment; filename="cotacao-{id}.pdf"'}
    return Response(content, media_type=MEDIA_TYPES["pdf"], headers=headers)


@router.get("/{id}/screenshots")
@needs(CONTENT, limited=True, refuses=LIMITED)
async def list_quote_screenshots(id: Number, library: Library, request: Request) -> shapes.Screenshots:
    """The evidence of each price of a quote: its page, its hashes, and where its picture is; or why there is none."""
    await library.quote(id)
    found = [each for each in await library.sources(id) if each.evidence_blob or each.screenshot_file_id]
    place = base_of(request, f"{ROOT}/{id}/screenshots")
    return shapes.Screenshots(screenshots=[shapes.Screenshot.seen(each, place) for each in found])


@router.get("/{id}/screenshots/{file}", responses=files_of("image/png"), response_class=StreamingResponse)
@needs(CONTENT, limited=True, refuses=LIMITED)
async def get_quote_screenshot(
    id: Number, file: Annotated[requests.Id, Path()], library: Library, visit: Here
) -> Response:
    """The picture of a page, as it was when its price was read."""
    await library.quote(id)
    for each in await library.sources(id):
        if each.id == file:
            return await sent(visit, each.screenshot_file_id, "image/png", f"fonte-{file}", inline=True)
    raise NotFound(f"Quote {id} has no source {file}.")


# — acting —


@router.post("/{id}/generate-pdf")
@needs("operate", limited=True, refuses=(*LIMITED, "conflict"))
async def generate_quote_pdf(
    id: Number, library: Library, visit: Here, request: Request, wanted: ReportWanted | None = None
) -> shapes.QuotePdf:
    """Write the report of a quote, and say where it is: a draft of this moment, or, with ``close``, the final one. That
    never changes, and nobody decides about the quote from then on. Refused until the quote has ended.
    """
    reports = Reports(library.app)
    place = base_of(request, f"{ROOT}/{id}/pdf")
    if (wanted or ReportWanted()).close:
        closed = await reports.close(quote_id=id, by=visit.caller, conn=visit.conn)
        return shapes.QuotePdf(quote_id=id, closed=True, sha256=closed.sha256, pdf_url=place)
    visit.unchanged = True
    sha256 = await reports.written_of_quote(id)
    return shapes.QuotePdf(quote_id=id, closed=sha256 is not None, sha256=sha256, pdf_url=place)


@router.post("/{id}/screenshots/{file}/retry", status_code=202)
@needs("operate", limited=True, refuses=(*LIMITED, "conflict"))
async def retry_quote_screenshot(
    id: Number,
    file: Annotated[requests.Id, Path()],
    library: Library,
    visit: Here,
    request: Request,
    response: Response,
    _: requests.Nothing | None = None,
) -> shapes.ScreenshotRetried:
    """Have the picture of a page taken that has none, from the page as it was kept: the shop is not asked again.
    Refused where there is a picture, where no page was kept, and once the report is closed.
    """
    job = await Reports(library.app).retake(id, file, by=visit.caller, conn=visit.conn)
    await submitted(request, "job", [job])
    place = response.headers["Location"] = base_of(request, f"/api/v1/jobs/{job}")
    shown = base_of(request, f"{ROOT}/{id}/screenshots/{file}")
    return shapes.ScreenshotRetried(quote_id=id, source_id=file, job_id=job, status_url=place, screenshot_url=shown)


@router.post("/{id}/cancel")
@needs("operate", limited=True, refuses=(*LIMITED, "conflict"))
async def cancel_quote_request(
    id: Number, library: Library, visit: Here, _: requests.Nothing | None = None
) -> shapes.QuoteWhole:
    """Stop a quote. Whoever works on it hears of it, and writes nothing more; asked again, it answers the same. Refused
    when the quote has ended: what was found stays.
    """
    before = await library.quote(id, conn=visit.conn)
    if before.status is QuoteStatus.CANCELLED:
        visit.unchanged = True
        return await _whole(library, visit, before)
    return await _whole(library, visit, await library.cancel(id, by=visit.caller, conn=visit.conn))


@router.post("/{id}/requote", status_code=202)
@needs("submit", limited=True, refuses=(*LIMITED, "conflict"))
async def requote_request(
    id: Number, library: Library, visit: Here, request: Request, response: Response, _: requests.Nothing | None = None
) -> shapes.Requoted:
    """The same item again, with the project's terms of today: once for each quote that failed or was cancelled. The
    new quote counts its recoveries from one; ``requote_number`` says how many quotes of the item came before it.
    """
    new = await library.requote(id, by=visit.caller, conn=visit.conn)
    quote = await library.quote(new, conn=visit.conn)
    await submitted(request, "job", [quote.job_id])
    await quotas_of(request).make_room(visit, 0)
    place = response.headers["Location"] = base_of(request, f"{ROOT}/{new}")
    return shapes.Requoted(
        quote_request_id=new,
        status=quote.status,
        status_url=place,
        original_quote_id=id,
        requote_number=quote.requote_number,
        attempt_number=quote.attempt_number,
    )
