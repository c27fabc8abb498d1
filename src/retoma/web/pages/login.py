"""Signing in: a browser keeps a session in a cookie that no script can read. And the files that pages need."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from retoma.app.access import audit, local_token
from retoma.app.access.sessions import Opened
from retoma.app.extension import Link
from retoma.errors import NotFound
from retoma.postgres.faults import UNAVAILABLE
from retoma.web.http import session_cookie
from retoma.web.http.auth import (
    ENVIRONMENT,
    LOCAL,
    SiteContext,
    Visit,
    address_of,
    is_keyless,
    named_by,
    needs,
    opened_by,
    refuse_other_sites,
    refuse_strange_hosts,
    signed_in,
    visit_of_user,
)
from retoma.web.http.headers import correlation_of
from retoma.web.http.session_cookie import Token
from retoma.web.pages import PageRoute, page
from retoma.web.pages.assets import assets
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_LARGEST_FORM = 4000
_LONGEST_NAME = 200
_DOTS = re.compile(r"/(?:\.|%2e){2}(?:/|$)", re.IGNORECASE)
_FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/")
@needs(None)
async def get_home(request: Request) -> Response:
    """The first page of the menu; where pages are not served, the description of the API."""
    refuse_strange_hosts(request)
    nav: tuple[Link, ...] = getattr(request.app.state, "nav", ())
    return RedirectResponse(base_of(request) + (nav[0].path if nav else "/docs"), 307)


@router.get("/login")
@needs(None)
async def show_login(request: Request) -> Response:
    """The form that asks for a key; or, with a link that the server printed, a session at once."""
    refuse_strange_hosts(request)
    if link := request.query_params.get("token", ""):
        return await _follow(request, link)
    return await asked(request, local(request.query_params.get("next", ""), request))


async def asked(
    request: Request, place: str, refused: Literal["key", "link", "name", "oidc"] | None = None, *, name: str = ""
) -> Response:
    """The form, and what was refused before. No menu stands above it: all that is there leads back here."""
    here: SiteContext = request.state.retoma
    try:
        people = bool((await here.app.access.tally()).people)
    except UNAVAILABLE:  # who comes by a key is told at the key itself what is wrong
        people = True
    given: dict[str, Any] = {
        "next": place,
        "refused": refused,
        "people": people,
        "oidc": here.app.settings.oidc_issuer,
        "name": name[:_LONGEST_NAME],
        "nav": (),
    }
    return page(request, "login.html", status=401 if refused else 200, **given)


@router.post("/login")
@needs(None)
async def sign_in(request: Request) -> Response:
    """Open a session, when the key or the account opens anything, and go where the visitor wanted to go."""
    form = await _form(request)
    place, text = local(form.get("next", ""), request), form.get("key", "").strip()
    if name := form.get("name", ""):
        return await _sign_in_by_name(request, name, form.get("password", ""), place)
    visit = await opened_by(request, text, action="session.refuse") if text else None
    if visit is None:
        return await asked(request, place, "key")
    match visit.caller:
        case "environment" | "local" as by:
            by_what = Opened("environment" if by == ENVIRONMENT else "token", secret=text)
        case id:
            by_what = Opened("key", key_id=id)
    return await opened(request, visit, by_what, place) or await asked(request, place, "key")


async def _sign_in_by_name(request: Request, name: str, password: str, place: str) -> Response:
    user = await named_by(request, name, password)
    if user is None:
        return await asked(request, place, "name", name=name)
    visit, by_what = visit_of_user(request, user), Opened("user", user_id=user.id)
    return await opened(request, visit, by_what, place) or await asked(request, place, "name", name=name)


async def _follow(request: Request, link: str) -> Response:
    """A link is followed: it opens one session, and nothing afterwards."""
    place: SiteContext = request.state.retoma
    back = local(request.query_params.get("next", ""), request)
    token = place.room(Token).now()
    made = None if token is None else local_token.made_of(link, token)
    if made is not None and await is_keyless(place):
        visit = Visit(place.app, correlation_of(request), LOCAL, address=address_of(request))
        by_what = Opened("token", secret=token, link=link, made=made)
        if response := await opened(request, visit, by_what, back):
            return response
    if await signed_in(request):  # who follows it again is in already
        return RedirectResponse(back, 303)
    return await asked(request, back, "link")


async def opened(request: Request, visit: Visit, by_what: Opened, place: str) -> Response | None:
    """The way to *place* with a new session; None when its link was followed before."""
    entry = _entry(request, visit, "session.open")
    async with visit.app.transaction() as conn:
        made = await visit.app.sessions.open(by_what, address=visit.address, conn=conn)
        if made is None:
            return None
        entry = replace(entry, object_id=made[1])
        await visit.app.audit.write(entry, conn=conn)
    audit.tell(entry)
    response = RedirectResponse(place, 303)
    session_cookie.keep(request, response, made[0], hours=visit.app.settings.session_hours)
    return response


def _entry(request: Request, visit: Visit, action: str) -> audit.Entry:
    return audit.Entry(
        who=visit.caller,
        name=visit.name,
        via="http",
        address=visit.address,
        route=f"{request.method} {request.scope['route'].path}",
        action=action,
        object_kind="session",
        object_id=visit.session_id,
        correlation_id=visit.correlation_id,
        outcome="done",
    )


@router.post("/logout")
@needs(None)
async def sign_out(request: Request) -> Response:
    """End the session, also for whoever else has it."""
    await _form(request)
    visit = await signed_in(request)
    if visit is not None and visit.session_id is not None:
        entry = _entry(request, visit, "session.end")
        async with visit.app.transaction() as conn:
            await visit.app.sessions.end(visit.session_id, conn=conn)
            await visit.app.audit.write(entry, conn=conn)
        audit.tell(entry)
    response = RedirectResponse(f"{base_of(request)}/login", 303)
    session_cookie.forget(request, response)
    return response


@router.get("/static/{digest}/{name:path}")
@needs(None)
async def get_asset(digest: str, name: str, request: Request) -> Response:
    """A file of the pages. Its content is in its address, so it may be kept for ever."""
    refuse_strange_hosts(request)
    asset = assets().get(name)
    if asset is None:
        raise NotFound("There is no such file.")
    # A page of the version before may still ask for the old address: it gets the file, and keeps it not.
    headers = {"Cache-Control": _FOR_EVER} if digest == asset.digest else {}
    return Response(asset.body, media_type=asset.kind, headers=headers)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form that came from a page of ours."""
    refuse_strange_hosts(request)
    refuse_other_sites(request)
    return await fields_of(request, largest=_LARGEST_FORM)


def local(place: str, request: Request) -> str:
    """*place* when it is a path of this site; a sign-in must not send anybody elsewhere."""
    # "//host" and "/\\host" are other sites to a browser, and control characters are dropped by it before it looks.
    base = base_of(request)
    plain = place.startswith(f"{base}/") and place.isprintable() and place[len(base) + 1 :][:1] not in ("/", "\\")
    # Nor out of the prefix under which we stand, by dots that a browser resolves before it asks.
    return place if plain and not _DOTS.search(place.partition("?")[0]) else f"{base}/"
