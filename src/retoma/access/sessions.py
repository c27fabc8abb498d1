"""Who signed in with a browser: a random session, bound to what it was opened with and ended with it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from retoma.commands.jobs import only
from retoma.errors import NotFound
from retoma.postgres.connections import CommandRunner
from retoma.store import sessions
from retoma.store.keys import Key
from retoma.store.query import Command
from retoma.store.sessions import NewSession, Session

__all__ = ["Opened", "Recognised", "Session", "Sessions"]

_SHAPE = re.compile(r"rts_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Opened:
    """What a session is opened with: a key, or a secret that stands in no table and must stay the same: that of the
    environment, or the token of a keyless server. *link* and *made* are of a link that may be followed once.
    """

    by: str
    key_id: str | None = None
    secret: str | None = None
    link: str | None = None
    made: float | None = None


@dataclass(frozen=True, slots=True)
class Recognised:
    """A session that opens: its id, and what it was opened with."""

    id: str
    opened_by: str
    key: Key | None


class Sessions(CommandRunner):
    """The sessions of an app."""

    async def open(self, opened: Opened, *, address: str | None = None, conn: object = None) -> tuple[str, str] | None:
        """A new session: its text, which the browser keeps, and its id; None when the link was followed before."""
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        new = NewSession(
            id=id,
            secret_hash=hashlib.sha256(secret.encode()).digest(),
            opened_by=opened.by,
            key_id=opened.key_id,
            proof=None if opened.secret is None else _proof(secret, opened.secret),
            link_hash=None if opened.link is None else hashlib.sha256(opened.link.encode()).digest(),
            made=opened.made,
            address=address,
            lasts=self._database().settings.session_hours * _HOUR,
        )
        return (f"rts_{id}_{secret}", id) if await self._ask(only(sessions.open(new)), conn) else None

    async def recognise(self, text: str, *, secrets: dict[str, str | None]) -> Recognised | None:
        """The session that *text* is, if it opens. *secrets* are those that stand in no table, by what they open."""
        return await self._ask(_recognise(text, secrets))

    async def end(self, id: str, *, conn: object = None) -> None:
        """Let a session open nothing from now on."""
        if not await self._ask(only(sessions.end(id)), conn):
            raise NotFound(f"There is no session {id!r}.", next="'retoma session list' shows them.")

    async def all(self, *, over: bool = False) -> list[Session]:
        """Who is signed in, the newest first; *over* shows also those who were."""
        return await self._ask(only(sessions.all(over=over)))

    async def gone(self, *, keys: Sequence[str], sessions_: Sequence[str]) -> set[str]:
        """Of these keys and sessions, those that open nothing any more."""
        return set(await self._ask(only(sessions.gone(keys, sessions_))))


def _proof(session: str, secret: str) -> bytes:
    # With the session's own secret inside: of a secret that somebody thought up, the table says nothing by itself.
    return hmac.new(session.encode(), secret.encode(), hashlib.sha256).digest()


def _recognise(text: str, secrets: dict[str, str | None]) -> Command[Recognised | None]:
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return None
    found: list[sessions.Lock] = yield sessions.lock_of(shape[1])
    kept = found[0].secret_hash if found else bytes(32)
    right = hmac.compare_digest(hashlib.sha256(shape[2].encode()).digest(), kept)
    if not right or not found or not found[0].usable or not _still_opened(found[0], shape[2], secrets):
        return None
    if found[0].rested:
        yield sessions.seen(shape[1])
    return Recognised(shape[1], found[0].opened_by, found[0].key)


def _still_opened(lock: sessions.Lock, session: str, secrets: dict[str, str | None]) -> bool:
    """Whether what it was opened with would still open."""
    if lock.opened_by == "key":
        return lock.key is not None and lock.key.usable
    now = secrets.get(lock.opened_by)
    return now is not None and lock.proof is not None and hmac.compare_digest(_proof(session, now), lock.proof)
