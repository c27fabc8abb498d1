"""The API over HTTP: a whole site, or a router for an application of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from retoma.app import Retoma
from retoma.providers.choose import close
from retoma.web import (
    batches,
    calls,
    classification,
    documents,
    embeddings,
    events,
    jobs,
    probes,
    problems,
    queues,
    schedules,
    signing,
    system,
    workers,
)
from retoma.web.headers import dressed
from retoma.web.mounting import Opening
from retoma.web.pages import classifier
from retoma.web.problems import Refusal
from retoma.web.stream import Newsroom
from retoma.web.visits import Place, refuse_strange_hosts

__all__ = ["router", "site"]

NOUNS = (batches, events, jobs, calls, queues, workers, schedules, system, embeddings)
"""What the API has; a noun with ``is_for(app)`` only where that is true."""
PAGES: tuple[Any, ...] = (documents, classifier)
"""Modules of pages, in the order of the header; each is served when the app has what it needs."""
_WORTH_COMPRESSING = 1000


def router(app: Retoma, *, allow_hosts: Iterable[str] = ()) -> APIRouter:
    """The API of *app*, to be included in a FastAPI application under any prefix; it opens and closes the app.

    *allow_hosts* are names under which it may be called, beside RETOMA_WEB_ALLOW_HOSTS and those of this machine.
    """
    whole = APIRouter(lifespan=_lifespan(app, allow_hosts), generate_unique_id_function=_operation_id)
    for noun in NOUNS:
        if not hasattr(noun, "is_for") or noun.is_for(app):
            whole.include_router(noun.router)
    return whole


def site(app: Retoma, *, allow_hosts: Iterable[str] = ()) -> FastAPI:
    """An application that serves *app*: the API under /api/v1, the pages, /livez, /readyz, /openapi.json and /docs.

    It stands by itself, or mounted in another under any prefix.
    """
    made = FastAPI(
        title="Retoma",
        version=version("retoma"),
        openapi_url=None,  # probes has a route of its own, with the same door as all others
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    # Routes are tried one after the other: where most requests go stands first.
    shown = [each for each in PAGES if each.is_for(app)]
    for each in shown:
        made.include_router(each.router)
    hosts = tuple(allow_hosts)
    made.include_router(router(app, allow_hosts=hosts), prefix="/api/v1")
    made.include_router(probes.router)
    if classification.is_for(app):
        made.include_router(classification.router, prefix=classification.PREFIX)
        # Where its first users knew the routes; described once.
        made.include_router(classification.router, include_in_schema=False)
    made.include_router(signing.router)
    made.state.nav = tuple(each.ENTRY for each in shown)
    made.add_exception_handler(HTTPException, _nowhere)
    # Streams are left alone: it knows text/event-stream.
    made.add_middleware(GZipMiddleware, minimum_size=_WORTH_COMPRESSING)
    made.add_middleware(Opening, app=app, lifespan=_lifespan(app, hosts))
    return made


def _lifespan(app: Retoma, allow_hosts: Iterable[str]) -> Any:
    hosts = frozenset(name.lower() for name in (*app.settings.web_allow_hosts, *allow_hosts))

    @asynccontextmanager
    async def opened(_: object) -> AsyncIterator[Mapping[str, Any]]:
        async with app:
            newsroom = Newsroom(app)
            try:
                yield {"retoma": Place(app, hosts), "newsroom": newsroom}
            finally:
                await newsroom.close()
                await close(app.front.known)

    return opened


async def _nowhere(request: Request, error: Exception) -> Response:
    """No route was there for the request, or none for its method."""
    try:
        refuse_strange_hosts(request)
    except Refusal as refusal:
        error = refusal
    return dressed(request, problems.answer(request, error))


def _operation_id(route: APIRoute) -> str:
    first, *rest = route.name.split("_")
    return first + "".join(word.capitalize() for word in rest)
