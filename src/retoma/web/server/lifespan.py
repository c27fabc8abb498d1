"""The site in somebody's own application: mounted there, it opens the app by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from retoma.app.retoma import Retoma
from retoma.errors import DatabaseError
from retoma.web.http import errors
from retoma.web.http.headers import dressed
from retoma.web.pages.languages import prefers_page
from retoma.web.pages.route import refused_page


class Opening:
    """Opens the app with the first request when nobody did: an application that is mounted in another never hears
    that the server starts. It is closed when the event loop ends, for that cancels whatever waits in it.
    """

    def __init__(
        self,
        inner: ASGIApp,
        *,
        app: Retoma,
        lifespan: Callable[[object], AbstractAsyncContextManager[Mapping[str, Any]]],
    ) -> None:
        self._inner = inner
        self._app = app
        self._lifespan = lifespan
        self._keeper: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Mapping[str, Any]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._may_pass(scope):
            try:
                scope["state"] = {**scope.get("state", {}), **await self._opened()}
            except DatabaseError as error:
                request = Request(scope, receive)
                told = refused_page if prefers_page(request) else errors.answer
                await dressed(request, told(request, error))(scope, receive, send)
                return
        await self._inner(scope, receive, send)

    def _may_pass(self, scope: Scope) -> bool:
        place = scope.get("state", {}).get("retoma")
        if place is not None and place.app is self._app:  # or it is another's, beside whose routes we are mounted
            return True
        return str(scope["path"]) == f"{scope.get('root_path', '')}/livez"  # which asks nobody

    async def _opened(self) -> Mapping[str, Any]:
        if self._keeper is None or self._keeper.done():
            loop = asyncio.get_running_loop()
            self._ready = loop.create_future()
            self._keeper = loop.create_task(self._keep(self._ready))
        return await asyncio.shield(self._ready)

    async def _keep(self, ready: asyncio.Future[Mapping[str, Any]]) -> None:
        try:
            async with self._lifespan(None) as state:
                ready.set_result(state)
                await asyncio.Event().wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)  # whoever waits is told; the next request tries again
        finally:
            ready.cancel()
