"""Addresses that others give: resolved here, checked and pinned, so that none leads inside.

A name may mean another machine on the second look, so a connection goes to the address that was checked, with the name
in the handshake and in the header. Proxies of the environment are not asked: they would resolve the name again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}
# Ranges that carry another address inside, by which a public one could mean a private one; and the old ones of a site,
# which Python takes for public.
_CARRIERS = tuple(
    map(
        ipaddress.ip_network,
        ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "fec0::/10"),
    )
)


class AddressRefused(Exception):
    """An address that is not opened, and why; *resolved* is False when its name means nothing at the moment."""

    def __init__(self, detail: str, *, resolved: bool = True) -> None:
        super().__init__(detail)
        self.detail = detail
        self.resolved = resolved


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: the name it is for, and the address that was checked."""

    url: str
    host: str
    address: str
    port: int
    is_https: bool

    @property
    def pinned(self) -> str:
        """The URL with the checked address in place of the name."""
        parts = urlsplit(self.url)
        host = f"[{self.address}]" if ":" in self.address else self.address
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        return f"{'https' if self.is_https else 'http'}://{host}:{self.port}{path}"

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.is_https else "http"] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Parts:
    """A URL in its parts, before its name is resolved."""

    url: str
    scheme: str
    host: str
    port: int | None


def parts_of(url: str) -> Parts:
    """The parts of a plain http or https URL."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, (parts.hostname or "").rstrip("."), parts.port
        host = host.encode("idna").decode() if not host.isascii() else host
    except (ValueError, UnicodeError):
        raise AddressRefused("It is not well formed.") from None
    if scheme not in PORTS or not host or parts.username is not None:
        raise AddressRefused("Only plain http and https addresses are opened, without a name and password in them.")
    return Parts(url, scheme, host, port)


async def resolved(parts: Parts, *, private: bool = False) -> Target:
    """Where *parts* lead; refused when any of the machines that the name means is not on the public network, unless
    *private* ones are allowed.
    """
    port = parts.port or PORTS[parts.scheme]
    addresses = await addresses_of(parts.host, port)
    if not addresses:
        raise AddressRefused(f"{parts.host} has no address.", resolved=False)
    # All of them: a name that means a public and a private machine is a trick.
    inside = next((each for each in addresses if not is_public(each)), None)
    if inside and not private:
        raise AddressRefused(f"{parts.host} means {inside}, which is not on the public network.")
    return Target(parts.url, parts.host, addresses[0], port, is_https=parts.scheme == "https")


async def addresses_of(host: str, port: int) -> list[str]:
    """Every address that *host* means, in the order of the resolver."""
    loop = asyncio.get_running_loop()
    try:
        found: list[Any] = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))


def is_public(address: str) -> bool:
    """Whether *address* belongs to a machine of the public network, also by what it carries inside."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            return is_public(str(ip.ipv4_mapped))
        if any(ip in network for network in _CARRIERS):
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved
