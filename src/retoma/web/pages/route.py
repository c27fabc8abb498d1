"""The door of pages: as that of the API, but who asks for a page is answered with one, also when it is refused. At the
address of a page a program can be given data.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from starlette.responses import RedirectResponse
from starlette.routing import Match
from starlette.types import Scope

from retoma.web.http import errors
from retoma.web.http.auth import SAFE, SiteContext
from retoma.web.http.route import ApiRoute
from retoma.web.pages.languages import base_of, keep_language, language_for, prefers_page, take_language
from retoma.web.pages.render import page

_UNKNOWN = ("auth_missing", "auth_invalid")


class PageRoute(ApiRoute):
    """A route that may be asked for a page: ``?lang=`` is taken, and problems are pages too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        enter = super().get_route_handler()

        async def enter_speaking(request: Request) -> Response:
            take_language(request)
            response = await enter(request)
            keep_language(request, response)
            return _varied(response)

        return enter_speaking

    def is_page(self, request: Request) -> bool:
        return prefers_page(request) or not self.include_in_schema

    def told(self, request: Request, error: Exception) -> Response:
        return refused_page(request, error) if prefers_page(request) else super().told(request, error)


class DataRoute(ApiRoute):
    """A route for data at the address of a page, for whoever does not prefer HTML. Include it before the page: a
    request that prefers HTML passes it by.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match is not Match.NONE and prefers_page(Request(scope)):
            return Match.NONE, {}
        return match, child

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        enter = super().get_route_handler()

        async def enter_as_program(request: Request) -> Response:
            return _varied(await enter(request))

        return enter_as_program


def _varied(response: Response) -> Response:
    """*response*, which says that another ``Accept`` is answered in another way."""
    named = {each.strip().lower() for each in response.headers.get("vary", "").split(",")}
    if "accept" not in named:
        response.headers.add_vary_header("Accept")
    return response


def refused_page(request: Request, error: Exception) -> Response:
    """A problem for people: the way to sign in, a notice in the page that asked, or a page of its own."""
    problem, headers = errors.explained(request, error, language_for(request))
    inside = request.headers.get("hx-request") == "true"
    if problem.code in _UNKNOWN:
        return _to_sign_in(request, inside=inside)
    if inside:
        headers |= {"HX-Retarget": "#notices", "HX-Reswap": "innerHTML", "HX-Push-Url": "false"}
    return page(
        request, "notice.html" if inside else "problem.html", status=problem.status, headers=headers, problem=problem
    )


def _to_sign_in(request: Request, *, inside: bool) -> Response:
    # After a change nobody is sent back to it: it would be done by a GET, or not at all.
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    asked = request.method in SAFE and not inside
    here: SiteContext | None = getattr(request.state, "retoma", None)
    form = (here.sign_in if here is not None else None) or f"{base_of(request)}/login"
    place = form + (f"?{urlencode({'next': back})}" if asked else "")
    if inside:
        return Response(status_code=401, headers={"HX-Redirect": place})
    return RedirectResponse(place, 303)
