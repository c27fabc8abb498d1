"""Quotes, for programs: the desk, the list, reviews, costs. The routes and the command line are made of this."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from retoma.errors import BatchConflict, ConfigurationError, Conflict, NotFound
from retoma.model.call import Call
from retoma.model.ids import BatchId, JobId
from retoma.pipelines.quotes import bank, bank_updates, report_jobs, requests, reviews, sources, upkeep
from retoma.pipelines.quotes.bank_values import BankVehicle
from retoma.pipelines.quotes.catalogue import Catalogue
from retoma.pipelines.quotes.choosing import price_refusal
from retoma.pipelines.quotes.figures import cents, figures_of
from retoma.pipelines.quotes.model import (
    BatchStanding,
    ClosedReport,
    Cost,
    Quote,
    RecoveredQuote,
    ResumedBatch,
    Review,
    Source,
    Stats,
    StuckQuote,
    Terms,
)
from retoma.pipelines.quotes.ports import Evidence, Method, SourceKind
from retoma.pipelines.quotes.pricing.domains import domain_of
from retoma.pipelines.quotes.sources import Tested
from retoma.pipelines.quotes.stages import QuoteStatus

_SHORTEST_REASON = 3
_MILLION_CALLS = 10_000
_WELL = (QuoteStatus.DONE, QuoteStatus.AWAITING_REVIEW)


class Quotes(Catalogue):
    """What can be asked of quotes, on an open app."""

    # — looking —

    async def quotes(
        self,
        *,
        id: int | None = None,
        project_id: int | None = None,
        batch_id: int | None = None,
        statuses: Sequence[str] | None = None,
        search: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> list[Quote]:
        """Quotes, newest first, *before* an id for the next page or behind *offset* others; without their long
        answers.
        """
        return await self._rows(
            requests.page(
                id=id,
                project_id=project_id,
                batch_id=batch_id,
                statuses=statuses,
                search=search,
                since=since,
                until=until,
                before=before,
                offset=offset,
                limit=limit,
            )
        )

    async def quote(self, id: int, *, conn: object = None) -> Quote:
        """A quote as it stands, with all that was found."""
        rows = await self._rows(requests.page(id=id, whole=True), conn)
        if not rows:
            raise NotFound(f"There is no quote {id}.")
        return rows[0]

    async def sources(self, id: int, *, conn: object = None) -> list[Source]:
        """Every product that was tested for a quote, in order: those that count and those that do not."""
        return await self._rows(sources.page([id]), conn)

    async def reviews(self, id: int) -> list[Review]:
        """What people decided about a quote, in order."""
        return await self._rows(reviews.page(id))

    async def calls(self, id: int, *, before: int | None = None, limit: int = 200) -> list[Call]:
        """Every request to a provider that was made for a quote, newest first, *before* an id for the next page."""
        return await self.app.calls.find(job=(await self.quote(id)).job_id, before=before, limit=limit)

    async def bank(self, *, before: int | None = None, limit: int = 100) -> list[BankVehicle]:
        """The vehicles whose price is known."""
        return await self._rows(bank.page(before=before, limit=limit))

    # — the desk —

    async def stats(self) -> Stats:
        """The four figures of the desk."""
        return (await self._rows(requests.stats()))[0]

    async def stuck(self, *, batch_id: int | None = None, limit: int = 1000) -> list[StuckQuote]:
        """Quotes in processing that have shown no sign of life for ten minutes, the oldest first."""
        return await self._rows(requests.stuck(batch_id=batch_id, limit=limit))

    async def recover_stuck(self, *, conn: object = None) -> upkeep.Round:
        """Let everything go on that is stuck, now; the schedule does so every five minutes."""
        await self.app.jobs.recover()
        async with self._within(conn) as connection:
            return await upkeep.recovered(connection)

    async def recover_quote(self, id: int, *, conn: object = None) -> RecoveredQuote:
        """Let one quote go on; refused when somebody works on it, or when it is not in processing. With *conn*, the
        jobs of workers that are gone are taken back by the caller, before.
        """
        if conn is None:
            await self.app.jobs.recover()
        found = await self.quote(id, conn=conn)
        if found.status is not QuoteStatus.PROCESSING:
            raise Conflict(f"Quote {id} is {found.status}, and not in processing.")
        if found.alive:
            raise Conflict(f"Quote {id} is alive: {found.worker_id or 'a worker'} works on it.", next="Let it work.")
        rows = await self._rows(requests.recover(id=id, minutes=0), conn)
        if not rows:
            raise Conflict(f"Quote {id} was taken up meanwhile.")
        return rows[0]

    async def cleanup_old(self, *, conn: object = None) -> int:
        """Give up quotes that were begun more than a day ago; how many. Their jobs end at their next step."""
        return len(await self._rows(requests.give_up(), conn))

    # — acting —

    async def cancel(self, id: int, *, by: str = "person", conn: object = None) -> Quote:
        """Stop a quote: whoever works on it hears of it, and nothing that it still does is written."""
        async with self._within(conn) as connection:
            # The row first, as workers do it: then nobody waits for the other.
            rows = await self._rows(requests.cancel(id=id), connection)
            if not rows:
                found = await self.quote(id, conn=connection)
                raise Conflict(f"Quote {id} is {found.status}, and can be cancelled no more.")
            await self.app.jobs.cancel(JobId(rows[0][1]), reason=by, conn=connection)
            return await self.quote(id, conn=connection)

    async def cancel_batch(self, id: BatchId, *, by: str = "person", conn: object = None) -> int:
        """Stop a batch: quotes that are done stay; how many were cancelled."""
        async with self._within(conn) as connection:
            await self.batch(id, conn=connection)
            # The rows first, as workers do it: then nobody waits for the other.
            rows = await self._rows(requests.cancel(batch_id=id), connection)
            stopped = await self.app.batches.cancel(id, by=by, conn=connection)
        if conn is None and stopped.operation_id is not None:
            async for _ in self.app.batches.carry_out(stopped.operation_id):
                pass
        return len(rows)

    async def resume_batch(
        self, id: BatchId, *, reset_errors: bool = False, by: str = "person", conn: object = None
    ) -> ResumedBatch:
        """Continue a batch where it stopped. With *reset_errors*, quotes that failed are tried again, too; what their
        stages have paid for is not paid again. With *conn*, the jobs of workers that are gone are taken back by the
        caller, before.
        """
        await self.batch(id, conn=conn)
        if conn is None:
            await self.app.jobs.recover()
        reset: list[int] = []
        changed = False
        async with self._within(conn) as connection:
            await self._rows(requests.settle(), connection)
            again = await self._rows(requests.recover(batch_id=id), connection)
            if reset_errors:
                await self._open_report(id, connection)
                reset = await self._rows(requests.reset(id), connection)
        if reset:
            did = await self.app.batches.retry_failed(id, by=by, conn=conn)
            changed = did.changed
        else:
            try:
                changed = (await self.app.batches.resume(id, by=by, conn=conn)).changed
            except BatchConflict:
                if not again:
                    raise
        shares = await self._rows(requests.distribution(id), conn)
        pending = sum(each.quotes for each in shares if each.status == QuoteStatus.PENDING)
        return ResumedBatch(
            batch_id=id, pending_quotes=pending, reset_error_quotes=len(reset), changed=changed or bool(again)
        )

    async def _open_report(self, batch_id: int, connection: Any) -> None:
        """Refused where the report of a batch is closed, or on its way there: what it tells does not change."""
        closed = bool(await self._rows(reviews.closed(batch_id=batch_id), connection))
        if closed or await self._rows(report_jobs.closing(batch_id), connection):
            raise Conflict("The report is closed already.", next="Ask for a new quote of the item.")

    async def batch_status(self, id: BatchId, *, conn: object = None) -> BatchStanding:
        """How a batch stands, every figure of one moment."""
        batch = await self.batch(id, conn=conn)
        shares = await self._rows(requests.distribution(id), conn)
        statuses, checkpoints = Counter[str](), Counter[str]()
        for each in shares:
            statuses[each.status] += each.quotes
            checkpoints[each.checkpoint] += each.quotes
        total = sum(statuses.values())
        well = sum(statuses[each] for each in _WELL)
        ended = total - statuses[QuoteStatus.PENDING] - statuses[QuoteStatus.PROCESSING]
        return BatchStanding(
            batch_id=id,
            batch_status=_batch_status(batch.state, total, well, ended, statuses),
            total_items=total,
            completed_items=well,
            failed_items=statuses[QuoteStatus.ERROR],
            status_distribution=dict(statuses),
            stuck_quotes=sum(each.stuck for each in shares),
            checkpoint_distribution=dict(checkpoints),
            progress_percentage=float(cents(Decimal(100 * ended) / total)) if total else 0.0,
        )

    # — money —

    async def costs(self, id: BatchId) -> list[Cost]:
        """What a batch cost at each provider, the dearest first."""
        batch = await self.batch(id)
        rate = await self._rate(batch.project_id, batch.config_version_id)
        spent = await self.app.calls.spend("provider", batch=id)
        return [
            Cost(
                provider=each.name,
                calls=each.calls,
                dollars=(paid := each.useful + each.again + each.lost),
                in_doubt=each.doubtful,
                reais=None if rate is None else cents(paid * rate),
            )
            for each in spent
        ]

    async def quote_costs(self, id: int) -> list[Cost]:
        """What a quote cost at each provider."""
        quote = await self.quote(id)
        rate = await self._rate(quote.project_id, quote.config_version_id)
        found: dict[str, Cost] = {}
        for call in await self.app.calls.find(job=quote.job_id, limit=_MILLION_CALLS):
            before = found.get(call.provider, Cost(provider=call.provider, calls=0, dollars=Decimal(0),
                                                   in_doubt=Decimal(0), reais=None))  # fmt: skip
            doubt = (call.reserved or Decimal(0)) if call.state == "doubtful" else Decimal(0)
            found[call.provider] = replace(
                before,
                calls=before.calls + 1,
                dollars=before.dollars + (call.cost or 0),
                in_doubt=before.in_doubt + doubt,
            )
        return [each if rate is None else replace(each, reais=cents(each.dollars * rate)) for each in found.values()]

    async def _rate(self, project_id: int, version: int) -> Decimal | None:
        found = [each for each in await self.versions(project_id) if each.id == version]
        told = found[0].terms.get("reais_per_dollar") if found else None
        return None if told is None else Decimal(told)

    # — decisions of people —

    async def accept(self, id: int, *, reason: str, by: str, conn: object = None) -> Quote:
        """The prices that were found are enough, a person says."""
        return await self._decided(id, "accept", QuoteStatus.DONE, reason=reason, by=by, conn=conn)

    async def refuse(self, id: int, *, reason: str, by: str, conn: object = None) -> Quote:
        """The prices that were found will not do, a person says: the quote has failed, and may be quoted again."""
        return await self._decided(id, "refuse", QuoteStatus.ERROR, reason=reason, by=by, conn=conn)

    async def _decided(self, id: int, action: str, status: QuoteStatus, *, reason: str, by: str, conn: object) -> Quote:
        reason = reason_of(reason)
        async with self._within(conn) as connection:
            was = await self._held(id, connection, (QuoteStatus.AWAITING_REVIEW,))
            await self._valued(id, status, connection, error=f"refused: {reason}" if action == "refuse" else None)
            await self._rows(reviews.put(id, action, reason=reason, by=by, was=was, after=status), connection)
            found = await self.quote(id, conn=connection)
            price = found.valor_medio if status is QuoteStatus.DONE else None
            await bank_updates.settled(connection, id, price=price, reason=reason, by=by)
            return found

    async def add_source(
        self,
        id: int,
        *,
        title: str,
        price: Decimal,
        url: str | None = None,
        seller: str | None = None,
        kind: SourceKind = SourceKind.SUPPLIER,
        evidence: Evidence | None = None,
        reason: str,
        by: str,
        conn: object = None,
    ) -> Quote:
        """A price that a person found, with its reason; it counts at once."""
        reason, title = reason_of(reason), title.strip()
        if not title:
            raise ConfigurationError("A source has a title.", next="Say what is sold.")
        if wrong := price_refusal(price, "BRL", Terms()):
            raise ConfigurationError(wrong[1])
        new = Tested(
            key=f"manual/{uuid.uuid4()}",
            kind=str(kind),
            provider="person",
            title=title[:500],
            seller=seller,
            url=url,
            domain=domain_of(url or "") or None,
            price=cents(price),
            method=str(Method.MANUAL),
            evidence=evidence,
            message=reason,
        )
        async with self._within(conn) as connection:
            was = await self._held(id, connection, _WELL)
            (source,) = await self._rows(sources.save(id, new, by=by), connection)
            await self._rows(sources.take(id, source, why=reason), connection)
            return await self._reviewed(id, "add_source", source, was, connection, reason=reason, by=by)

    async def drop_source(self, id: int, source_id: int, *, reason: str, by: str, conn: object = None) -> Quote:
        """A price does not count, a person says."""
        return await self._changed(id, source_id, "drop_source", reason=reason, by=by, conn=conn)

    async def take_source(self, id: int, source_id: int, *, reason: str, by: str, conn: object = None) -> Quote:
        """A price counts that was left out, a person says."""
        return await self._changed(id, source_id, "take_source", reason=reason, by=by, conn=conn)

    async def _changed(self, id: int, source_id: int, action: str, *, reason: str, by: str, conn: object) -> Quote:
        reason = reason_of(reason)
        change = sources.drop if action == "drop_source" else sources.take
        async with self._within(conn) as connection:
            was = await self._held(id, connection, _WELL)
            if not await self._rows(change(id, source_id, why=reason), connection):
                raise Conflict(f"Source {source_id} of quote {id} cannot be changed so.")
            return await self._reviewed(id, action, source_id, was, connection, reason=reason, by=by)

    async def _reviewed(
        self, id: int, action: str, source_id: int, was: str, connection: Any, *, reason: str, by: str
    ) -> Quote:
        """Write the change down, and value the quote anew; too few prices are for a person to accept."""
        found = await self.quote(id, conn=connection)
        wanted = await self._wanted(found, connection)
        counting = [each for each in await self.sources(id, conn=connection) if each.is_accepted]
        status = QuoteStatus.DONE if len(counting) >= wanted else QuoteStatus.AWAITING_REVIEW
        await self._valued(id, status, connection)
        put = reviews.put(id, action, reason=reason, by=by, was=was, after=status, source_id=source_id)
        await self._rows(put, connection)
        found = await self.quote(id, conn=connection)
        if status is QuoteStatus.DONE:
            await bank_updates.settled(connection, id, price=found.valor_medio, reason=reason, by=by)
        return found

    async def _wanted(self, quote: Quote, connection: Any) -> int:
        found = [each for each in await self.versions(quote.project_id, conn=connection)
                 if each.id == quote.config_version_id]  # fmt: skip
        return int(found[0].terms.get("quotes_wanted", Terms().quotes_wanted))

    async def _valued(self, id: int, status: QuoteStatus, connection: Any, *, error: str | None = None) -> None:
        counting = [each for each in await self.sources(id, conn=connection) if each.is_accepted]
        figures = figures_of([each.price_value for each in counting if each.price_value is not None])
        step = {"DONE": "completed", "AWAITING_REVIEW": "awaiting_review"}.get(status, "error")
        await self._rows(requests.decide(id, status, step=step, figures=figures, error=error), connection)

    async def _held(self, id: int, connection: Any, allowed: Sequence[QuoteStatus]) -> str:
        rows = await self._rows(requests.hold(id), connection)
        if not rows:
            raise NotFound(f"There is no quote {id}.")
        if rows[0] not in allowed:
            raise Conflict(f"Quote {id} is {rows[0]}, and is not for a decision.")
        batch = (await self.quote(id, conn=connection)).batch_job_id
        if await self._rows(reviews.closed(quote_id=id), connection) or (
            batch is not None and await self._rows(reviews.closed(batch_id=batch), connection)
        ):
            raise Conflict(f"The report of quote {id} is closed.", next="Ask for a new quote of the item.")
        if batch is not None and await self._rows(report_jobs.closing(batch), connection):
            raise Conflict(f"The report of quote {id} is being closed.", next="Wait until it is, or cancel its job.")
        return rows[0]

    # — closed reports —

    async def close_report(
        self,
        content: str,
        sha256: str,
        *,
        quote_id: int | None = None,
        batch_id: int | None = None,
        pdf_blob: str | None = None,
        xlsx_blob: str | None = None,
        by: str,
        conn: object = None,
    ) -> ClosedReport:
        """Keep a report for good: nothing changes it, and the quote is decided on no more."""
        query = reviews.close(
            content=content, sha256=sha256, by=by, quote_id=quote_id, batch_id=batch_id, pdf_blob=pdf_blob,
            xlsx_blob=xlsx_blob,
        )  # fmt: skip
        async with self._within(conn) as connection:
            if quote_id is not None:
                await self._held(quote_id, connection, (QuoteStatus.DONE,))
            rows = await self._rows(query, connection)
            if not rows:
                raise Conflict("The report is closed already.", next="Look at the one that is there.")
            return (await self._rows(reviews.closed(id=rows[0], whole=True), connection))[0]

    async def closed_reports(self, batch_id: int) -> list[ClosedReport]:
        """The closed report of a batch without its content, if it has one."""
        return await self._rows(reviews.closed(batch_id=batch_id))

    async def closed_report(
        self, *, id: int | None = None, quote_id: int | None = None, batch_id: int | None = None
    ) -> ClosedReport:
        """A closed report, by its own id, or by what it is about."""
        if id is quote_id is batch_id is None:
            raise ConfigurationError("Say which report: its id, its quote or its batch.")
        rows = await self._rows(reviews.closed(id=id, quote_id=quote_id, batch_id=batch_id, whole=True))
        if not rows:
            raise NotFound("There is no such closed report.")
        return rows[0]


def reason_of(reason: str) -> str:
    """Why somebody decides so: never empty."""
    reason = reason.strip()
    if len(reason) < _SHORTEST_REASON or "\0" in reason:
        raise ConfigurationError("A decision has a reason.", next="Say why, in a few words.")
    return reason


def _batch_status(state: str | None, total: int, well: int, ended: int, statuses: Counter[str]) -> str:
    """In the words of the desk."""
    if state == "cancelled":
        return "CANCELLED"
    if total and ended == total:
        if well == total:
            return "COMPLETED"
        return "PARTIALLY_COMPLETED" if well else "ERROR"
    return "PENDING" if statuses[QuoteStatus.PENDING] == total else "PROCESSING"
