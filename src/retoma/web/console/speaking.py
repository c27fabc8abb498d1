"""What the pages of the console share: phrases in Python, spans of time, problems above a form, tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from retoma.model.view import View
from retoma.values.escaping import cell
from retoma.web.http import errors
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Visit
from retoma.web.pages.languages import language_for
from retoma.web.words import phrase

T = TypeVar("T")
Say = Callable[..., str]

_SHORT, _MINUTE, _HOUR, _DAY = 10, 60, 3600, 86_400


def speaker(request: Request) -> Say:
    """Says phrases in the language of the page."""
    return partial(phrase, language_for(request))


def spanner(request: Request) -> Callable[[float | None], str]:
    """Writes stretches of time as the language of the page writes numbers."""
    comma = language_for(request) == "pt"
    return lambda seconds: span(seconds).replace(".", ",") if comma else span(seconds)


def span(seconds: float | None) -> str:
    """A stretch of time in its two largest units; a short one with a part of a second. An unknown one is a dash."""
    if seconds is None or seconds <= 0:
        return "–" if seconds is None else "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _SHORT and seconds % 1:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    for unit, name, lesser, below in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // lesser
            return f"{whole // unit} {name}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def problem_of(request: Request, error: Exception) -> Any:
    """*error* as a page tells it above a form."""
    return errors.explained(request, error, language_for(request))[0]


async def changed(
    visit: Visit, act: Callable[[object], Awaitable[T]], *, made: Callable[[T], object] | None = None
) -> T:
    """What *act* gives, done in one transaction with its row of the audit; *made* tells the id of what came into being.
    For a form with fields, whose route is ``streamed`` and ``records``.
    """

    async def within(record: Recording) -> T:
        async with visit.app.transaction() as conn:
            result = await act(conn)
            await record(conn, made(result) if made else None)
        return result

    return await recorded(visit, within)


def as_csv(name: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Response:
    """A table that a spreadsheet opens; what it would read as a formula is quoted."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(headings)
    writer.writerows([cell(each) for each in row] for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text.getvalue().encode("utf-8-sig"), media_type="text/csv; charset=utf-8", headers=headers)


async def views_of(visit: Visit, page: str) -> list[View]:
    """The views that the reader sees above a list."""
    return await visit.app.system.views(visit.caller, page=page)
