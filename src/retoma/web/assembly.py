"""What ``retoma.web`` gives: a whole site, or a router for an application of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from retoma.app.extension import load
from retoma.app.retoma import Retoma
from retoma.postgres.database import Database
from retoma.providers.factory import close
from retoma.system.concurrency import cancel_and_wait
from retoma.telemetry.sheet import Sheet
from retoma.web import packages
from retoma.web.api import (
    access,
    alerts,
    audit,
    batch_figures,
    batches,
    calls,
    cohorts,
    events,
    finding,
    jobs,
    operations,
    overview,
    pipelines,
    probes,
    queues,
    reviews,
    schedules,
    scrape,
    system,
    webhooks,
    workers,
)
from retoma.web.api.openapi import TAGS, Site
from retoma.web.console import menu
from retoma.web.console import router as console
from retoma.web.http import errors
from retoma.web.http.admission import Admission
from retoma.web.http.auth import SAFE, HostAuth, Principal, SiteContext, refuse_strange_hosts
from retoma.web.http.errors import Refusal
from retoma.web.http.headers import dressed
from retoma.web.http.methods import Heads, allowed, options
from retoma.web.http.stream import EventHub
from retoma.web.pages import login, oidc
from retoma.web.pages.languages import prefers_page
from retoma.web.pages.route import refused_page
from retoma.web.server.lifespan import Opening
from retoma.web.server.traced import Traced
from retoma.worker.watchdog import Watchdog

__all__ = ["Principal", "router", "site"]

_API = (
    batches,
    batch_figures,
    cohorts,
    overview,
    events,
    jobs,
    calls,
    queues,
    workers,
    schedules,
    operations,
    finding,
    system,
    audit,
    reviews,
    access,
    webhooks,
    pipelines,
    alerts,
)
_WORTH_COMPRESSING = 1000
_NO_SUCH_METHOD = 405
_NOT_COMPRESSED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/x-ndjson")
"""Streams are told in small pieces to many, and a compressor for each of them would cost more than it saves."""


def router(
    app: Retoma,
    *,
    allow_hosts: Iterable[str] = (),
    rounds: bool = True,
    auth: HostAuth | None = None,
    sheets: Sequence[Sheet] = (),
) -> APIRouter:
    """The API of *app*, to be included in a FastAPI application under any prefix; it opens and closes the app.

    *allow_hosts* are names under which it may be called, beside RETOMA_WEB_ALLOW_HOSTS and those of this machine.
    *rounds*: it makes the watchdog's rounds, so that whoever looks here is told when work stands still, even when no
    worker is alive. A process that makes them anyway says no. *auth* is given each request and says who asks, as a
    Principal, or None: then our own keys and sessions are looked at. With it, the token of this machine opens nothing.
    *sheets* are where this process and its neighbours count.
    """
    lifespan = _lifespan(app, allow_hosts, rounds=rounds, auth=auth, sheets=sheets)
    whole = APIRouter(lifespan=lifespan, generate_unique_id_function=_operation_id)
    for each in _API:
        whole.include_router(each.router)
    packages.serve(app.extensions)
    for extension in app.extensions:
        if extension.api is not None:
            whole.include_router(load(extension.api))
    return whole


def site(
    app: Retoma,
    *,
    allow_hosts: Iterable[str] = (),
    rounds: bool = True,
    auth: HostAuth | None = None,
    sign_in: str | None = None,
    sheets: Sequence[Sheet] = (),
) -> FastAPI:
    """An application that serves *app*: the API under /api/v1, the pages, /livez, /readyz, /metrics, /openapi.json and
    /docs.

    It stands by itself, or mounted in another under any prefix. *rounds*, *auth* and *sheets* are as in ``router``.
    *sign_in* is the address of the page where the application around it signs people in; ours is used without it.
    """
    made = Site(
        title="Retoma",
        version=version("retoma"),
        openapi_url=None,  # probes has a route of its own, with the same door as all others
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    # Routes are tried one after the other: where most requests go stands first.
    packages.serve(app.extensions)
    for extension in app.extensions:
        for each in extension.site:
            made.include_router(load(each.router), prefix=each.prefix, include_in_schema=each.described)
    made.include_router(console.router)
    hosts = tuple(allow_hosts)
    made.include_router(router(app, allow_hosts=hosts, rounds=rounds, auth=auth, sheets=sheets), prefix="/api/v1")
    made.include_router(probes.router)
    made.include_router(scrape.router)
    made.include_router(probes.pages)
    made.include_router(oidc.router)
    made.include_router(login.router)
    made.tags = {**TAGS, **{tag: text for each in app.extensions for tag, text in each.tags.items()}}
    made.state.nav = (menu.HOME, *(link for each in app.extensions for link in each.links))
    made.add_exception_handler(HTTPException, _nowhere)
    made.add_middleware(GZipMiddleware, minimum_size=_WORTH_COMPRESSING, exclude_content_types=_NOT_COMPRESSED)
    made.add_middleware(Heads)
    made.add_middleware(Traced)
    lifespan = _lifespan(app, hosts, rounds=rounds, auth=auth, sign_in=sign_in, sheets=sheets)
    made.add_middleware(Opening, app=app, lifespan=lifespan)
    return made


def _lifespan(
    app: Retoma,
    allow_hosts: Iterable[str],
    *,
    rounds: bool,
    auth: HostAuth | None = None,
    sign_in: str | None = None,
    sheets: Sequence[Sheet] = (),
) -> Any:
    hosts = frozenset(name.lower() for name in (*app.settings.web_allow_hosts, *allow_hosts))

    @asynccontextmanager
    async def opened(_: object) -> AsyncIterator[Mapping[str, Any]]:
        async with app:
            newsroom, place = EventHub(app), SiteContext(app, hosts, Admission(app.settings), auth, sign_in)
            try:
                async with scrape.counted(app, newsroom, sheets) as counts, _rounds(app) if rounds else nullcontext():
                    yield {"retoma": place, "newsroom": newsroom, "sheets": counts}
            finally:
                await newsroom.close()
                await place.close()
                await close(app.registry.providers)

    return opened


@asynccontextmanager
async def _rounds(app: Retoma) -> AsyncIterator[None]:
    """The watchdog's rounds meanwhile."""
    # Connections of its own: a server that has lent out all others must still be able to say that work stands still.
    database = Database(app.database.url, app.settings, most=2, least=0, idle=60.0)
    await database.open()
    going = asyncio.create_task(Watchdog(lambda: database).keep_looking())
    try:
        yield
    finally:
        await cancel_and_wait(going)
        await database.close()


async def _nowhere(request: Request, error: Exception) -> Response:
    """No route was there for the request, or none for its method."""
    try:
        refuse_strange_hosts(request)
    except Refusal as refusal:
        error = refusal
    if isinstance(error, HTTPException) and error.status_code == _NO_SUCH_METHOD:
        if request.method == "OPTIONS":
            return dressed(request, options(request))
        error.headers = {"Allow": ", ".join(allowed(request))}
    if prefers_page(request) and request.method in SAFE:
        return dressed(request, refused_page(request, error))
    return dressed(request, errors.answer(request, error))


def _operation_id(route: APIRoute) -> str:
    first, *rest = route.name.split("_")
    return first + "".join(word.capitalize() for word in rest)
