"""How a worker writes down how far it is: each write is a recorded step, held to the fence of its job."""

from __future__ import annotations

from typing import Any

import orjson
import psycopg

from retoma.app.fetch import fetch
from retoma.model.endings import Reject
from retoma.pipelines.quotes import requests, sources
from retoma.pipelines.quotes.model import Figures, Terms, Wanted
from retoma.pipelines.quotes.sources import Tested
from retoma.pipelines.quotes.stages import STEPS, ProcessingCheckpoint, QuoteStatus
from retoma.run.run import Run

Connection = psycopg.AsyncConnection[Any]


class Working:
    """A quote that this worker holds."""

    def __init__(self, run: Run, wanted: Wanted, terms: Terms) -> None:
        self.run = run
        self.id = wanted.quote_id
        self.wanted = wanted
        self.terms = terms

    async def reach(self, checkpoint: ProcessingCheckpoint, step: str, **told: Any) -> None:
        """The quote has come to *checkpoint*."""
        told = {"checkpoint": str(checkpoint), "step": step, "percentage": STEPS[step], **told}
        await self.run.transact(str(checkpoint), _advance, self.id, told)

    async def note(self, step: str, **details: Any) -> None:
        """What is done now, on the way to the next checkpoint."""
        told = {"step": step, "percentage": STEPS[step], "details": as_json(details)}
        await self.run.transact(step, _advance, self.id, told)

    async def tested(self, name: str, given: list[Tested], **told: Any) -> None:
        """Products that were tested, and how far the quote is with them: all of it, or nothing."""
        await self.run.transact(name, _tested, self.id, given, told)

    async def finish(
        self, status: QuoteStatus, figures: Figures, accepted: list[str], *, error: str | None = None
    ) -> None:
        """The quote has ended."""
        if status is QuoteStatus.ERROR:
            # Not once for ever: a quote that is tried again, and ends the same, says so again.
            name = f"failed/{fence_of(self.run)}"
            told: dict[str, Any] = {"step": "error", "error": error}
        else:
            step = "completed" if status is QuoteStatus.DONE else "awaiting_review"
            name = str(ProcessingCheckpoint.COMPLETED)
            told = {"step": step, "checkpoint": name, "percentage": STEPS[step], "error": error}
        await self.run.transact(name, _finish, self.id, str(status), figures, accepted, told)


def fence_of(run: Run) -> str:
    """The number of the claim: another one with each attempt."""
    return run.token.rpartition(":")[2]


def as_json(value: Any) -> str:
    """*value* as JSON that PostgreSQL takes; money is a text, as it is told."""
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode().replace("\\u0000", "\\ufffd")


async def begin(connection: Connection, job: int) -> int:
    """The quote is in the hands of whoever holds *job*."""
    rows = await fetch(connection, requests.begin(job))
    if not rows:
        raise Reject(
            f"quote_over: the quote of job {job} was cancelled, given up, or has ended. Nothing was asked or paid. "
            "Ask for a new quote, or resume its batch with its errors."
        )
    return rows[0]


async def init(connection: Connection, job: int, percentage: int) -> Wanted:
    """What *job* must find a price for."""
    rows = await fetch(connection, requests.init(job, step="initializing", percentage=percentage))
    if not rows:
        raise Reject(
            f"quote_over: the quote of job {job} was cancelled or given up meanwhile; nothing more is asked or paid."
        )
    return rows[0]


async def _advance(connection: Connection, id: int, told: dict[str, Any]) -> int:
    return _only(await fetch(connection, requests.advance(id, **told)), id)


async def _tested(connection: Connection, id: int, given: list[Tested], told: dict[str, Any]) -> int:
    once: dict[str, Tested] = {}
    for each in given:
        once.setdefault(each.key, each)
    rows = [{"number": number, **sources.row(each)} for number, each in enumerate(once.values())]
    return _only(await fetch(connection, requests.advance_tested(id, as_json(rows), **told)), id)


def _only(rows: list[int], id: int) -> int:
    if not rows:
        raise Reject(f"quote_over: quote {id} was cancelled or given up meanwhile; nothing more is asked or paid.")
    return rows[0]


async def _finish(
    connection: Connection, id: int, status: str, figures: Figures, accepted: list[str], told: dict[str, Any]
) -> int:
    rows = await fetch(connection, requests.finish(id, status, figures=figures, accepted=accepted, **told))
    if not rows:
        raise Reject(f"quote_over: quote {id} was cancelled or given up before it could end.")
    return rows[0]
