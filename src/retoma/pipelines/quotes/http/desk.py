"""The desk: what is in processing, what is stuck, and how it goes on; the routes that its users have always had."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from retoma.model.ids import BatchId
from retoma.pipelines.quotes.http import schemas as shapes
from retoma.pipelines.quotes.http.context import CONTENT, LIMITED, Number, library_of
from retoma.web.http.auth import Here, needs
from retoma.web.http.route import ApiRoute
from retoma.web.words import number_of

router = APIRouter(tags=["quotes"], route_class=ApiRoute)


# — looking —


@router.get("/health")
@needs("read", limited=True, refuses=LIMITED)
async def get_quotes_health(visit: Here) -> shapes.QuotesHealth:
    """Whether quotes can be asked for: their tables answer."""
    await library_of(visit).stuck(limit=1)
    return shapes.QuotesHealth(status="healthy")


@router.get("/processing-stats")
@needs("read", limited=True, refuses=LIMITED)
async def get_processing_stats(visit: Here) -> shapes.ProcessingStats:
    """How many quotes are in processing, how many of them are stuck and how many are at each stage; and the mean time
    of the last hundred that were done, in seconds.
    """
    return shapes.ProcessingStats.seen(await library_of(visit).stats())


@router.get("/stuck-quotes")
@needs("read", limited=True, refuses=LIMITED)
async def list_stuck_quotes(visit: Here) -> shapes.StuckQuotes:
    """Quotes in processing without a sign of life for ten minutes, the oldest first. The words of the items are there
    with the scope ``content:read``.
    """
    found = await library_of(visit).stuck()
    content = visit.may(CONTENT)
    return shapes.StuckQuotes(
        count=len(found), quotes=[shapes.StuckShown.seen(each, content=content) for each in found]
    )


@router.get("/batch-status/{id}")
@needs("read", limited=True, refuses=LIMITED)
async def get_quote_batch_status(id: Number, visit: Here) -> shapes.QuoteBatchState:
    """How a batch stands: its quotes by status and by stage."""
    return shapes.QuoteBatchState.seen(await library_of(visit).batch_status(BatchId(id)))


# — acting —


@router.post("/recover-stuck")
@needs("operate", limited=True, refuses=LIMITED)
async def recover_stuck(visit: Here) -> shapes.Triggered:
    """Let everything go on that is stuck, now. The schedule does so every five minutes."""
    done = await library_of(visit).recover_stuck(conn=visit.conn)
    said = number_of(done.recovered, "cotação recuperada", "cotações recuperadas")
    return shapes.Triggered(message=f"{said}.", task_id=visit.correlation_id, count=done.recovered)


@router.post("/recover-quote/{id}")
@needs("operate", limited=True, refuses=(*LIMITED, "conflict"))
async def recover_quote(id: Number, visit: Here) -> shapes.QuoteRecovered:
    """Let one quote go on where it stopped. Refused while somebody works on it, and when it is not in processing."""
    quotes = library_of(visit)
    await quotes.app.jobs.recover()
    done = await quotes.recover_quote(id, conn=visit.conn)
    return shapes.QuoteRecovered(
        message=f"Cotação {id} recuperada: continua de onde parou.",
        previous_checkpoint=done.previous_checkpoint,
        attempt_number=done.attempt_number,
    )


@router.post("/resume-batch/{id}")
@needs(
    "operate",
    limited=True,
    refuses=(*LIMITED, "conflict", "batch_not_resumable", "resume_limit_reached", "operation_running"),
)
async def resume_quote_batch(
    id: Number, wanted: Annotated[shapes.ResumeChoice, Query()], visit: Here
) -> shapes.BatchResumed:
    """Continue a batch where it stopped; with ``reset_errors=true`` quotes that failed are tried again, too. What their
    stages have paid for is not paid again.
    """
    quotes = library_of(visit)
    await quotes.app.jobs.recover()
    done = await quotes.resume_batch(BatchId(id), reset_errors=wanted.reset_errors, by=visit.caller, conn=visit.conn)
    return shapes.BatchResumed(
        message=f"Lote {id} retomado." if done.changed else f"O lote {id} já está em andamento.",
        task_id=visit.correlation_id,
        pending_quotes=done.pending_quotes,
        reset_error_quotes=done.reset_error_quotes,
    )


@router.post("/cleanup-old")
@needs("operate", limited=True, refuses=LIMITED)
async def cleanup_old(visit: Here) -> shapes.Triggered:
    """Give up quotes that were begun more than a day ago. The schedule does so every day at 04:00."""
    count = await library_of(visit).cleanup_old(conn=visit.conn)
    said = number_of(count, "cotação antiga encerrada com erro", "cotações antigas encerradas com erro")
    return shapes.Triggered(message=f"{said}.", task_id=visit.correlation_id, count=count)
