"""What a browser keeps of somebody who signed in: a cookie with a session, and nothing that opens without it."""

from __future__ import annotations

import hashlib
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from retoma.app.access import local_token
from retoma.app.retoma import Retoma

_PLAIN = "retoma_session"
_BEFORE = "retoma_key"  # where earlier versions kept the key itself
_KEPT_SECONDS = 1.0


def cookie_of(request: Request) -> str:
    """The name of the cookie. Over https a browser takes one that begins so only from this very host, over https, for
    all paths; then two sites under one host are told apart by the name.
    """
    if request.url.scheme != "https":
        return _PLAIN
    base = _base(request)
    return f"__Host-{_PLAIN}" + (f"_{hashlib.sha256(base.encode()).hexdigest()[:8]}" if base else "")


def session_in(request: Request) -> str:
    """The session that the browser sends along; empty when there is none."""
    # The browser keeps it from other sites already; this is for browsers that do not.
    return "" if request.headers.get("sec-fetch-site") == "cross-site" else request.cookies.get(cookie_of(request), "")


def keep(request: Request, response: Response, text: str, *, hours: float) -> None:
    """Let the browser keep the session *text*."""
    response.set_cookie(cookie_of(request), text, max_age=int(hours * 3600), **_how(request))
    forget_key(request, response)


def forget(request: Request, response: Response) -> None:
    """Let the browser forget it."""
    response.delete_cookie(cookie_of(request), **_how(request))
    forget_key(request, response)


def forget_key(request: Request, response: Response) -> None:
    """Take away what an earlier version left in the browser."""
    if _BEFORE in request.cookies:
        secure = request.url.scheme == "https"
        response.delete_cookie(_BEFORE, path=_base(request) or "/", httponly=True, samesite="strict", secure=secure)


def _how(request: Request) -> dict[str, Any]:
    secure = request.url.scheme == "https"
    path = "/" if secure else (_base(request) or "/")
    return {"path": path, "httponly": True, "samesite": "strict", "secure": secure}


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


class Token:
    """The token of a server without keys, as it was within the last second. Who starts a server makes it, and 'retoma
    token' does; here it is only read.
    """

    def __init__(self, app: Retoma) -> None:
        self._home = app.settings.home
        self._text: str | None = None
        self._read_at: float | None = None

    def now(self) -> str | None:
        """It; None when there is none that can be believed."""
        if self._read_at is None or time.monotonic() - self._read_at >= _KEPT_SECONDS:
            self._text, self._read_at = local_token.known(self._home), time.monotonic()
        return self._text
