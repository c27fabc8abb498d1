"""Who may come in, over the wire: keys, accounts and sessions; never a secret but the one that is shown once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from retoma.web.api.schemas.requests import WHOLE, Asked, Text
from retoma.web.api.schemas.responses import Schema, Time

Scope = Literal["read", "content:read", "submit", "operate", "review", "admin"]
Role = Literal["reader", "reviewer", "operator", "admin"]
Days = Annotated[int, Field(ge=1, le=3650), WHOLE]
GraceHours = Annotated[int, Field(ge=0, le=24 * 90), WHOLE]
Password = Annotated[str, Field(min_length=12, max_length=200)]
AccountName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._@+-]{0,99}$")]


class NewKey(Asked):
    """A key to make; what is left out is as the settings have it."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=6)]
    pipelines: Annotated[list[Text], Field(max_length=100)] | None = None
    expires_days: Days | None = None


class Rotation(Asked):
    """How long the secret of before still opens."""

    grace_hours: GraceHours = 24


class ApiKey(Schema):
    """A key, and whether it opens."""

    id: str
    name: str
    scopes: list[str]
    pipelines: list[str] | None
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None
    usable: bool


class ApiKeys(Schema):
    """Every key, the oldest first."""

    keys: list[ApiKey]


class MadeKey(Schema):
    """A key that was just made, with its secret, which is shown this once."""

    id: str
    secret: str
    key: ApiKey


class NewUser(Asked):
    """An account to add."""

    name: AccountName
    role: Role
    password: Password


class NewRole(Asked):
    """Another role for an account."""

    role: Role


class NewPassword(Asked):
    """Another password for an account."""

    password: Password


class Account(Schema):
    """An account; never its password."""

    id: str
    name: str
    role: Role
    has_password: bool
    issuer: str | None
    created_at: Time
    password_at: Time | None
    signed_in_at: Time | None
    locked_at: Time | None


class Accounts(Schema):
    """Every account, by name."""

    users: list[Account]


class OpenSession(Schema):
    """Somebody who is signed in with a browser."""

    id: str
    opened_by: str
    key_id: str | None
    user_id: str | None
    name: str | None
    address: str | None
    created_at: Time
    seen_at: Time
    expires_at: Time
    ended_at: Time | None
    usable: bool


class OpenSessions(Schema):
    """Who is signed in, the newest first."""

    sessions: list[OpenSession]
