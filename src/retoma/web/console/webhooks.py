"""Webhooks: where messages go, whether they arrive, and the log of each; sent again with one button."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.app.access.keys import ADMIN
from retoma.commands.webhooks import KINDS, USUAL
from retoma.errors import RetomaError
from retoma.web.api.access import in_one
from retoma.web.console.render import console_page
from retoma.web.http import errors
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of, language_for
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/webhooks", route_class=PageRoute)

_LARGEST_FORM = 10_000
_PAGE = 50
_UNFIT = 422

Id = Annotated[str, Path(min_length=1, max_length=100)]
State = Literal["", "pending", "delivered", "failed"]
Told = Literal["", "tested", "enabled", "disabled", "removed", "replayed"]


@router.get("")
@needs(ADMIN)
async def show_webhooks(
    visit: Here,
    request: Request,
    endpoint: Annotated[str, Query(max_length=100)] = "",
    state: Annotated[State, Query()] = "",
    told: Annotated[Told, Query()] = "",
) -> Response:
    """The endpoints and the newest messages, of all or of one."""
    return await _shown(visit, request, endpoint=endpoint, state=state, told=told)


async def _shown(
    visit: Visit, request: Request, *, endpoint: str = "", state: str = "", status: int = 200, **values: Any
) -> Response:
    hooks = visit.app.webhooks
    endpoints = await hooks.all()
    found = await hooks.deliveries(endpoint or None, state=state or None, limit=_PAGE)
    given = {
        "told": "",
        "problem": None,
        "secret": None,
        "said": {},
        "endpoints": endpoints,
        "urls": {each.id: each.url for each in endpoints},
        "deliveries": found,
        "endpoint": endpoint,
        "state": state,
        "most": _PAGE,
        "kinds": list(KINDS),
        "usual": USUAL,
        "counts": {
            "open": sum(each.disabled_at is None for each in endpoints),
            "disabled": sum(each.disabled_at is not None for each in endpoints),
            "waiting": sum(each.waiting for each in endpoints),
            "failed": sum(each.failed for each in endpoints),
        },
        **values,
    }
    return console_page(request, "webhooks.html", current="webhooks", status=status, **given)


@router.get("/deliveries/{id}")
@needs(ADMIN)
async def show_delivery(id: Id, visit: Here, request: Request, told: Annotated[Told, Query()] = "") -> Response:
    """One message: its body, and every request of it."""
    hooks = visit.app.webhooks
    delivery = await hooks.delivery(id)
    given: dict[str, Any] = {
        "delivery": delivery,
        "attempts": await hooks.attempts(id),
        "endpoint": next((each for each in await hooks.all() if each.id == delivery.endpoint_id), None),
        "told": told,
    }
    return console_page(request, "delivery.html", current="webhooks", **given)


@router.post("")
@needs(ADMIN, streamed=True, records=True)
async def add_webhook(visit: Here, request: Request) -> Response:
    """Send messages to an address, and show the secret on the page that follows; it is shown this once."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    kinds = [kind for kind in KINDS if f"kind:{kind}" in said]
    url, about = said.get("url", "").strip(), said.get("about", "")
    try:
        secret, made = await in_one(
            visit,
            lambda conn: visit.app.webhooks.add(url, kinds=kinds, description=about, conn=conn),
            lambda both: both[1].id,
        )
    except RetomaError as error:
        return await _unfit(visit, request, error, said)
    return await _with_secret(visit, request, secret, made.url)


async def _unfit(visit: Visit, request: Request, error: RetomaError, said: dict[str, str]) -> Response:
    problem, _ = errors.explained(request, error, language_for(request))
    visit.unchanged = True
    return await _shown(visit, request, status=problem.status, problem=problem, said=said)


async def _with_secret(visit: Visit, request: Request, secret: str, url: str) -> Response:
    response = await _shown(visit, request, secret={"text": secret, "url": url})
    response.headers["Cache-Control"] = "no-store"
    return response


@router.post("/{id}/rotate")
@needs(ADMIN, streamed=True, records=True)
async def rotate_webhook(id: Id, visit: Here, request: Request) -> Response:
    """Give an endpoint another secret, and show it on the page that follows."""
    await fields_of(request, largest=_LARGEST_FORM)
    found = await visit.app.webhooks.get(id)
    secret = await in_one(visit, lambda conn: visit.app.webhooks.rotate(id, conn=conn))
    return await _with_secret(visit, request, secret, found.url)


async def _done(
    visit: Visit, request: Request, place: str, told: Told, act: Callable[[object], Awaitable[object]]
) -> Response:
    await fields_of(request, largest=_LARGEST_FORM)
    await in_one(visit, act)
    return RedirectResponse(f"{base_of(request)}/console/webhooks{place}?told={told}", 303)


@router.post("/{id}/test")
@needs(ADMIN, streamed=True, records=True)
async def try_webhook(id: Id, visit: Here, request: Request) -> Response:
    """Write a message that tells nothing but that it arrives."""
    return await _done(visit, request, "", "tested", lambda conn: visit.app.webhooks.test(id, conn=conn))


@router.post("/{id}/enable")
@needs(ADMIN, streamed=True, records=True)
async def enable_webhook(id: Id, visit: Here, request: Request) -> Response:
    """Send messages to an endpoint again."""
    return await _done(visit, request, "", "enabled", lambda conn: visit.app.webhooks.enable(id, conn=conn))


@router.post("/{id}/disable")
@needs(ADMIN, streamed=True, records=True)
async def disable_webhook(id: Id, visit: Here, request: Request) -> Response:
    """Send nothing to an endpoint until it is enabled."""
    return await _done(visit, request, "", "disabled", lambda conn: visit.app.webhooks.disable(id, conn=conn))


@router.post("/{id}/remove")
@needs(ADMIN, streamed=True, records=True)
async def remove_webhook(id: Id, visit: Here, request: Request) -> Response:
    """Remove an endpoint and the log of its deliveries."""
    return await _done(visit, request, "", "removed", lambda conn: visit.app.webhooks.remove(id, conn=conn))


@router.post("/deliveries/{id}/replay")
@needs(ADMIN, streamed=True, records=True)
async def replay_delivery(id: Id, visit: Here, request: Request) -> Response:
    """Deliver a message again."""
    act = visit.app.webhooks.replay
    return await _done(visit, request, f"/deliveries/{id}", "replayed", lambda conn: act(id, conn=conn))
