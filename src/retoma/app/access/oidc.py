"""People whom an OpenID provider vouches for: authorization code with PKCE, and a token that is checked here."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from retoma.app.access.people import ROLES
from retoma.commands.jobs import only
from retoma.errors import ConfigurationError, RetomaError
from retoma.postgres.connections import CommandRunner
from retoma.postgres.database import Database
from retoma.store import sign_ins
from retoma.system.settings import Settings

LASTS = 600.0
"""Seconds that somebody may take to sign in at the provider."""
_KEPT = 3600.0
_AGAIN = 10.0
_PATIENCE = 10.0
_LEEWAY = 60
_OK = 200
_ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA"]
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class OidcRefused(RetomaError):
    """A sign-in at the provider that lets nobody in; the reason is for the log and the audit, not for the caller."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody whom the provider vouches for, and the role that follows from what it says of them."""

    issuer: str
    subject: str
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Started:
    """A sign-in that begins: where the browser goes, and what it must bring back."""

    url: str
    browser: str


class Oidc(CommandRunner):
    """The OpenID provider of an app."""

    def __init__(self, database: Callable[[], Database]) -> None:
        super().__init__(database)
        self._known: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, Mapping[str, Any]] | None = None

    @property
    def _settings(self) -> Settings:
        return self._database().settings

    async def begin(self, place: str, *, returns_to: str) -> Started:
        """Begin a sign-in that leads to *place*; the provider sends the browser back to *returns_to*."""
        _require()
        known = await self._discovered()
        state, nonce, verifier, browser = (secrets.token_urlsafe(32) for _ in range(4))
        begun = sign_ins.begin(_hash(state), _hash(browser), nonce=nonce, verifier=verifier, place=place, lasts=LASTS)
        await self._ask(only(begun))
        asked = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": returns_to,
            "scope": self._settings.oidc_scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": urlsafe_b64encode(_hash(verifier)).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return Started(f"{known['authorization_endpoint']}?{urlencode(asked)}", browser)

    async def finish(self, state: str, code: str, *, browser: str, returns_to: str) -> tuple[Identity, str]:
        """Who came back with *state* and *code*, and where they wanted to go; each state is good once."""
        found = await self._ask(only(sign_ins.take(_hash(state), _hash(browser))))
        if not found or not found[0].usable:
            raise OidcRefused("The state is unknown, used, too old, or of another browser.")
        token = await self._exchanged(code, found[0].verifier, returns_to)
        claims = await self._checked(token, found[0].nonce)
        return self._identity(claims), found[0].place

    async def _exchanged(self, code: str, verifier: str, returns_to: str) -> str:
        known, secret = await self._discovered(), self._settings.oidc_client_secret
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": returns_to,
            "client_id": self._settings.oidc_client_id,
            "code_verifier": verifier,
            **({"client_secret": secret.get_secret_value()} if secret is not None else {}),
        }
        answer = await _fetched("POST", str(known["token_endpoint"]), data=sent)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise OidcRefused("The provider gave no id_token.")
        return token

    async def _checked(self, token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of a token that the provider signed for us, for this sign-in, and that is still good. A key that
        is not known is looked for once more: the provider may have rotated its keys.
        """
        from joserfc import jwt  # noqa: PLC0415 - an extra
        from joserfc.errors import JoseError  # noqa: PLC0415 - an extra
        from joserfc.jwk import KeySet  # noqa: PLC0415 - an extra

        issuer, client = self._settings.oidc_issuer, self._settings.oidc_client_id
        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": issuer or ""},
            aud={"essential": True, "value": client},
            exp={"essential": True},
            nonce={"essential": True, "value": nonce},
            sub={"essential": True},
        )
        for anew in (False, True):
            keys = KeySet.import_key_set(await self._key_set(anew=anew))  # type: ignore[arg-type]
            try:
                claims = jwt.decode(token, keys, algorithms=_ALGORITHMS).claims
                break
            except (JoseError, ValueError) as error:
                if anew:
                    raise OidcRefused(f"The token is not signed by the provider: {type(error).__name__}.") from None
        try:
            registry.validate(claims)
        except JoseError as error:
            raise OidcRefused(f"The token does not fit: {error}.") from None
        if isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1 and claims.get("azp") != client:
            raise OidcRefused("The token was made for somebody else as well.")
        return claims

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        said = claims.get(self._settings.oidc_role_claim)
        groups = {str(each) for each in said} if isinstance(said, list) else {str(said)}
        # The strongest of those that match exactly.
        mapped = [role for group, role in self._settings.oidc_roles if group in groups]
        role = next((each for each in reversed(ROLES) if each in mapped), None) or self._settings.oidc_role
        name = claims.get(self._settings.oidc_name_claim) or claims["sub"]
        if role is None:
            raise OidcRefused("None of the person's groups has a role here.")
        return Identity(str(claims["iss"]), str(claims["sub"]), str(name), role)

    async def _discovered(self) -> Mapping[str, Any]:
        issuer = self._settings.oidc_issuer
        if issuer is None or not self._settings.oidc_client_id:
            raise ConfigurationError(
                "No OpenID provider is set up.", next="Set RETOMA_OIDC_ISSUER and RETOMA_OIDC_CLIENT_ID."
            )
        if self._known is None or time.monotonic() - self._known[0] > _KEPT:
            found = await _fetched("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != issuer:
                raise OidcRefused("The provider calls itself by another name than RETOMA_OIDC_ISSUER.")
            self._known = time.monotonic(), found
        return self._known[1]

    async def _key_set(self, *, anew: bool) -> Mapping[str, Any]:
        now = time.monotonic()
        if self._keys is None or now - self._keys[0] > (_AGAIN if anew else _KEPT):
            known = await self._discovered()
            self._keys = now, await _fetched("GET", str(known["jwks_uri"]))
        return self._keys[1]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _require() -> None:
    try:
        import httpx2  # noqa: F401, PLC0415 - an extra
        import joserfc  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError:
        raise ConfigurationError(
            "Signing in with an OpenID provider needs the extra 'oidc', which is not installed here.",
            next="pip install 'retoma[oidc]'.",
        ) from None


async def _fetched(method: str, url: str, **options: Any) -> Mapping[str, Any]:
    """The JSON object at *url*, over https unless it is on this machine."""
    import httpx2  # noqa: PLC0415 - an extra

    from retoma.providers.web import web  # noqa: PLC0415 - imports the extra

    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise OidcRefused("The provider is not asked over plain http.")
    try:
        async with asyncio.timeout(_PATIENCE), web() as client:
            response = await client.request(method, url, headers={"accept": "application/json"}, **options)
            found = response.json() if response.status_code == _OK else None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, TimeoutError) as error:
        raise OidcRefused(f"The provider cannot be asked: {type(error).__name__}.") from None
    if not isinstance(found, dict):
        raise OidcRefused(f"The provider answered {response.status_code}.")
    return found
