"""Signing in with an OpenID provider: there, and back once."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from retoma.app.access.oidc import LASTS, Oidc, OidcRefused
from retoma.app.access.sessions import Opened
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError
from retoma.web.http.auth import SiteContext, needs, refuse_strange_hosts, visit_of_user, write_refused_sign_in
from retoma.web.pages import PageRoute, page
from retoma.web.pages.languages import base_of
from retoma.web.pages.login import asked, local, opened

router = APIRouter(prefix="/login/oidc", route_class=PageRoute, include_in_schema=False)

_COOKIE = "retoma_oidc"
_LONGEST = 4000


def _provider(app: Retoma) -> Oidc:
    return Oidc(lambda: app.database)


@router.get("")
@needs(None)
async def begin_sign_in(request: Request) -> Response:
    """To the provider, with a state that only this browser can bring back."""
    refuse_strange_hosts(request)
    here: SiteContext = request.state.retoma
    place = local(request.query_params.get("next", ""), request)
    try:
        started = await here.room(_provider).begin(place, returns_to=_back(request))
    except OidcRefused as refused:
        return await _refused(request, place, refused)
    response = RedirectResponse(started.url, 303)
    # Lax: the provider is another site, and the browser comes back from there.
    response.set_cookie(_COOKIE, started.browser, max_age=int(LASTS), samesite="lax", **_how(request))
    return response


@router.get("/callback")
@needs(None)
async def finish_sign_in(request: Request) -> Response:
    """Back from the provider: a session for whoever it vouches for, when they have a role here."""
    refuse_strange_hosts(request)
    here: SiteContext = request.state.retoma
    given, base = request.query_params, f"{base_of(request)}/"
    state, code, browser = (text[:_LONGEST] for text in (
        given.get("state", ""), given.get("code", ""), request.cookies.get(_COOKIE, "")
    ))  # fmt: skip
    try:
        who, place = await here.room(_provider).finish(state, code, browser=browser, returns_to=_back(request))
        people = here.app.access.people
        user = await people.arrive(who.name, who.role, issuer=who.issuer, subject=who.subject)
    except (OidcRefused, ConfigurationError) as refused:
        return await _refused(request, base, refused)
    if user is None:
        return await _refused(request, base, OidcRefused("The account is locked, or another one has its name."))
    done = await opened(request, visit_of_user(request, user), Opened("user", user_id=user.id), place)
    assert done is not None
    # The session's cookie is not sent where another site led the browser, so our own page leads it on.
    response = page(request, "signed.html", nav=(), place=place)
    response.raw_headers += [header for header in done.raw_headers if header[0] == b"set-cookie"]
    response.delete_cookie(_COOKIE, samesite="lax", **_how(request))
    response.headers["Cache-Control"] = "no-store"
    return response


async def _refused(request: Request, place: str, why: OidcRefused | ConfigurationError) -> Response:
    write_refused_sign_in(request, why=why.message)
    return await asked(request, place, "oidc")


def _back(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', '')}{base_of(request)}/login/oidc/callback"


def _how(request: Request) -> dict[str, Any]:
    return {"path": f"{base_of(request)}/login/oidc", "httponly": True, "secure": request.url.scheme == "https"}
