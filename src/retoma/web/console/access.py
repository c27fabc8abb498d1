"""Access: people, API keys and browser sessions; who may come in, since when, and what each may do."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.app.access.keys import ADMIN, SCOPES
from retoma.app.access.people import ROLES, SHORTEST_PASSWORD
from retoma.errors import RetomaError
from retoma.web.api.access import in_one, refuse_oneself
from retoma.web.console.render import console_page
from retoma.web.http import errors
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of, language_for
from retoma.web.pages.route import PageRoute

T = TypeVar("T")

router = APIRouter(prefix="/access", route_class=PageRoute)

_LARGEST_FORM = 10_000
_SHOWN = 200

Id = Annotated[str, Path(min_length=1, max_length=100)]
Tab = Literal["people", "keys", "sessions"]
Told = Literal[
    "", "added", "role", "password", "locked", "unlocked", "removed", "revoked", "ended"
]  # fmt: skip


@router.get("")
@needs(ADMIN)
async def show_access(
    visit: Here, request: Request, show: Annotated[Tab, Query()] = "people", told: Annotated[Told, Query()] = ""
) -> Response:
    """People, keys or sessions, and the figures of all three."""
    return await _shown(visit, request, show, told=told)


async def _shown(visit: Visit, request: Request, show: Tab, *, status: int = 200, **values: Any) -> Response:
    app = visit.app
    people, keys, sessions = await app.access.people.all(), await app.access.keys(), await app.sessions.all()
    given = {
        "told": "",
        "problem": None,
        "secret": None,
        "said": {},
        "show": show,
        "people": people[:_SHOWN],
        "refused": await app.access.people.refused(people[:_SHOWN]),
        "keys": sorted(keys, key=lambda key: (not key.usable, key.created_at), reverse=False)[:_SHOWN],
        "sessions": [each for each in sessions if each.usable][:_SHOWN],
        "own": visit.caller,
        "own_session": visit.session_id,
        "roles": list(ROLES),
        "scopes": list(SCOPES),
        "shortest": SHORTEST_PASSWORD,
        "key_days": int(app.settings.key_days),
        "counts": {
            "people": len(people),
            "locked": sum(each.locked_at is not None for each in people),
            "keys": sum(each.usable for each in keys),
            "ending": sum(each.usable and each.ends_soon for each in keys),
            "sessions": sum(each.usable for each in sessions),
        },
        **values,
    }
    return console_page(request, "access.html", current="access", status=status, **given)


async def _done(visit: Visit, request: Request, show: Tab, told: Told, act: Callable[[Any], Awaitable[T]]) -> Response:
    """Back to the page, which says what was done; what cannot be done is told above the form, with what was said."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    try:
        await act(said)
    except RetomaError as error:
        return await _unfit(visit, request, show, error, said)
    return RedirectResponse(f"{base_of(request)}/console/access?show={show}&told={told}", 303)


async def _unfit(visit: Visit, request: Request, show: Tab, error: RetomaError, said: dict[str, str]) -> Response:
    problem, _ = errors.explained(request, error, language_for(request))
    visit.unchanged = True
    kept = {name: text for name, text in said.items() if name != "password"}
    return await _shown(visit, request, show, status=problem.status, problem=problem, said=kept)


# — people —


@router.post("/users")
@needs(ADMIN, streamed=True, records=True)
async def add_user(visit: Here, request: Request) -> Response:
    """Add an account."""

    async def add(said: dict[str, str]) -> object:
        people, given = visit.app.access.people, (said.get("name", ""), said.get("role", ""))
        password = said.get("password", "")
        return await in_one(
            visit, lambda conn: people.add(*given, password=password, conn=conn), lambda user: str(user.id)
        )

    return await _done(visit, request, "people", "added", add)


@router.post("/users/{id}/role")
@needs(ADMIN, streamed=True, records=True)
async def change_user_role(id: Id, visit: Here, request: Request) -> Response:
    """Give an account another role."""

    async def change(said: dict[str, str]) -> None:
        refuse_oneself(visit, id)
        await in_one(visit, lambda conn: visit.app.access.people.change_role(id, said.get("role", ""), conn=conn))

    return await _done(visit, request, "people", "role", change)


@router.post("/users/{id}/password")
@needs(ADMIN, streamed=True, records=True)
async def change_user_password(id: Id, visit: Here, request: Request) -> Response:
    """Give an account another password."""

    async def change(said: dict[str, str]) -> None:
        given = said.get("password", "")
        await in_one(visit, lambda conn: visit.app.access.people.change_password(id, given, conn=conn))

    return await _done(visit, request, "people", "password", change)


@router.post("/users/{id}/lock")
@needs(ADMIN, streamed=True, records=True)
async def lock_user(id: Id, visit: Here, request: Request) -> Response:
    """Let nobody in with an account."""

    async def lock(_said: dict[str, str]) -> None:
        refuse_oneself(visit, id)
        await in_one(visit, lambda conn: visit.app.access.people.lock(id, conn=conn))

    return await _done(visit, request, "people", "locked", lock)


@router.post("/users/{id}/unlock")
@needs(ADMIN, streamed=True, records=True)
async def unlock_user(id: Id, visit: Here, request: Request) -> Response:
    """Let an account in again."""

    async def unlock(_said: dict[str, str]) -> None:
        await in_one(visit, lambda conn: visit.app.access.people.unlock(id, conn=conn))

    return await _done(visit, request, "people", "unlocked", unlock)


@router.post("/users/{id}/remove")
@needs(ADMIN, streamed=True, records=True)
async def remove_user(id: Id, visit: Here, request: Request) -> Response:
    """Remove an account."""

    async def remove(_said: dict[str, str]) -> None:
        refuse_oneself(visit, id)
        await in_one(visit, lambda conn: visit.app.access.people.remove(id, conn=conn))

    return await _done(visit, request, "people", "removed", remove)


# — keys —


@router.post("/keys")
@needs(ADMIN, streamed=True, records=True)
async def create_key(visit: Here, request: Request) -> Response:
    """Make a key, and show its secret on the page that follows; it is shown this once."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    scopes = [scope for scope in SCOPES if f"scope:{scope}" in said]
    pipelines = [each for each in re.split(r"[,\s]+", said.get("pipelines", "")) if each]
    days = said.get("days", "")
    expires = timedelta(days=int(days)) if re.fullmatch(r"[1-9][0-9]{0,3}", days) else None
    access = visit.app.access
    try:
        text, key = await in_one(
            visit,
            lambda conn: access.create(said.get("name", ""), scopes, pipelines=pipelines, expires=expires, conn=conn),
            lambda both: both[1].id,
        )
    except RetomaError as error:
        return await _unfit(visit, request, "keys", error, said)
    return await _with_secret(visit, request, text, key.name)


@router.post("/keys/{id}/rotate")
@needs(ADMIN, streamed=True, records=True)
async def rotate_key(id: Id, visit: Here, request: Request) -> Response:
    """Give a key another secret, and show it on the page that follows; the secret of before opens for a day."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    try:
        text, key = await in_one(visit, lambda conn: visit.app.access.rotate(id, conn=conn))
    except RetomaError as error:
        return await _unfit(visit, request, "keys", error, said)
    return await _with_secret(visit, request, text, key.name)


async def _with_secret(visit: Visit, request: Request, text: str, name: str) -> Response:
    response = await _shown(visit, request, "keys", secret={"text": text, "name": name})
    response.headers["Cache-Control"] = "no-store"
    return response


@router.post("/keys/{id}/revoke")
@needs(ADMIN, streamed=True, records=True)
async def revoke_key(id: Id, visit: Here, request: Request) -> Response:
    """Take a key back."""

    async def revoke(_said: dict[str, str]) -> None:
        await in_one(visit, lambda conn: visit.app.access.revoke(id, conn=conn))

    return await _done(visit, request, "keys", "revoked", revoke)


# — sessions —


@router.post("/sessions/{id}/end")
@needs(ADMIN, streamed=True, records=True)
async def end_session(id: Id, visit: Here, request: Request) -> Response:
    """End a session."""

    async def end(_said: dict[str, str]) -> None:
        await in_one(visit, lambda conn: visit.app.sessions.end(id, conn=conn))

    return await _done(visit, request, "sessions", "ended", end)
