"""Limits: what providers allow, what is used of it, who cools and who waits; change one, close a breaker."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.errors import ConfigurationError
from retoma.model.machine import LimitState
from retoma.web.api.schemas import requests
from retoma.web.console.change import Fields, changed, maybe
from retoma.web.console.figures import machine_page
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/limits", route_class=PageRoute)

_MOST = 10**9
Name = Annotated[requests.Text, Path()]


def standing(limit: LimitState) -> str:
    """How a limit stands, in one word of ``states.toml``."""
    if limit.breaker != "closed":
        return limit.breaker
    return "cooling" if limit.cooled_until is not None else "closed"


@router.get("")
@needs("read")
async def list_limits(visit: Here, request: Request, told: Annotated[str, Query(max_length=40)] = "") -> Response:
    """Every limit, those that let nothing through first."""
    return await _page(visit, request, told=told)


async def _page(
    visit: Visit, request: Request, *, told: str = "", wrong: str = "", given: Fields | None = None
) -> Response:
    found = await visit.app.calls.limits_now()
    order = ("open", "trying", "cooling", "closed")
    found.sort(key=lambda each: (order.index(standing(each)), each.name))
    return machine_page(
        request,
        "limits.html",
        current="limits",
        limits=found,
        standing=standing,
        told=told,
        wrong=wrong,
        given=given or {},
    )


@router.post("")
@needs("operate", streamed=True)
async def put_limit(visit: Here, request: Request) -> Response:
    """Say what a provider allows, by the name in the form."""
    return await _put(visit, request, None)


@router.post("/{name:path}/change")
@needs("operate", streamed=True)
async def set_limit(name: Name, visit: Here, request: Request) -> Response:
    """Say what a provider allows. It holds from the next call on."""
    return await _put(visit, request, name)


async def _put(visit: Visit, request: Request, name: str | None) -> Response:
    async def do(conn: object, said: Fields) -> None:
        called = (name or said.get("name", "")).strip()
        if not called:
            raise ConfigurationError("A limit needs a name, such as openai/gpt-4o.")
        allowed = {
            "requests": maybe(said.get("requests", ""), "Requests a minute", 1, _MOST),
            "tokens": maybe(said.get("tokens", ""), "Tokens a minute", 1, _MOST),
            "at_once": maybe(said.get("at_once", ""), "At once", 1, _MOST),
        }
        visit.noted.update(limit=called, **allowed)
        await visit.app.calls.set_limit(called, **allowed, conn=conn)

    async def again(wrong: str, said: Fields) -> Response:
        return await _page(visit, request, wrong=wrong, given=said)

    return await changed(visit, request, do, back="/console/limits", told="changed", again=again)


@router.post("/{name:path}/close")
@needs("operate", streamed=True)
async def close_breaker(name: Name, visit: Here, request: Request) -> Response:
    """Let a provider be tried again now, and wake those who wait."""

    async def do(conn: object, _said: Fields) -> None:
        visit.noted["woken"] = await visit.app.calls.close_breaker(name, conn=conn)

    return await changed(visit, request, do, back="/console/limits", told="closed")


@router.post("/{name:path}/remove")
@needs("operate", streamed=True)
async def remove_limit(name: Name, visit: Here, request: Request) -> Response:
    """Forget a limit, and wake those who wait for it."""

    async def do(conn: object, _said: Fields) -> None:
        await visit.app.calls.remove_limit(name, conn=conn)

    return await changed(visit, request, do, back="/console/limits", told="removed")
