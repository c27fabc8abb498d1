"""Signing in: a browser keeps the key in a cookie that no script can read. And the files that pages need."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from retoma.errors import NotFound
from retoma.web.pages import Entry, PageDoor, page
from retoma.web.pages.assets import assets
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of
from retoma.web.visits import COOKIE, needs, opened_by, refuse_other_sites, refuse_strange_hosts

router = APIRouter(route_class=PageDoor, include_in_schema=False)

_LARGEST_FORM = 4000
_DOTS = re.compile(r"/(?:\.|%2e){2}(?:/|$)", re.IGNORECASE)
_FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/")
@needs(None)
async def get_home(request: Request) -> Response:
    """The first page there is."""
    refuse_strange_hosts(request)
    nav: tuple[Entry, ...] = getattr(request.app.state, "nav", ())
    if not nav:
        raise NotFound("There is no page here; the API is at /api/v1.")
    return RedirectResponse(base_of(request) + nav[0].path, 307)


@router.get("/login")
@needs(None)
async def show_login(request: Request) -> Response:
    """The form that asks for a key."""
    refuse_strange_hosts(request)
    return page(request, "login.html", next=_local(request.query_params.get("next", ""), request), refused=False)


@router.post("/login")
@needs(None)
async def sign_in(request: Request) -> Response:
    """Keep the key in the browser, when it opens anything, and go where the visitor wanted to go."""
    form = await _form(request)
    place, text = _local(form.get("next", ""), request), form.get("key", "").strip()
    if not text or await opened_by(request, text) is None:
        return page(request, "login.html", status=401, next=place, refused=True)
    response = RedirectResponse(place, 303)
    response.set_cookie(COOKIE, text, **_kept(request))
    return response


@router.post("/logout")
@needs(None)
async def sign_out(request: Request) -> Response:
    """Forget the key."""
    await _form(request)
    response = RedirectResponse(f"{base_of(request)}/login", 303)
    response.delete_cookie(COOKIE, **_kept(request))
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


def _local(place: str, request: Request) -> str:
    """*place* when it is a path of this site; a sign-in must not send anybody elsewhere."""
    # "//host" and "/\\host" are other sites to a browser, and control characters are dropped by it before it looks.
    base = base_of(request)
    plain = place.startswith(f"{base}/") and place.isprintable() and place[len(base) + 1 :][:1] not in ("/", "\\")
    # Nor out of the prefix under which we stand, by dots that a browser resolves before it asks.
    return place if plain and not _DOTS.search(place.partition("?")[0]) else f"{base}/"


def _kept(request: Request) -> dict[str, Any]:
    return {
        "path": base_of(request) or "/",
        "httponly": True,
        "samesite": "strict",
        "secure": request.url.scheme == "https",
    }
