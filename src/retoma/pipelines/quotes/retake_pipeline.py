"""The picture of a page is taken again, from the bytes that were kept when its price was read.

A quote whose browser was missing or too slow has its evidence without a picture. The page itself is not opened again:
the new picture shows what the price was read from.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from retoma.app.fetch import fetch
from retoma.errors import Conflict, NotFound
from retoma.model.endings import Reject
from retoma.model.retry import Retry
from retoma.pipelines.quotes import report_jobs, requests, reviews, sources
from retoma.pipelines.quotes.ports import Market, Photographer, Picture
from retoma.pipelines.quotes.progress import Connection
from retoma.pipelines.quotes.stages import QUEUE
from retoma.providers import BlobStore
from retoma.run.pipeline import pipeline
from retoma.run.run import Run

PAGE = "text/html"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetakeOrder:
    """A source whose picture is wanted, and who asked for it."""

    quote_id: int
    source_id: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPage:
    """The page of a source, as it was kept."""

    blob: str
    sha256: str


@pipeline(
    "retake-quote-screenshot",
    internal=True,
    queue=QUEUE,
    retry=Retry(attempts=3, wait=5.0, factor=2.0),
    timeout=180.0,
)
async def retake_quote_screenshot(
    order: RetakeOrder, run: Run, *, market: Market | None = None, blobs: BlobStore | None = None
) -> Picture:
    """Take the picture of a page that has none, once."""
    if blobs is None or market is None or not isinstance(market.pages, Photographer):
        raise Reject("no_pictures: this worker takes no pictures of pages. Nothing was changed.")
    page = await run.transact("page", _page, order)
    picture = await run.step("picture", _taken, market.pages, blobs, page)
    await run.transact("kept", _kept, order, picture)
    return picture


async def still_open(connection: Connection, quote_id: int) -> None:
    """Refused where the report is closed, or on its way there; else nobody closes it until the transaction ends."""
    await fetch(connection, requests.hold(quote_id))
    (quote,) = await fetch(connection, requests.page(id=quote_id))
    queries = [reviews.closed(quote_id=quote_id)]
    if quote.batch_job_id is not None:
        queries.append(reviews.closed(batch_id=quote.batch_job_id))
        if await fetch(connection, report_jobs.closing(quote.batch_job_id)):
            raise Conflict(
                f"The report of quote {quote_id} is being closed.", next="Wait until it is, or cancel its job."
            )
    for query in queries:
        if await fetch(connection, query):
            raise Conflict(f"The report of quote {quote_id} is closed.", next="Ask for a new quote of the item.")


async def _page(connection: Connection, order: RetakeOrder) -> KeptPage:
    for each in await fetch(connection, sources.page([order.quote_id])):
        if each.id == order.source_id and each.evidence_blob and each.evidence_sha256:
            return KeptPage(blob=each.evidence_blob, sha256=each.evidence_sha256)
    raise Reject(f"page_missing: source {order.source_id} of quote {order.quote_id} has no page.")


async def _taken(pages: Photographer, blobs: BlobStore, page: KeptPage) -> Picture:
    try:
        async with blobs.open(page.blob) as pieces:
            content = b"".join([each async for each in pieces])
    except NotFound:
        raise Reject("page_missing: the page of this source is not in the store any more.") from None
    if hashlib.sha256(content).hexdigest() != page.sha256:
        raise Reject("content_changed: the page of this source is not the one that was kept.")
    return await pages.picture(content)


async def _kept(connection: Connection, order: RetakeOrder, picture: Picture) -> int:
    try:
        await still_open(connection, order.quote_id)
    except Conflict as error:
        raise Reject(f"report_closed: {error.message} Its evidence stays as it is.") from None
    # None: somebody else's picture is there by now, and it shows the same page.
    rows = await fetch(connection, sources.picture(order.quote_id, order.source_id, picture))
    return rows[0] if rows else order.source_id
