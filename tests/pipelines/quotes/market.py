"""A small market: shops, an official register and a table, whose every paid request is a line in a file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from retoma.pipelines.quotes.ports import (
    Analysis,
    Evidence,
    FipeWanted,
    Item,
    Market,
    Method,
    Offer,
    PageRead,
    Refusal,
    SourceKind,
)
from retoma.providers import Offer as Listed
from retoma.providers import Offers, PriceSearch, Usage

COST = Decimal("0.01")
"""Dollars for a request to a shop."""


@dataclass
class Bill:
    """Appended before the answer leaves: whoever is killed, no line is lost."""

    file: Path
    halt: Path | None = None
    """A folder: as long as the name of a kind of request is in it, nobody is answered."""

    def line(self, *words: str) -> None:
        out = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(out, (" ".join(words) + "\n").encode())
        os.close(out)

    async def paid(self, *words: str) -> None:
        """A request has come in, and is billed; who is told to wait never answers it."""
        self.line(*words)
        while self.halt is not None and (self.halt / words[0]).exists():
            await asyncio.sleep(0.02)

    def lines(self, first: str | None = None) -> list[str]:
        said = self.file.read_text().splitlines() if self.file.exists() else []
        return [each for each in said if first is None or each.startswith(f"{first} ")]


class Rules:
    """Understands by one word."""

    def __init__(self, bill: Bill) -> None:
        self.bill = bill

    async def understand(self, item: Item) -> Analysis:
        self.bill.line("understand", item.text)
        if item.text.startswith("Fiat"):
            return Analysis(
                tipo_processamento="FIPE",
                nome_canonico=item.text,
                marca="Fiat",
                modelo="Uno Mille",
                query_principal=item.text,
                fipe_api=FipeWanted(marca="Fiat", modelo="Uno Mille", ano=2012),
                fallback_google_shopping="carro usado",
            )
        return Analysis(
            tipo_processamento="GOOGLE_SHOPPING",
            nome_canonico=item.text,
            query_principal=item.text.lower(),
            termos_excluir=["capa"],
        )


@dataclass
class Product:
    """What is sold, and what its page says."""

    name: str
    listed: str
    page: str | None = None
    refused: Refusal | None = None
    domain: str | None = None
    title: str = ""
    link: bool = True
    currency: str = "BRL"

    @property
    def shop(self) -> str:
        return self.domain or f"{self.name}.com.br"

    @property
    def url(self) -> str:
        return f"https://{self.shop}/{self.name}"


DESKS = [Product(name, price) for name, price in (("a", "100"), ("b", "104"), ("c", "110"), ("d", "118"), ("e", "900"))]


class Details:
    """The second call: where the shop is."""

    provider = "shopping"
    model = "product"

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:  # noqa: ARG002
        await self._shop.bill.paid("product", query)
        found = next(each for each in self._shop.products if each.name == query)
        link = found.url if found.link else None
        offer = Listed(title=found.name, price=Decimal(found.listed), currency="BRL", source="x", link=link)
        return Offers(offers=[offer], raw=json.dumps({"link": link}), usage=Usage(units=1))


class Shop:
    """Shops, by a service that is paid for each request."""

    provider = "shopping"
    kind = SourceKind.SHOP
    method = Method.GOOGLE_SHOPPING
    opens_pages = True

    def __init__(self, bill: Bill, products: Sequence[Product] = DESKS) -> None:
        self.bill = bill
        self.products = list(products)
        self.failures: list[Exception] = []
        self.details: PriceSearch | None = Details(self)

    def query_for(self, analysis: Analysis) -> str | None:
        return analysis.query_principal

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:  # noqa: ARG002
        await self.bill.paid("search", query)
        if self.failures:
            raise self.failures.pop(0)
        raw = [
            {"name": each.name, "price": each.listed, "title": each.title, "currency": each.currency}
            for each in self.products
        ]
        return Offers(offers=[], raw=json.dumps(raw), usage=Usage(units=1))

    def read(self, found: Offers) -> Sequence[Offer]:
        return [
            Offer(
                title=each["title"] or f"Mesa {each['name']}",
                price=Decimal(each["price"]),
                currency=each["currency"],
                source=self.provider,
                key=f"{each['name']}|{each['price']}",
                token=each["name"],
            )
            for each in json.loads(found.raw)
        ]


class Register:
    """Prices that public bodies paid."""

    provider = "register"
    kind = SourceKind.OFFICIAL
    method = Method.API_OFFICIAL
    opens_pages = False
    details: PriceSearch | None = None
    bills = False

    def __init__(self, bill: Bill, *prices: str) -> None:
        self.bill = bill
        self.prices = prices

    def query_for(self, analysis: Analysis) -> str | None:
        return analysis.nome_canonico

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:  # noqa: ARG002
        self.bill.line("register", query)
        return Offers(offers=[], raw=json.dumps(list(self.prices)))

    def read(self, found: Offers) -> Sequence[Offer]:
        return [
            Offer(title="Mesa", price=Decimal(price), source=self.provider, key=f"register|{price}", kind=self.kind)
            for price in json.loads(found.raw)
        ]


class Table:
    """What vehicles are worth."""

    provider = "table"
    kind = SourceKind.TABLE
    method = Method.API_FIPE
    opens_pages = False
    details: PriceSearch | None = None
    bills = False

    def __init__(self, bill: Bill, *, knows: bool = True) -> None:
        self.bill = bill
        self.knows = knows

    def query_for(self, analysis: Analysis) -> str | None:
        return analysis.nome_canonico if analysis.is_vehicle else None

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:  # noqa: ARG002
        self.bill.line("table", query)
        return Offers(offers=[], raw=json.dumps(["21345.00"] if self.knows else []))

    def read(self, found: Offers) -> Sequence[Offer]:
        detail = {"codigo_fipe": "001004-9", "ano": "2012", "marca": "Fiat", "modelo": "Uno Mille 1.0 Fire"}
        return [
            Offer(title="Fiat Uno", price=Decimal(price), source="table", key="001004-9/2012", kind=self.kind,
                  detail={**detail, "mes_referencia": "novembro de 2026", "combustivel": "Gasolina"})
            for price in json.loads(found.raw)
        ]  # fmt: skip


@dataclass
class Pages:
    """The pages of the shops."""

    bill: Bill
    products: Sequence[Product] = field(default_factory=lambda: DESKS)

    async def read(self, url: str, *, timeout: float) -> PageRead:  # noqa: ARG002 - as the protocol has it
        await self.bill.paid("page", url)
        found = next(each for each in self.products if each.url == url)
        evidence = await self.keep(f"<html>{found.page or found.listed}</html>", url=url, kind="text/html")
        price = None if found.refused else Decimal(found.page or found.listed)
        return PageRead(
            url=url,
            domain=found.shop,
            title=f"Loja {found.name}",
            price=price,
            method=Method.JSONLD,
            refused=found.refused,
            message="The page says so." if found.refused else "",
            evidence=evidence,
        )

    async def keep(self, content: str, *, url: str, kind: str) -> Evidence:
        sha = hashlib.sha256(content.encode()).hexdigest()
        return Evidence(url=url, sha256=sha, blob=f"evidence/{sha}", captured_at=datetime.now(UTC), kind=kind)


def a_market(
    bill: Bill, products: Sequence[Product] = DESKS, *, official: Sequence[str] = (), knows: bool = True
) -> Market:
    """Shops with *products*, an official register and a table."""
    sources = [Register(bill, *official), Shop(bill, products), Table(bill, knows=knows)]
    return Market(understanding=Rules(bill), sources=sources, pages=Pages(bill, products))
