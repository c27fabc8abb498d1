"""Methods that every resource has without a route of their own: HEAD wherever GET is, and OPTIONS."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


class Heads:
    """A HEAD is a GET whose answer ends with its headers; so does whatever was to go on for long."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._inner(scope, receive, send)
            return
        over = False

        async def told(message: Message) -> None:
            nonlocal over
            if message["type"] == "http.response.start":
                await send(message)
                return
            if over:
                raise OSError("A HEAD has no body.")  # as if the caller had gone: a stream ends by this
            over = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        try:
            await self._inner({**scope, "method": "GET"}, receive, told)
        except (ClientDisconnect, OSError):
            if not over:
                raise


def allowed(request: Request) -> list[str]:
    """Every method that the path of *request* knows, whichever of several routes has it."""
    found = {method for method in _METHODS if _is_there(request, method)}
    return sorted(found | {"OPTIONS"} | ({"HEAD"} if "GET" in found else set()))


def _is_there(request: Request, method: str) -> bool:
    asked = {**request.scope, "method": method}
    return any(route.matches(dict(asked))[0] is Match.FULL for route in request.app.routes)


def options(request: Request) -> Response:
    """What can be done here."""
    return Response(status_code=204, headers={"Allow": ", ".join(allowed(request))})
