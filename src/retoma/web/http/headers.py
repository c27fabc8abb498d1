"""What every answer carries: the id that follows the work, and what a browser must not do with it."""

from __future__ import annotations

import re
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

_SAFE = re.compile(r"[A-Za-z0-9._:/+=@-]{8,128}")
_TRACE = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")

_ALWAYS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_FRAMES_OF_OURS = "frame-ancestors 'self'"
_YEAR = 365 * 86_400


def correlation_of(request: Request) -> str:
    """The id that the caller gave this request: its own, or that of the trace it belongs to (W3C Trace Context); else
    one that is made for it.
    """
    if not hasattr(request.state, "correlation_id"):
        given = request.headers.get("x-correlation-id", "")
        trace = _TRACE.fullmatch(request.headers.get("traceparent", ""))
        known = given if _SAFE.fullmatch(given) else trace and trace[1]
        request.state.correlation_id = known or uuid4().hex
    return str(request.state.correlation_id)


def dressed(request: Request, response: Response) -> Response:
    """*response* with the headers that every answer has; those it has already stay."""
    for name, value in _ALWAYS.items():
        response.headers.setdefault(name, value)
    # For browsers that do not know frame-ancestors, which says the same.
    framed = _FRAMES_OF_OURS in response.headers["Content-Security-Policy"]
    response.headers.setdefault("X-Frame-Options", "SAMEORIGIN" if framed else "DENY")
    if request.url.scheme == "https":  # as a proxy says that is believed
        response.headers.setdefault("Strict-Transport-Security", f"max-age={_YEAR}")
    response.headers["X-Correlation-Id"] = correlation_of(request)
    return response
