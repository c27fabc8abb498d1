"""One request of a webhook: signed by Standard Webhooks, to an address that was checked, without redirects."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from retoma.errors import ConfigurationError
from retoma.providers.public_address import AddressRefused, Parts, parts_of, resolved

_OK, _LAST_OK = 200, 299
_MOVED = range(300, 400)
_GONE = 410
_WAITS = frozenset({429, 503})
_LONGEST_WAIT = 86_400.0
_EXTRA = ConfigurationError(
    "Webhooks need the extra 'webhooks', which is not installed here.", next="pip install 'retoma[webhooks]'."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """How a request ended: the status of its answer, or why there is none. *wait* is what the receiver asks for."""

    status: int | None = None
    error: str | None = None
    seconds: float = 0.0
    wait: float | None = None

    @property
    def arrived(self) -> bool:
        return self.status is not None and _OK <= self.status <= _LAST_OK

    @property
    def gone(self) -> bool:
        """Whether the receiver says that it wants no more."""
        return self.status == _GONE


def require() -> None:
    """Raise when what a delivery needs is not installed."""
    try:
        import httpx2  # noqa: F401, PLC0415 - an extra
        import standardwebhooks  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError:
        raise _EXTRA from None


def new_secret() -> str:
    """A secret of 256 random bits, in the form that receivers' libraries take."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


async def checked(url: str, *, private: bool) -> None:
    """Raise when no message may go to *url*: it must lead to the public network over https, unless *private* ones are
    allowed.
    """
    try:
        await resolved(_plain(url, private=private), private=private)
    except AddressRefused as refused:
        if refused.resolved:
            raise ConfigurationError(
                f"Messages may not go to this address. {refused.detail}",
                next="Give an https address on the public network, or set RETOMA_WEBHOOK_PRIVATE=on for one inside.",
            ) from None


def _plain(url: str, *, private: bool) -> Parts:
    parts = parts_of(url)
    if parts.scheme != "https" and not private:
        raise AddressRefused("It does not begin with https.")
    return parts


def signed(id: str, body: str, secrets: list[str], *, at: int) -> dict[str, str]:
    """The headers of a message; one signature for each secret."""
    from standardwebhooks import Webhook  # noqa: PLC0415 - an extra

    moment = datetime.fromtimestamp(at, UTC)
    signatures = [Webhook(secret).sign(id, moment, body) for secret in secrets]
    return {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": " ".join(signatures)}


async def post(url: str, id: str, body: str, secrets: list[str], *, seconds: float, private: bool) -> Posted:
    """Send a message once, and wait at most *seconds* for the status of the answer; its body is not read."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            target = await resolved(_plain(url, private=private), private=private)
            posted = await _sent(target.pinned, target.authority, target.host, id, body, secrets)
    except AddressRefused as refused:
        posted = Posted(error=f"The address is not opened. {refused.detail}")
    except TimeoutError:
        posted = Posted(error=f"The receiver did not answer within {seconds:g} s.")
    return Posted(status=posted.status, error=posted.error, seconds=time.monotonic() - started, wait=posted.wait)


async def _sent(url: str, authority: str, name: str, id: str, body: str, secrets: list[str]) -> Posted:
    import httpx2  # noqa: PLC0415 - an extra

    from retoma.providers.web import web  # noqa: PLC0415 - imports the extra

    headers = {
        "host": authority,
        "content-type": "application/json",
        "user-agent": "Retoma webhooks",
        **signed(id, body, secrets, at=int(time.time())),
    }
    try:
        async with web(trust_env=False) as client:
            request = client.build_request(
                "POST", url, content=body.encode(), headers=headers, extensions={"sni_hostname": name}
            )
            response = await client.send(request, stream=True)
            await response.aclose()
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return Posted(error=f"The receiver cannot be reached: {type(error).__name__}.")
    status = response.status_code
    if status in _MOVED:
        return Posted(status=status, error=f"The receiver answered {status}, and redirects are not followed.")
    wait = response.headers.get("retry-after", "") if status in _WAITS else ""
    return Posted(
        status=status,
        error=None if _OK <= status <= _LAST_OK else f"The receiver answered {status}.",
        wait=min(float(wait), _LONGEST_WAIT) if wait.isdecimal() else None,
    )
