"""Who may come in over HTTP, and what was answered to requests that may be repeated."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TypeVar

from retoma import migrate
from retoma.commands import Command, only
from retoma.database import Database
from retoma.errors import ConfigurationError, NotFound
from retoma.join import run_on
from retoma.store import keys, replies
from retoma.store.keys import Key, Lock, Tally
from retoma.store.replies import Reply, Request
from retoma.writer import Together

__all__ = ["ADMIN", "SCOPES", "Access", "Key", "Reply", "Request", "Tally", "same_secret"]

T = TypeVar("T")

SCOPES = {
    "read": "look at jobs, queues, workers and schedules",
    "content:read": "see what jobs were given, returned and failed with",
    "submit": "queue jobs",
    "operate": "retry, cancel, restart and signal jobs; pause and resume queues and schedules",
    "admin": "everything",
}
"""What a key may be allowed, and what that means."""
ADMIN = "admin"

_SHAPE = re.compile(r"rtm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")


def same_secret(given: str, kept: str) -> bool:
    """Whether two secrets are the same, told in a time that says nothing about where they differ."""
    return hmac.compare_digest(_hash(given), _hash(kept))


def _hash(secret: str) -> bytes:
    # Fast on purpose: a secret of 256 random bits cannot be guessed, however fast the guesses are checked.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Access:
    """The keys of an app, and the replies it may have to give again."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._tallied: Together[None, Tally] = Together(self._tally)

    async def _ask(self, command: Command[T], conn: object = None) -> T:
        if conn is not None:
            return await run_on(conn, command)
        async with self._database().connection() as connection:
            return await run_on(connection, command)

    # — keys —

    async def create(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        pipelines: Iterable[str] = (),
        expires: timedelta | None = None,
    ) -> tuple[str, Key]:
        """A new key: its text, which is shown this once and kept nowhere, and what is known of it from now on."""
        return await self._ask(_create(name, list(scopes), list(pipelines), expires))

    async def keys(self) -> list[Key]:
        """Every key there is or was, the oldest first."""
        return await self._ask(only(keys.all()))

    async def revoke(self, id: str) -> None:
        """Let a key open nothing from now on."""
        if not await self._ask(only(keys.revoke(id))):
            raise NotFound(f"There is no key {id!r}.", next="'retoma key list' shows them.")

    async def recognise(self, text: str) -> Key | None:
        """The key that *text* is, if it opens; nobody learns whether it is unknown, expired or revoked."""
        return await self._ask(_recognise(text))

    async def tally(self) -> Tally:
        """How many keys exist, and how many of them open."""
        return await self._tallied(None)

    async def _tally(self, asked: list[None]) -> list[Tally]:
        return await self._ask(only(keys.tally())) * len(asked)

    # — replies —

    async def hold(self, request: Request, *, conn: object) -> bool:
        """Whether this request is ours alone until the transaction of *conn* ends."""
        return (await self._ask(only(replies.hold(request)), conn))[0]

    async def reply(self, request: Request, *, conn: object) -> Reply | None:
        """What this request was answered before, within a day."""
        return next(iter(await self._ask(only(replies.one(request)), conn)), None)

    async def keep(self, request: Request, reply: Reply, *, conn: object) -> None:
        """Remember an answer; it is there if, and only if, the work done on *conn* is."""
        await self._ask(only(replies.keep(request, reply)), conn)

    # — the house itself —

    async def ready(self) -> None:
        """Raise what keeps the app from serving: no free connection, no answer, or tables of another version."""
        database = self._database()
        async with database.connection():
            migrate.require(await asyncio.to_thread(migrate.status, database.url, database.settings))


def _create(name: str, scopes: list[str], pipelines: list[str], expires: timedelta | None) -> Command[tuple[str, Key]]:
    if not _NAME.fullmatch(name):
        raise ConfigurationError("A key's name has 1 to 100 characters, and none that cannot be printed.")
    if not scopes or set(scopes) - SCOPES.keys():
        wrong = ", ".join(sorted(set(scopes) - SCOPES.keys()))
        raise ConfigurationError(
            f"There is no scope {wrong}." if wrong else "A key without a scope would open nothing.",
            next=f"Scopes are {', '.join(SCOPES)}.",
        )
    if expires is not None and not expires > timedelta(0):
        raise ConfigurationError("A key must expire later than now.", next="Leave it out for a key that does not.")
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    rows: list[Key] = yield keys.create(
        id,
        name,
        _hash(secret),
        scopes=[scope for scope in SCOPES if scope in scopes],
        pipelines=pipelines or None,
        expires=expires.total_seconds() if expires else None,
    )
    return f"rtm_{id}_{secret}", rows[0]


def _recognise(text: str) -> Command[Key | None]:
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return None
    found: list[Lock] = yield keys.lock_of(shape[1])
    # An unknown key is compared too, so that it takes as long as a wrong one.
    kept = found[0].secret_hash if found else bytes(32)
    if not hmac.compare_digest(_hash(shape[2]), kept) or not found or not found[0].key.usable:
        return None
    if found[0].rested:
        yield keys.use(shape[1])
    return found[0].key
