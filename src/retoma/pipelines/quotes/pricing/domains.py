"""Addresses of shops: whose they are, whether they are Brazilian, whether they list many products."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from retoma.pipelines.quotes.ports import Refusal
from retoma.pipelines.quotes.pricing.offers import Refused

CATALOGUE_SUFFIX = ".test"
"""The shops of the bundled catalogue end with it; the name is reserved and belongs to nobody."""

NO_PAGE = "The answer of a service is no page."
"""Why there is no picture of such an answer. It stands here because reports are written where no page can be opened."""

_SECOND_LEVEL = frozenset(
    "com net org gov edu ind art blog eco emp log mil tec tur tv wiki app jus leg mp coop srv adv eng co".split()  # noqa: SIM905
)
_LISTING_SEGMENTS = frozenset(
    "busca buscar search pesquisa categoria categorias category categories colecao colecoes collection collections "  # noqa: SIM905
    "lista listagem departamento departamentos ofertas s".split()
)
_LISTING_PARAMETERS = frozenset({"q", "busca", "search", "query", "keyword", "ft", "k", "pesquisa"})
_PRODUCT_SEGMENTS = frozenset({"p", "dp", "produto", "produtos", "product", "products", "item", "sku"})
_SEARCHES = re.compile(r"(?:^|\.)(?:google|bing|buscape|zoom|bondfaro)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shops:
    """Which shops count."""

    blocked: Collection[str] = ()
    """Domains that never count."""
    national: Collection[str] = field(default=(".br", f".br{CATALOGUE_SUFFIX}"))
    """How the names of Brazilian shops end."""
    also_national: Collection[str] = ()
    """Domains of Brazilian shops whose names end otherwise."""

    def refusal(self, url: str | None, *, seen: Collection[str] = ()) -> Refused | None:
        """Why the shop at *url* does not count, before its page is opened; *seen* are the domains that count
        already.
        """
        domain = domain_of(url or "")
        if not url or not domain or _SEARCHES.search(domain):
            return Refused(reason=Refusal.NO_STORE_LINK, detail="The search gives no address of a shop.")
        if self._is_blocked(url):
            return Refused(reason=Refusal.BLOCKED_DOMAIN, detail=f"The rules exclude {domain}.")
        if not domain.endswith(tuple(self.national)) and domain not in self.also_national:
            return Refused(reason=Refusal.FOREIGN_DOMAIN, detail=f"{domain} is not the name of a Brazilian shop.")
        if domain in seen:
            return Refused(reason=Refusal.DUPLICATE_DOMAIN, detail=f"A price of {domain} counts already.")
        if is_listing(url):
            return Refused(reason=Refusal.LISTING_PAGE, detail="The address leads to a search or a category.")
        return None

    def _is_blocked(self, url: str) -> bool:
        """Whether *url* leads to a blocked shop, or to a part of one."""
        host = host_of(url)
        return any(host == each or host.endswith(f".{each}") for each in map(host_of, self.blocked) if each)


def host_of(url: str) -> str:
    """The whole name of a machine, without "www."; also of a name alone."""
    try:
        host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError:
        return ""
    return host.strip().rstrip(".").lower().removeprefix("www.")


def domain_of(url: str) -> str:
    """The name under which a shop is registered: "loja.com.br" for "https://www.loja.com.br/p/1"; empty for none."""
    try:
        host = urlsplit(url).hostname or ""
        host = host.encode("idna").decode() if not host.isascii() else host
    except (ValueError, UnicodeError):
        return ""
    host = host.rstrip(".").lower()
    suffix = CATALOGUE_SUFFIX if host.endswith(CATALOGUE_SUFFIX) else ""
    labels = host.removesuffix(suffix).split(".")
    if len(labels) < 2 or labels[-1].isdigit() or ":" in host:  # noqa: PLR2004 - a name and a top level
        return ""
    is_long = labels[-2] in _SECOND_LEVEL and len(labels[-1]) == 2  # noqa: PLR2004 - a country
    return ".".join(labels[-3:] if is_long else labels[-2:]) + suffix


def is_listing(url: str) -> bool:
    """Whether *url* looks like a search, a category or the front page."""
    try:
        parts = urlsplit(url)
        parameters = {name for name, _ in parse_qsl(parts.query, max_num_fields=100)}
    except ValueError:
        return False
    segments = [segment.lower() for segment in parts.path.split("/") if segment]
    if not segments:
        return not parameters - _LISTING_PARAMETERS
    if _PRODUCT_SEGMENTS & set(segments):
        return False
    return bool(_LISTING_SEGMENTS & set(segments[:2]) or parameters & _LISTING_PARAMETERS)
