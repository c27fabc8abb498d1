"""People: accounts with a password, the roles that say what each may do, and the lock-out after failed sign-ins."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import unicodedata
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from retoma.commands.jobs import only
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.postgres.connections import CommandRunner
from retoma.postgres.database import Database
from retoma.store import tries, users
from retoma.store.query import Command, Query
from retoma.store.tries import Counted
from retoma.store.users import User, UserLock

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = ["ROLES", "People", "SignInRefused", "User"]

T = TypeVar("T")

ROLES: dict[str, frozenset[str]] = {
    "reader": frozenset({"read"}),
    "reviewer": frozenset({"read", "content:read", "review"}),
    "operator": frozenset({"read", "content:read", "review", "submit", "operate"}),
    "admin": frozenset({"admin"}),
}
"""What people may be, and the scopes of each."""

FREE_BY_NAME, FREE_BY_ADDRESS = 5, 20
"""How many failed sign-ins are free, for one name and from one address; each further one doubles the wait."""
FIRST_WAIT, LONGEST_WAIT = 30.0, 3600.0
_FORGOTTEN_NAME, _FORGOTTEN_ADDRESS = 86_400.0, 3600.0
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 200
_SHORTEST_VARIETY = 5
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}")
_ID = re.compile(r"[0-9a-f]{12}")
_AT_ONCE = 2
"""Passwords that one process hashes at the same time: each takes 64 MiB."""


class SignInRefused(Conflict):
    """Too many sign-ins failed, for this name or from this address; *seconds* says for how long none is tried."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Too many sign-ins failed.", next=f"Try again in {max(1, round(seconds))} seconds.")
        self.seconds = max(1, round(seconds))


class People(CommandRunner):
    """The accounts of an app."""

    def __init__(self, database: Callable[[], Database]) -> None:
        super().__init__(database)
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    # — accounts —

    async def add(self, name: str, role: str, *, password: str, conn: object = None) -> User:
        """Add an account."""
        name, role = _name(name), _role(role)
        hashed = await self._hashed(_password(password, name))
        return await self._ask(_add(name, role, hashed), conn)

    async def all(self) -> list[User]:
        """Every account, by name."""
        return await self._ask(only(users.all()))

    async def get(self, who: str, *, conn: object = None) -> User:
        """The account with this id or name."""
        return await self._ask(_get(who), conn)

    async def change_role(self, id: str, role: str, *, conn: object = None) -> None:
        """Give an account another role. Its sessions end."""
        await self._done(id, users.set_role(id, _role(role)), conn)

    async def change_password(self, id: str, password: str, *, conn: object = None) -> None:
        """Give an account another password. Its sessions end."""
        user = await self.get(id, conn=conn)
        hashed = await self._hashed(_password(password, user.name))
        await self._done(id, users.set_password(user.id, hashed), conn)
        await self._ask(only(tries.forget(_by_name(user.name))), conn)

    async def lock(self, id: str, *, conn: object = None) -> None:
        """Let nobody in with an account until it is unlocked. Its sessions end."""
        await self._done(id, users.lock(id), conn)

    async def unlock(self, id: str, *, conn: object = None) -> None:
        """Let an account in again, also after failed sign-ins."""
        user = await self.get(id, conn=conn)
        await self._done(id, users.unlock(user.id), conn)
        await self._ask(only(tries.forget(_by_name(user.name))), conn)

    async def remove(self, id: str, *, conn: object = None) -> None:
        """Remove an account. Its sessions end."""
        await self._done(id, users.remove(id), conn)

    async def refused(self, found: list[User]) -> dict[str, float]:
        """For how many seconds the accounts among *found* are refused after failed sign-ins, by their id."""
        subjects = {_by_name(each.name): each.id for each in found}
        rows = await self._ask(only(tries.refused(list(subjects)))) if subjects else []
        return {subjects[row.subject]: row.seconds for row in rows}

    async def _done(self, id: str, query: Query[str], conn: object) -> None:
        if not await self._ask(only(query), conn):
            raise _unknown(id)

    # — signing in —

    async def sign_in(self, name: str, password: str, *, address: str) -> User | None:
        """The account with this name and password, if it is let in. The caller does not learn whether the name, the
        password or the account is at fault, and an unknown name takes as long as a wrong password. Raises SignInRefused
        after too many failures; a failure counts for the name and for the *address*, over all processes.
        """
        name = _plain(name)
        counted = [
            Counted(_by_address(address), FREE_BY_ADDRESS, _FORGOTTEN_ADDRESS),
            Counted(_by_name(name), FREE_BY_NAME, _FORGOTTEN_NAME),
        ]
        begun = tries.begin(counted, first=FIRST_WAIT, longest=LONGEST_WAIT)
        [refused_for] = await self._ask(only(begun))
        if refused_for is not None:
            raise SignInRefused(refused_for)
        found = await self._ask(only(users.lock_of(name)))
        kept = found[0].password_hash if found else None
        right = await self._thread(lambda: _fits(self._hasher, kept or self._nobodys_hash, password))
        if not right or not found or found[0].password_hash is None or found[0].user.locked_at is not None:
            return None
        await self._ask(only(tries.right(_by_name(name), _by_address(address), free=FREE_BY_ADDRESS)))
        await self._renew(found[0], password)
        return found[0].user if await self._ask(only(users.signed_in(found[0].user.id))) else None

    async def _renew(self, lock: UserLock, password: str) -> None:
        """Hash the password again when the parameters have changed since."""
        assert lock.password_hash is not None
        if self._hasher.check_needs_rehash(lock.password_hash):
            fresh = await self._hashed(password)
            await self._ask(only(users.rehash(lock.user.id, fresh, before=lock.password_hash)))

    async def arrive(self, name: str, role: str, *, issuer: str, subject: str, conn: object = None) -> User | None:
        """The account of somebody whom an OpenID provider vouches for, added when there is none; None when it is
        locked, or when another account has its name.
        """
        arriving = users.arrive(secrets.token_hex(6), _name(name), _role(role), issuer=issuer, subject=subject)
        found = await self._ask(only(arriving), conn)
        if not found or found[0].locked_at is not None:
            return None
        return found[0] if await self._ask(only(users.signed_in(found[0].id)), conn) else None

    # — hashing —

    async def _hashed(self, password: str) -> str:
        return await self._thread(lambda: self._hasher.hash(password))

    async def _thread(self, work: Callable[[], T]) -> T:
        """Argon2 takes a tenth of a second on purpose: in a thread, so that the event loop goes on."""
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = loop, asyncio.Semaphore(_AT_ONCE)
        async with self._turns[1]:
            return await asyncio.to_thread(work)

    @cached_property
    def _hasher(self) -> PasswordHasher:
        try:
            from argon2 import PasswordHasher  # noqa: PLC0415 - an extra, and most processes check no password
        except ModuleNotFoundError:
            raise ConfigurationError(
                "Passwords need the extra 'web', which is not installed here.", next="pip install 'retoma[web]'."
            ) from None
        return PasswordHasher()

    @cached_property
    def _nobodys_hash(self) -> str:
        """What the password for an unknown name is compared with."""
        return self._hasher.hash(secrets.token_urlsafe(32))


def _fits(hasher: PasswordHasher, kept: str, password: str) -> bool:
    from argon2.exceptions import Argon2Error, InvalidHashError  # noqa: PLC0415 - as above

    try:
        return hasher.verify(kept, password[: LONGEST_PASSWORD + 1])
    except (Argon2Error, InvalidHashError):
        return False


def _add(name: str, role: str, hashed: str) -> Command[User]:
    added: list[User] = yield users.add(secrets.token_hex(6), name, role, hashed)
    if not added:
        raise Conflict(f"There is an account {name!r} already.", next="'retoma user list' shows them.")
    return added[0]


def _get(who: str) -> Command[User]:
    found: list[User] = yield users.find(_plain(who))
    if not found:
        raise _unknown(who)
    return found[0]


def _unknown(who: str) -> NotFound:
    return NotFound(f"There is no account {who!r}.", next="'retoma user list' shows them.")


def _plain(name: str) -> str:
    """A name as it is compared: people write their own in more ways than one."""
    return unicodedata.normalize("NFKC", name).strip().casefold()[:200]


def _name(name: str) -> str:
    name = _plain(name)
    if not _NAME.fullmatch(name) or _ID.fullmatch(name):
        raise ConfigurationError(
            "An account's name has 1 to 100 letters without accents, digits, dots, hyphens, underscores, + or @.",
            next="Use a short name or an e-mail address, such as ana or ana@example.org.",
        )
    return name


def _role(role: str) -> str:
    if role not in ROLES:
        raise ConfigurationError(f"There is no role {role!r}.", next=f"Roles are {', '.join(ROLES)}.")
    return role


def _password(password: str, name: str) -> str:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise ConfigurationError(
            f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters.",
            next="Three or four words that belong together only for you are long enough.",
        )
    if len(set(password)) < _SHORTEST_VARIETY or (len(name) > 3 and name.partition("@")[0] in password.casefold()):  # noqa: PLR2004
        raise ConfigurationError(
            "This password is too easy to guess.",
            next="Use one that does not contain the name, and has more than a few different characters.",
        )
    return password


def _by_name(name: str) -> str:
    # Hashed, because people type their password into the field of the name.
    return f"name:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _by_address(address: str) -> str:
    return f"address:{address}"
