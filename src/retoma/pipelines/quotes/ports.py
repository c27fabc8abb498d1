"""What a quote asks of the outside world, and the values that pass between: the stages know no more of it than this.

Whatever may cost money has the shape of ``PriceSearch``, so that ``run.search`` writes it down before it is sent. Pages
are free: opening one is a plain step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol, runtime_checkable

from retoma.providers import Offers, PriceSearch


class SourceKind(StrEnum):
    """What sort of source a price has. The first two come before the others by law."""

    OFFICIAL = "OFFICIAL"
    """Systems of official prices."""
    CONTRACT = "CONTRACT"
    """Similar contracts of public bodies."""
    TABLE = "TABLE"
    """Reference tables, such as FIPE."""
    SHOP = "SHOP"
    """Sites that sell to everybody."""
    SUPPLIER = "SUPPLIER"
    """What a supplier offered when asked."""
    INVOICE = "INVOICE"
    """Electronic invoices."""
    BANK = "BANK"
    """The price bank of the house."""


class Refusal(StrEnum):
    """Why a price does not count."""

    TIMEOUT = "TIMEOUT"
    PRICE_MISMATCH = "PRICE_MISMATCH"
    EXTRACTION_FAILED = "EXTRACTION_FAILED"
    INVALID_PRICE = "INVALID_PRICE"
    PAGE_LOAD = "PAGE_LOAD"
    SCREENSHOT = "SCREENSHOT"
    BLOCKED_BY_SITE = "BLOCKED_BY_SITE"
    NETWORK = "NETWORK"
    NO_STORE_LINK = "NO_STORE_LINK"
    BLOCKED_DOMAIN = "BLOCKED_DOMAIN"
    FOREIGN_DOMAIN = "FOREIGN_DOMAIN"
    LISTING_PAGE = "LISTING_PAGE"
    DUPLICATE_DOMAIN = "DUPLICATE_DOMAIN"
    SPEC_MISMATCH = "SPEC_MISMATCH"
    INSTALMENT_PRICE = "INSTALMENT_PRICE"
    OLD_PRICE = "OLD_PRICE"
    FOREIGN_CURRENCY = "FOREIGN_CURRENCY"
    SOLD_OUT = "SOLD_OUT"
    TOO_OLD = "TOO_OLD"
    OUTSIDE_BLOCK = "OUTSIDE_BLOCK"
    """A good price, and no part of the block that was chosen."""
    BY_PERSON = "BY_PERSON"
    """A person refused it, and said why."""
    OTHER = "OTHER"


class Method(StrEnum):
    """How a price was read."""

    JSONLD = "JSONLD"
    META = "META"
    DOM = "DOM"
    LLM = "LLM"
    API_FIPE = "API_FIPE"
    API_OFFICIAL = "API_OFFICIAL"
    GOOGLE_SHOPPING = "GOOGLE_SHOPPING"
    PRICE_BANK = "PRICE_BANK"
    MANUAL = "MANUAL"


# — the item —


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What somebody wants a price for."""

    text: str
    code: str | None = None
    unit: str | None = None
    quantity: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Specifications:
    """What the thing must be, and what would be nice to know."""

    essenciais: dict[str, str] = field(default_factory=dict)
    complementares: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FipeWanted:
    """How a vehicle is found in the table."""

    vehicle_type: str = "cars"
    """"cars", "motorcycles" or "trucks"."""
    codigo_fipe: str | None = None
    marca: str | None = None
    modelo: str | None = None
    ano: int | None = None
    combustivel: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """An item, understood. The names are those its users know from the answers of the AI."""

    tipo_processamento: str
    """"FIPE" for vehicles, else "GOOGLE_SHOPPING"."""
    nome_canonico: str
    marca: str | None = None
    modelo: str | None = None
    categoria: str | None = None
    natureza: str | None = None
    especificacoes: Specifications = Specifications()
    query_principal: str = ""
    """What is searched for; without the brand, so that equals of other brands are found."""
    queries_alternativas: list[str] = field(default_factory=list)
    termos_excluir: list[str] = field(default_factory=list)
    """A title with one of these is another thing."""
    nivel_confianca: float = 0.0
    dados_faltantes: list[str] = field(default_factory=list)
    fipe_api: FipeWanted | None = None
    fallback_google_shopping: str | None = None
    """What is searched for in shops when the table knows nothing."""
    catmat: str | None = None
    """The code of the item in the federal catalogue, where it is known."""

    @property
    def is_vehicle(self) -> bool:
        return self.tipo_processamento == "FIPE"


class Understanding(Protocol):
    """Understands items on this machine, free of charge."""

    async def understand(self, item: Item) -> Analysis:
        """What *item* is, and how to search for it."""
        ...


# — prices —


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A price as a source lists it."""

    title: str
    price: Decimal
    currency: str = "BRL"
    url: str | None = None
    """Its page; None when only a second call tells it."""
    domain: str | None = None
    source: str
    """The provider that was asked, as in "serpapi"."""
    key: str
    """Names the offer among those of one answer, and stays the same when the same answer is read again."""
    kind: SourceKind = SourceKind.SHOP
    token: str | None = None
    """What the second call is asked with."""
    seller: str | None = None
    """Who sells or bought: the shop, or the organ and its supplier."""
    dated: datetime | None = None
    """When the price was agreed on, where it is not of today."""
    refused: Refusal | None = None
    """Why it cannot count, when the list alone tells that."""
    detail: dict[str, str] = field(default_factory=dict)
    """What else a report should tell, such as the FIPE code or the CNPJ."""


@runtime_checkable
class PriceSource(Protocol):
    """A source of prices. It is a ``PriceSearch`` whose answers it can read."""

    provider: str
    kind: SourceKind
    method: Method
    """How a price of an offer without a page was read."""
    opens_pages: bool
    """Whether a price counts only once its page was read; the record of an official system is evidence by itself."""
    details: PriceSearch | None
    """The second call, asked with the token of an offer: its answer's first link is the shop's page."""

    def query_for(self, analysis: Analysis) -> str | None:
        """What this source is asked; None when it has nothing to say about such an item."""
        ...

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """The answer as it came."""
        ...

    def read(self, found: Offers) -> Sequence[Offer]:
        """The offers in an answer of *search*; reads nothing else, so that it gives the same again."""
        ...


# — pages and evidence —


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What shows a price to somebody who was not there."""

    url: str
    sha256: str
    """Of the bytes that *blob* names."""
    blob: str
    captured_at: datetime
    kind: str = "text/html"
    screenshot: str | None = None
    """The blob of the picture."""
    screenshot_sha256: str | None = None
    without_screenshot: str | None = None
    """Why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRead:
    """What came of opening a page: a price, or the reason why there is none."""

    url: str
    """Where it led in the end."""
    domain: str
    title: str | None = None
    price: Decimal | None = None
    currency: str = "BRL"
    method: Method | None = None
    refused: Refusal | None = None
    message: str = ""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The picture of a page, or why there is none."""

    blob: str | None = None
    sha256: str | None = None
    missing: str | None = None


@runtime_checkable
class Photographer(Protocol):
    """Takes pictures of pages that were kept. A ``PageReader`` may be one."""

    async def picture(self, html: bytes) -> Picture:
        """The picture of *html*, kept; what goes wrong is told in the answer."""
        ...


class PageReader(Protocol):
    """Opens pages and keeps them. What a page does wrong is told in the answer and never raised."""

    async def read(self, url: str, *, timeout: float) -> PageRead:
        """The price on the page at *url*, and the evidence of it."""
        ...

    async def keep(self, content: str, *, url: str, kind: str) -> Evidence:
        """Keep what a service answered as evidence."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Where prices come from; the provider that the pipeline asks for. Official sources are listed first."""

    understanding: Understanding
    sources: Sequence[PriceSource]
    pages: PageReader

    async def aclose(self) -> None:
        """Close the connections of those that have any."""
        for each in (*self.sources, self.pages):
            if hasattr(each, "aclose"):
                await each.aclose()
