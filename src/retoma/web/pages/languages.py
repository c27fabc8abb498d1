"""What a browser asks for: a page or data, and in which language."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response

from retoma.web.words import LANGUAGES, language_of

TAGS = {"pt": "pt-BR", "en": "en"}
"""The languages of the pages, as HTML and Intl write them; the first is spoken to those who ask for neither."""
COOKIE = "retoma_lang"
_PARAMETER = "lang"
_YEAR = 365 * 86_400


def language_for(request: Request) -> str:
    """Which language this page is in: asked for in the address, chosen before, liked by the browser, Portuguese."""
    asked = getattr(request.state, "lang", None) or request.cookies.get(COOKIE, "")
    if asked in LANGUAGES:
        return asked
    return language_of(request.headers.get("accept-language", ""), otherwise=next(iter(TAGS)))


def take_language(request: Request) -> None:
    """Take ``?lang=`` out of the address, so that no route need know of it; it stays in the request's state."""
    pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    asked = [value for name, value in pairs if name == _PARAMETER]
    if asked:
        rest = [(name, value) for name, value in pairs if name != _PARAMETER]
        request.scope["query_string"] = urlencode(rest).encode("latin-1")
        request.state.lang = asked[-1].lower().partition("-")[0]


def keep_language(request: Request, response: Response) -> None:
    """Remember the language that was asked for in the address."""
    asked = getattr(request.state, "lang", None)
    if asked in LANGUAGES:
        path = base_of(request) or "/"
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, asked, max_age=_YEAR, path=path, samesite="strict", secure=secure, httponly=True)


def base_of(request: Request) -> str:
    """What stands before every path of ours: empty, or where the site is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def prefers_page(request: Request) -> bool:
    """Whether the caller would rather have HTML than JSON; who takes everything gets JSON."""
    weights: dict[str, float] = {}
    for part in request.headers.get("accept", "").split(","):
        kind, _, rest = part.partition(";")
        quality = rest.replace(" ", "").partition("q=")[2].partition(";")[0]
        try:
            weights[kind.strip().lower()] = float(quality or 1)
        except ValueError:
            continue
    rest_ = weights.get("application/*", weights.get("*/*", 0.0))
    return weights.get("text/html", 0.0) > weights.get("application/json", rest_)
