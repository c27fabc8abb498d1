"""The batches: filtered by the address, with their bars, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from retoma.app.retoma import Retoma
from retoma.model.batch import Batch, BatchState, Progress
from retoma.web.api.schemas.requests import Wanted
from retoma.web.console.batch_view import eta_of
from retoma.web.console.render import console_page
from retoma.web.console.speaking import spanner, speaker
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.cursors import cursor_of, opened
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

_ROWS = 50
_CSV_ROWS = 10_000
_PIECE = 200
_STATE = "|".join(BatchState)
_COLUMNS = ("id", "name", "pipeline", "queue", "state", "reason", "total", "done", "queued", "running", "completed",
            "skipped", "failed", "review", "cancelled", "percent", "spent", "unpriced", "created_at", "started_at",
            "finished_at", "last_progress_at", "labels")  # fmt: skip


class BatchListWanted(Wanted):
    """Which batches; what is empty does not apply."""

    state: Annotated[str, Field(pattern=f"^(({_STATE})(,({_STATE}))*)?$")] = ""
    pipeline: Annotated[str, Field(max_length=200)] = ""
    label: Annotated[str, Field(pattern="^([^=]+=.*)?$", max_length=700)] = ""
    q: Annotated[str, Field(max_length=200)] = ""
    cursor: Annotated[str, Field(max_length=200)] = ""

    @property
    def filters(self) -> dict[str, str]:
        """What is asked for, without the page."""
        return {name: value for name, value in self.model_dump(exclude={"cursor"}).items() if value}

    def address(self, **changes: str) -> str:
        """The query of the same filters with *changes*, from the first page on."""
        asked = {**self.filters, **changes}
        return urlencode({name: value for name, value in asked.items() if value}, safe=",")


async def _found(
    app: Retoma, visit: Visit, wanted: BatchListWanted, *, before: int | None, limit: int
) -> tuple[list[tuple[Batch, Progress]], bool]:
    """The batches that are wanted with how far each is, and whether more follow."""
    found = await app.batches.find(
        states=wanted.state.split(",") if wanted.state else None,
        pipeline=visit.only(wanted.pipeline or None),
        labels=dict([wanted.label.split("=", 1)]) if wanted.label else None,
        text=wanted.q or None,
        before=before,
        limit=limit + 1,
    )
    standing = await app.batches.standings([each.id for each in found[:limit]])
    rows = [(each, standing[each.id]) for each in found[:limit] if each.id in standing]
    return rows, len(found) > limit


@router.get("/batches")
@needs("read", limited=True)
async def show_batches(wanted: Annotated[BatchListWanted, Query()], visit: Here, request: Request) -> Response:
    """The batches, the newest first."""
    say = speaker(request)
    before = opened(wanted.cursor) if wanted.cursor else None
    rows, more = await _found(visit.app, visit, wanted, before=before, limit=_ROWS)
    # Counts over all batches are for those who may see all.
    now = await visit.app.system.overview(money=False) if visit.pipelines is None else None
    return console_page(
        request,
        "batches.html",
        current="batches",
        wanted=wanted,
        rows=rows,
        eta={batch.id: eta_of(standing, say) for batch, standing in rows},
        following=cursor_of(rows[-1][0].id) if more and rows else None,
        counts=now.batches if now else {},
        pipelines=sorted(visit.app.registry.own if visit.pipelines is None else visit.pipelines),
        states=list(BatchState),
        span=spanner(request),
    )


@router.get("/batches.csv")
@needs("read", limited=True)
async def export_batches(wanted: Annotated[BatchListWanted, Query()], visit: Here) -> Response:
    """What is filtered, as CSV, the newest first; 10,000 rows at most."""
    visit.only(wanted.pipeline or None)
    headers = {"Content-Disposition": 'attachment; filename="batches.csv"', "Cache-Control": "no-store"}
    return StreamingResponse(_lines(visit, wanted), media_type="text/csv; charset=utf-8", headers=headers)


async def _lines(visit: Visit, wanted: BatchListWanted) -> AsyncIterator[str]:
    yield "\ufeff" + _line(_COLUMNS)  # the mark with which spreadsheets know UTF-8
    before, more, told = None, True, 0
    while more and told < _CSV_ROWS:
        rows, more = await _found(visit.app, visit, wanted, before=before, limit=_PIECE)
        more = more and bool(rows)
        for batch, standing in rows:
            yield _line(_cells(batch, standing))
        told += len(rows)
        before = rows[-1][0].id if rows else None


def _cells(batch: Batch, standing: Progress) -> list[Any]:
    labels = " ".join(f"{name}={value}" for name, value in batch.labels.items())
    # The counts and the share are not on the row of a batch.
    told = [getattr(batch if hasattr(batch, name) else standing, name) for name in _COLUMNS[:-1]]
    return [*told, labels]


def _line(cells: Any) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([_harmless(each) for each in cells])
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, as a text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
