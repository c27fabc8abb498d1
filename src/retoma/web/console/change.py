"""What a form of the console changes: done in one transaction with its row in the audit, then shown on its page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from retoma.errors import ConfigurationError, Conflict
from retoma.web.http import errors
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Visit
from retoma.web.http.errors import Refusal
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of, language_for

_LARGEST = 200_000
_UNFIT = 422

Fields = dict[str, str]


async def changed(
    visit: Visit,
    request: Request,
    do: Callable[[object, Fields], Awaitable[object]],
    *,
    back: str,
    told: str,
    again: Callable[[str, Fields], Awaitable[Response]] | None = None,
) -> Response:
    """Do what the form says and lead *back* to the page, which says what was *told*. What cannot be done is said on the
    same page, made *again* with what was written in the form.
    """
    said = await fields_of(request, largest=_LARGEST)

    async def act(record: Recording) -> None:
        async with visit.app.transaction() as conn:
            await do(conn, said)
            await record(conn)

    try:
        await recorded(visit, act)
    except (ConfigurationError, Conflict, Refusal) as error:
        if again is None:
            raise
        visit.unchanged = True
        problem, _ = errors.explained(request, error, language_for(request))
        faults = " ".join(fault.detail for fault in problem.errors)
        response = await again(faults or problem.detail, said)
        response.status_code = _UNFIT
        return response
    return led(request, back, told=told)


def led(request: Request, path: str, **query: str) -> Response:
    """The way to another page of the site, which may have a query already; what is empty is left out of it."""
    more = urlencode({name: value for name, value in query.items() if value})
    mark = "&" if "?" in path else "?"
    return RedirectResponse(f"{base_of(request)}{path}" + (f"{mark}{more}" if more else ""), 303)


def whole(text: str, what: str, least: int, most: int) -> int:
    """The number that somebody wrote in a field."""
    bare = text.strip().replace(".", "").replace(",", "").replace(" ", "")
    if not (bare.isascii() and bare.isdecimal() and len(bare) < 19 and least <= int(bare) <= most):  # noqa: PLR2004
        raise ConfigurationError(f"{what} must be a whole number between {least} and {most}, not {text[:40]!r}.")
    return int(bare)


def maybe(text: str, what: str, least: int, most: int) -> int | None:
    """The same; an empty field is none."""
    return whole(text, what, least, most) if text.strip() else None


def names_of(values: Any) -> list[str]:
    """What a list of things is called, each once, in order."""
    return sorted({str(each) for each in values if each})
