"""Browser sessions: random secrets, bound to the credential that opened them, and ended with it."""

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
from retoma.store.sessions import NewSession, Person, Session

__all__ = ["Opened", "Recognised", "Session", "Sessions"]

_SHAPE = re.compile(r"rts_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Opened:
    """What a session is opened with: an API key, an account, or a secret outside the tables that must stay the same
    (the key of the environment, or the token of a keyless server). *link* and *made* belong to a link that works once.
    """

    by: str
    key_id: str | None = None
    user_id: str | None = None
    secret: str | None = None
    link: str | None = None
    made: float | None = None


@dataclass(frozen=True, slots=True)
class Recognised:
    """An accepted session: its id, and the credential that opened it."""

    id: str
    opened_by: str
    key: Key | None
    user: Person | None = None


class Sessions(CommandRunner):
    """The sessions of an app."""

    async def open(self, opened: Opened, *, address: str | None = None, conn: object = None) -> tuple[str, str] | None:
        """Open a session. Returns its text, which the browser keeps, and its id; None when the link was used before."""
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        new = NewSession(
            id=id,
            secret_hash=hashlib.sha256(secret.encode()).digest(),
            opened_by=opened.by,
            key_id=opened.key_id,
            user_id=opened.user_id,
            proof=None if opened.secret is None else _proof(secret, opened.secret),
            link_hash=None if opened.link is None else hashlib.sha256(opened.link.encode()).digest(),
            made=opened.made,
            address=address,
            lasts=self._database().settings.session_hours * _HOUR,
        )
        return (f"rts_{id}_{secret}", id) if await self._ask(only(sessions.open(new)), conn) else None

    async def recognise(self, text: str, *, secrets: dict[str, str | None]) -> Recognised | None:
        """The session that *text* is, if it is accepted. *secrets* are those outside the tables, by what they open."""
        return await self._ask(_recognise(text, secrets))

    async def end(self, id: str, *, conn: object = None) -> None:
        """End a session."""
        if not await self._ask(only(sessions.end(id)), conn):
            raise NotFound(f"There is no session {id!r}.", next="'retoma session list' shows them.")

    async def all(self, *, over: bool = False) -> list[Session]:
        """The sessions, newest first; *over* includes ended ones."""
        return await self._ask(only(sessions.all(over=over)))

    async def gone(self, *, keys: Sequence[str], sessions_: Sequence[str]) -> set[str]:
        """Of these keys and sessions, those that are no longer accepted."""
        return set(await self._ask(only(sessions.gone(keys, sessions_))))


def _proof(session: str, secret: str) -> bytes:
    # Keyed with the session's own secret, so that the table alone does not help to guess a secret that a person chose.
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
    return Recognised(shape[1], found[0].opened_by, found[0].key, found[0].user)


def _still_opened(lock: sessions.Lock, session: str, secrets: dict[str, str | None]) -> bool:
    """Whether the credential that opened it is still accepted."""
    if lock.opened_by == "key":
        return lock.key is not None and lock.key.usable
    if lock.opened_by == "user":
        return lock.user is not None
    now = secrets.get(lock.opened_by)
    return now is not None and lock.proof is not None and hmac.compare_digest(_proof(session, now), lock.proof)
