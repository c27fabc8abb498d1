"""Goes on with the trace of a caller: what a request enqueues belongs to it."""

from __future__ import annotations

from opentelemetry import context as contexts
from starlette.types import ASGIApp, Receive, Scope, Send

from retoma.telemetry.tracing import parent_in


class Traced:
    """Makes the span that the header ``traceparent`` names the parent of whatever the request does."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope.get("headers", ()) if name == b"traceparent"]
        parent = parent_in(given[0].decode("latin-1")) if len(given) == 1 else None
        if parent is None:
            await self._inner(scope, receive, send)
            return
        token = contexts.attach(parent)
        try:
            await self._inner(scope, receive, send)
        finally:
            contexts.detach(token)
