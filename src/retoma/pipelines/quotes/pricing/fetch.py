"""Pages of strangers, fetched so that no address leads inside: ``providers.public_address`` resolves, checks and pins
every address. Redirects are followed by hand, and each is a new address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import zlib
from dataclasses import dataclass
from urllib.parse import urljoin

import httpx2

from retoma.pipelines.quotes.ports import Refusal
from retoma.pipelines.quotes.pricing.domains import CATALOGUE_SUFFIX
from retoma.providers.public_address import PORTS, AddressRefused, Target, is_public, parts_of, resolved
from retoma.providers.web import web

__all__ = ["Fetched", "PageRefused", "fetch", "is_public"]

REDIRECTS = 5
LARGEST = 3_000_000
"""Bytes of a page, unpacked."""
_HEADERS = {
    "user-agent": "Mozilla/5.0 (compatible; Retoma; price research)",
    "accept": "text/html,application/xhtml+xml;q=0.9",
    "accept-language": "pt-BR,pt;q=0.9",
    "accept-encoding": "gzip",
}
_MOVED = frozenset({301, 302, 303, 307, 308})
_REFUSING = frozenset({401, 403, 429, 451, 503})
_OK = 200


class PageRefused(Exception):
    """A page that is not to be had: *reason*, and a sentence."""

    def __init__(self, reason: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A page as it came; *url* is where it was in the end, *address* who answered."""

    url: str
    content: bytes
    charset: str | None
    address: str


async def fetch(url: str, *, timeout: float, catalogue: tuple[str, int] | None = None) -> Fetched:
    """The page at *url* within *timeout* seconds. *catalogue* is the loopback server of the bundled shops, and the only
    machine inside that is ever asked; only their names lead to it.
    """
    try:
        async with asyncio.timeout(timeout), web(trust_env=False, headers=_HEADERS) as client:
            for _ in range(REDIRECTS + 1):
                target = await _resolved(url, catalogue)
                answer = await _get(client, target)
                if isinstance(answer, Fetched):
                    return answer
                url = answer
    except TimeoutError:
        raise PageRefused(Refusal.TIMEOUT, f"The page did not come within {timeout:g} s.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise PageRefused(Refusal.NETWORK, f"The shop cannot be reached: {type(error).__name__}.") from None
    raise PageRefused(Refusal.PAGE_LOAD, f"The shop redirects more than {REDIRECTS} times.")


async def _get(client: httpx2.AsyncClient, target: Target) -> Fetched | str:
    """The page, or where it moved."""
    request = client.build_request(
        "GET",
        target.pinned,
        headers={"host": target.host},
        extensions={"sni_hostname": target.host},
    )
    response = await client.send(request, stream=True)
    try:
        if response.status_code in _MOVED:
            return urljoin(target.url, response.headers.get("location", ""))
        if response.status_code in _REFUSING:
            raise PageRefused(Refusal.BLOCKED_BY_SITE, f"The shop answered {response.status_code}.")
        if response.status_code != _OK:
            raise PageRefused(Refusal.PAGE_LOAD, f"The shop answered {response.status_code}.")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {"text/html", "application/xhtml+xml", ""}:
            raise PageRefused(Refusal.PAGE_LOAD, f"The shop sent {kind[:60]} and no page.")
        content = await _body(response)
        return Fetched(url=target.url, content=content, charset=response.charset_encoding, address=target.address)
    finally:
        await response.aclose()


async def _body(response: httpx2.Response) -> bytes:
    """What came, unpacked no further than it may be large."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in {"identity", "gzip", ""}:
        raise PageRefused(Refusal.PAGE_LOAD, f"The shop packs its page as {packed[:20]}, which was not asked for.")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed == "gzip" else None
    content = bytearray()
    try:
        async for chunk in response.aiter_raw():
            content += unpack.decompress(chunk, LARGEST + 1 - len(content)) if unpack else chunk
            if len(content) > LARGEST:
                raise PageRefused(Refusal.PAGE_LOAD, f"The page has more than {LARGEST} bytes.")
    except zlib.error:
        raise PageRefused(Refusal.PAGE_LOAD, "The page is damaged.") from None
    return bytes(content)


async def _resolved(url: str, catalogue: tuple[str, int] | None) -> Target:
    """Where *url* leads; refused when it is not a plain address of the public web."""
    try:
        parts = parts_of(url)
        if parts.port not in (None, PORTS[parts.scheme]):
            raise _inside("Only plain http and https addresses on their own ports are opened.")
        if catalogue and parts.host.endswith(CATALOGUE_SUFFIX):
            return Target(url, parts.host, *_loopback(catalogue), is_https=False)
        return await resolved(parts)
    except AddressRefused as refused:
        raise (_inside(refused.detail) if refused.resolved else PageRefused(Refusal.NETWORK, refused.detail)) from None


def _inside(why: str) -> PageRefused:
    return PageRefused(Refusal.NETWORK, f"The address is not opened. {why}")


def _loopback(catalogue: tuple[str, int]) -> tuple[str, int]:
    if not ipaddress.ip_address(catalogue[0]).is_loopback:
        raise _inside("The catalogue is not on this machine.")
    return catalogue
