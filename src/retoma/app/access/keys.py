"""API keys, and the stored replies to idempotent requests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Literal

from retoma.app.access.people import People
from retoma.commands.jobs import only
from retoma.errors import ConfigurationError, DatabaseUnreachable, NotFound
from retoma.postgres import migrate
from retoma.postgres.borrowing import BORROWER
from retoma.postgres.connections import CommandRunner
from retoma.postgres.database import Database
from retoma.store import keys, replies, usage
from retoma.store.keys import Key, Lock, Tally
from retoma.store.query import Command
from retoma.store.replies import Reply, Request
from retoma.store.usage import Spent
from retoma.system.concurrency import Coalescer

__all__ = ["ADMIN", "SCOPES", "Access", "Key", "Reply", "Request", "Tally", "same_secret"]

SCOPES = {
    "read": "look at jobs, queues, workers and schedules",
    "content:read": "see what jobs were given, returned and failed with",
    "submit": "queue jobs",
    "review": "decide what waits for a person, and undo one's own decisions",
    "operate": "retry, cancel, restart and signal jobs; pause and resume queues and schedules",
    "admin": "everything",
}
"""The scopes of a key, and what each allows."""
ADMIN = "admin"
_TALLY_SECONDS = 5.0

_SHAPE = re.compile(r"rtm_([0-9a-f]{12})_([A-Za-z0-9_-]{43}(?:[A-Za-z0-9_-]{6})?)")
_SUMMED = 49  # characters of a secret that ends with a checksum; older ones have 43 and none
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_GRACE = timedelta(hours=24)
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")


def same_secret(given: str, kept: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(_hash(given), _hash(kept))


def _hash(secret: str) -> bytes:
    # Fast on purpose: a secret of 256 random bits cannot be guessed, however fast the guesses are checked.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _sum(text: str) -> str:
    """A checksum of six characters: a secret scanner can tell a key from a random word by it."""
    number, found = zlib.crc32(text.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, len(_DIGITS))
        found = _DIGITS[digit] + found
    return found


def _new_secret(id: str) -> str:
    secret = secrets.token_urlsafe(32)
    return secret + _sum(f"rtm_{id}_{secret}")


class Access(CommandRunner):
    """The keys of an app, its stored replies, and its *people*."""

    def __init__(self, database: Callable[[], Database]) -> None:
        super().__init__(database)
        self.people = People(database)
        self._tallied: Coalescer[None, Tally] = Coalescer(self._tally)

    # — keys —

    async def create(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        pipelines: Iterable[str] = (),
        expires: timedelta | Literal["never"] | None = None,
        conn: object = None,
    ) -> tuple[str, Key]:
        """Create a key. Returns its text, which is shown once and not stored, and its record. It expires after
        RETOMA_KEY_DAYS, unless *expires* says otherwise.
        """
        return await self._ask(_create(name, list(scopes), list(pipelines), self._seconds(expires)), conn)

    async def rotate(
        self,
        id: str,
        *,
        grace: timedelta = _GRACE,
        expires: timedelta | Literal["never"] | None = None,
        conn: object = None,
    ) -> tuple[str, Key]:
        """Give a key another secret and return its new text. The previous one is accepted until *grace* has passed."""
        return await self._ask(_rotate(id, grace, self._seconds(expires)), conn)

    def _seconds(self, expires: timedelta | Literal["never"] | None) -> float | None:
        if expires == "never":
            return None
        if isinstance(expires, timedelta) and not expires > timedelta(0):
            raise ConfigurationError("A key must expire later than now.", next="'never' is for one that does not.")
        days = timedelta(days=self._database().settings.key_days)
        return (expires if isinstance(expires, timedelta) else days).total_seconds()

    async def keys(self) -> list[Key]:
        """Every key, revoked and expired ones included, oldest first."""
        return await self._ask(only(keys.all()))

    async def revoke(self, id: str, *, conn: object = None) -> None:
        """Revoke a key; sessions opened with it end."""
        if not await self._ask(only(keys.revoke(id)), conn):
            raise NotFound(f"There is no key {id!r}.", next="'retoma key list' shows them.")

    async def recognise(self, text: str) -> Key | None:
        """The key that *text* is, if it is accepted. The caller does not learn whether it is
        unknown, expired or revoked.
        """
        return await self._ask(_recognise(text))

    async def tally(self) -> Tally:
        """How many keys and accounts exist, and how many of them are accepted."""
        return await self._tallied(None)

    async def _tally(self, asked: list[None]) -> list[Tally]:
        BORROWER.set(None)  # the statement serves all waiting callers, not only the first
        try:
            async with asyncio.timeout(_TALLY_SECONDS):
                return await self._ask(only(keys.tally())) * len(asked)
        except TimeoutError:
            raise DatabaseUnreachable("The database did not say in time whether there are keys.") from None

    # — replies —

    async def hold(self, request: Request, *, conn: object) -> bool:
        """Acquire this request until the transaction of *conn* ends; False when another transaction has it."""
        return (await self._ask(only(replies.hold(request)), conn))[0]

    async def reply(self, request: Request, *, conn: object) -> Reply | None:
        """The reply that this request got before, within a day."""
        return next(iter(await self._ask(only(replies.one(request)), conn)), None)

    async def keep(self, request: Request, reply: Reply, *, conn: object) -> None:
        """Store a reply; it commits together with the work on *conn*."""
        await self._ask(only(replies.keep(request, reply)), conn)

    # — quotas —

    async def spend(
        self, caller: str, bytes: int, files: int, *, most_bytes: int | None, most_files: int | None
    ) -> bool:
        """Take *bytes* and *files* from the daily quota of *caller*; False when not enough is left."""
        query = usage.spend(caller, bytes, files, most_bytes=most_bytes, most_files=most_files)
        return bool(await self._ask(only(query)))

    async def spent(self, caller: str) -> Spent:
        """What *caller* has sent today."""
        return (await self._ask(only(usage.spent(caller))))[0]

    async def waiting(self, caller: str, *, most: int, conn: object = None) -> int:
        """How many jobs of *caller* wait, counted up to *most*. No other transaction adds any
        until that of *conn* ends.
        """
        return await self._ask(_waiting(caller, most), conn)

    async def submitted(
        self, caller: str, kind: Literal["job", "batch"], ids: Sequence[int], *, conn: object = None
    ) -> None:
        """Record what *caller* has enqueued."""
        await self._ask(only(usage.submitted(caller, kind, ids)), conn)

    # — readiness —

    async def ready(self) -> None:
        """Raise the reason why the app cannot serve: no free connection, no answer, or tables of another version."""
        async with self._database().connection() as connection:
            migrate.require(await migrate.status_on(connection))


def _create(name: str, scopes: list[str], pipelines: list[str], expires: float | None) -> Command[tuple[str, Key]]:
    if not _NAME.fullmatch(name):
        raise ConfigurationError("A key's name has 1 to 100 characters, and none that cannot be printed.")
    if not scopes or set(scopes) - SCOPES.keys():
        wrong = ", ".join(sorted(set(scopes) - SCOPES.keys()))
        raise ConfigurationError(
            f"There is no scope {wrong}." if wrong else "A key without a scope would open nothing.",
            next=f"Scopes are {', '.join(SCOPES)}.",
        )
    id = secrets.token_hex(6)
    secret = _new_secret(id)
    rows: list[Key] = yield keys.create(
        id,
        name,
        _hash(secret),
        scopes=[scope for scope in SCOPES if scope in scopes],
        pipelines=pipelines or None,
        expires=expires,
    )
    return f"rtm_{id}_{secret}", rows[0]


def _waiting(caller: str, most: int) -> Command[int]:
    yield usage.hold(caller)
    found: list[int] = yield usage.waiting(caller, most=most)
    return found[0]


def _rotate(id: str, grace: timedelta, expires: float | None) -> Command[tuple[str, Key]]:
    if grace < timedelta(0):
        raise ConfigurationError("A grace period must be 0 seconds or longer.", next="0s lets the old secret end now.")
    secret = _new_secret(id)
    rows: list[Key] = yield keys.rotate(id, _hash(secret), grace=grace.total_seconds(), expires=expires)
    if not rows:
        raise NotFound(f"There is no key {id!r} that is active.", next="'retoma key list' shows them.")
    return f"rtm_{id}_{secret}", rows[0]


def _recognise(text: str) -> Command[Key | None]:
    shape = _SHAPE.fullmatch(text)
    if shape is None or (len(shape[2]) == _SUMMED and not text.endswith(_sum(text[:-6]))):
        return None
    found: list[Lock] = yield keys.lock_of(shape[1])
    # An unknown key is compared too, so that it takes as long as a wrong one.
    kept = (found[0].secret_hash, found[0].previous_hash or bytes(32)) if found else (bytes(32), bytes(32))
    right = [hmac.compare_digest(_hash(shape[2]), each) for each in kept]
    if not any(right) or not found or not found[0].key.usable:
        return None
    if found[0].rested:
        yield keys.use(shape[1])
    return found[0].key
