"""Who may come in: keys, accounts and sessions, for those who may do everything.

A secret goes over the wire once, when it is made. These routes know no Idempotency-Key where a reply with a secret, or
the hash of a body with a password, would be stored with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Response

from retoma.app.access.keys import ADMIN, Key
from retoma.app.access.people import User
from retoma.errors import Conflict
from retoma.web.api.schemas import requests
from retoma.web.api.schemas.access import (
    Account,
    Accounts,
    ApiKey,
    ApiKeys,
    MadeKey,
    NewKey,
    NewPassword,
    NewRole,
    NewUser,
    OpenSession,
    OpenSessions,
    Rotation,
)
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.route import ApiRoute

T = TypeVar("T")

router = APIRouter(tags=["access"], route_class=ApiRoute)

Id = Annotated[str, Path(min_length=1, max_length=100)]


async def in_one(visit: Visit, act: Callable[[object], Awaitable[T]], made: Callable[[T], str] | None = None) -> T:
    """What *act* gives, in one transaction with its row; *made* tells the id of what came into being."""

    async def acted(record: Recording) -> T:
        async with visit.app.transaction() as conn:
            result = await act(conn)
            await record(conn, made(result) if made else None)
            return result

    return await recorded(visit, acted)


def refuse_oneself(visit: Visit, id: str) -> None:
    """Nobody takes their own rights away by mistake: the last one who may give them back would be gone."""
    if visit.caller == id:
        raise Conflict("This is the account that you are signed in with.", next="Ask somebody else who is an admin.")


# — keys —


@router.get("/keys")
@needs(ADMIN)
async def list_keys(visit: Here) -> ApiKeys:
    """Every key, the oldest first. Also those that open nothing any more; never their secrets."""
    return ApiKeys(keys=[ApiKey.of(each) for each in await visit.app.access.keys()])


@router.post("/keys", status_code=201)
@needs(ADMIN, once=False, records=True)
async def create_key(order: NewKey, visit: Here, response: Response) -> MadeKey:
    """Make a key. Its secret is in this answer and nowhere else."""
    expires = None if order.expires_days is None else timedelta(days=order.expires_days)

    async def make(conn: Any) -> tuple[str, Key]:
        return await visit.app.access.create(
            order.name, order.scopes, pipelines=order.pipelines or (), expires=expires, conn=conn
        )

    text, key = await in_one(visit, make, lambda both: both[1].id)
    response.headers["Cache-Control"] = "no-store"
    return MadeKey(id=key.id, secret=text, key=ApiKey.of(key))


@router.post("/keys/{id}/rotate")
@needs(ADMIN, once=False, records=True)
async def rotate_key(id: Id, visit: Here, response: Response, order: Rotation | None = None) -> MadeKey:
    """Give a key another secret. It is in this answer and nowhere else; the secret of before opens for a while."""
    grace = timedelta(hours=(order or Rotation()).grace_hours)
    text, key = await in_one(visit, lambda conn: visit.app.access.rotate(id, grace=grace, conn=conn))
    response.headers["Cache-Control"] = "no-store"
    return MadeKey(id=key.id, secret=text, key=ApiKey.of(key))


@router.post("/keys/{id}/revoke", status_code=204)
@needs(ADMIN)
async def revoke_key(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Take a key back. It opens nothing from now on, and whoever signed in with it is signed out."""
    await visit.app.access.revoke(id, conn=visit.conn)


# — accounts —


@router.get("/users")
@needs(ADMIN)
async def list_users(visit: Here) -> Accounts:
    """Every account, by name. Never their passwords."""
    return Accounts(users=[Account.of(each) for each in await visit.app.access.people.all()])


@router.post("/users", status_code=201)
@needs(ADMIN, once=False, records=True, refuses=("conflict",))
async def add_user(order: NewUser, visit: Here) -> Account:
    """Add an account. Whoever has its password may do what its role allows."""

    async def make(conn: Any) -> User:
        return await visit.app.access.people.add(order.name, order.role, password=order.password, conn=conn)

    user: User = await in_one(visit, make, lambda user: user.id)
    return Account.of(user)


@router.post("/users/{id}/role", status_code=204)
@needs(ADMIN, refuses=("conflict",))
async def change_user_role(id: Id, order: NewRole, visit: Here) -> None:
    """Give an account another role. Its sessions end."""
    refuse_oneself(visit, id)
    await visit.app.access.people.change_role(id, order.role, conn=visit.conn)


@router.post("/users/{id}/password", status_code=204)
@needs(ADMIN, once=False, records=True)
async def change_user_password(id: Id, order: NewPassword, visit: Here) -> None:
    """Give an account another password. Its sessions end."""
    await in_one(visit, lambda conn: visit.app.access.people.change_password(id, order.password, conn=conn))


@router.post("/users/{id}/lock", status_code=204)
@needs(ADMIN, refuses=("conflict",))
async def lock_user(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Let nobody in with an account. Its sessions end; unlocking it lets it in again."""
    refuse_oneself(visit, id)
    await visit.app.access.people.lock(id, conn=visit.conn)


@router.post("/users/{id}/unlock", status_code=204)
@needs(ADMIN)
async def unlock_user(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Let an account in again. Its failed sign-ins are forgotten."""
    await visit.app.access.people.unlock(id, conn=visit.conn)


@router.delete("/users/{id}", status_code=204)
@needs(ADMIN, refuses=("conflict",))
async def remove_user(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Remove an account. Its sessions end."""
    refuse_oneself(visit, id)
    await visit.app.access.people.remove(id, conn=visit.conn)


# — sessions —


@router.get("/sessions")
@needs(ADMIN)
async def list_sessions(visit: Here) -> OpenSessions:
    """Who is signed in with a browser, the newest first."""
    return OpenSessions(sessions=[OpenSession.of(each) for each in await visit.app.sessions.all()])


@router.post("/sessions/{id}/end", status_code=204)
@needs(ADMIN)
async def end_session(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """End a session. Its browser is signed out, and its streams end within seconds."""
    await visit.app.sessions.end(id, conn=visit.conn)
