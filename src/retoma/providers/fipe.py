"""Prices of vehicles from the FIPE table, by the public API of Parallelum (v1) or one of the same shape.

The table is a tree: a brand has models, a model has years, and a year of a model has a price.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal, TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, RootModel
from pydantic.alias_generators import to_pascal

from retoma.providers import Offer, Offers
from retoma.providers.http import Reply, read, unreadable
from retoma.providers.web import WebLine, reply_of, web

W = TypeVar("W", bound=BaseModel)
Vehicles = Literal["carros", "motos", "caminhoes"]

FIPE = "https://parallelum.com.br/fipe/api/v1"

_MOST = 10  # models that one search looks up: each costs two requests of a small daily allowance
_YEAR = re.compile(r"(?:19|20)\d\d")
_NAMES = re.compile(r"(?<!\s)\s++-\s+|/")  # a brand may have several names: "VW - VolksWagen", "Caoa Chery/Chery"


@dataclass(frozen=True, slots=True)
class Entry:
    """A brand, a model or a year: its *code* in the table, and its name."""

    code: str
    name: str


class Fipe:
    """The table at *base_url*. It is free, so no failure here was paid for."""

    provider = "fipe"
    bills = False

    def __init__(self, *, base_url: str = FIPE, token: str | None = None) -> None:
        headers = {"X-Subscription-Token": token} if token else {}
        secrets = (token,) if token else ()
        self._line = WebLine(
            self.provider, lambda: web(base_url=base_url, headers=headers), secrets=secrets, bills=False
        )

    async def brands(self, *, vehicles: Vehicles = "carros", timeout: float) -> Sequence[Entry]:
        """Every brand."""
        return await self._line.ask(lambda client: self._brands(client, vehicles), timeout=timeout)

    async def models(self, brand: str, *, vehicles: Vehicles = "carros", timeout: float) -> Sequence[Entry]:
        """The models of a brand."""
        return await self._line.ask(lambda client: self._models(client, f"{vehicles}/marcas/{brand}"), timeout=timeout)

    async def years(self, brand: str, model: str, *, vehicles: Vehicles = "carros", timeout: float) -> Sequence[Entry]:
        """The years of a model, and the fuel of each; newest first."""
        path = f"{vehicles}/marcas/{brand}/modelos/{model}"
        return await self._line.ask(lambda client: self._years(client, path), timeout=timeout)

    async def price(
        self, brand: str, model: str, year: str, *, vehicles: Vehicles = "carros", timeout: float
    ) -> Offers:
        """The value of a model of a year, by their codes."""
        path = f"{vehicles}/marcas/{brand}/modelos/{model}/anos/{year}"

        async def say(client: httpx2.AsyncClient) -> Offers:
            reply = await self._get(client, path)
            return Offers(offers=[self._offer(reply)], raw=reply.body)

        return await self._line.ask(say, timeout=timeout)

    async def search(self, query: str, *, limit: int = 40, vehicles: Vehicles = "carros", timeout: float) -> Offers:
        """The values of the vehicles that *query* names, as in "Fiat Uno Mille 2012"; without a year, the newest."""

        async def say(client: httpx2.AsyncClient) -> Offers:
            replies = await self._search(client, query, vehicles, min(limit, _MOST))
            # Each price has an answer of its own, and raw is one text.
            raw = f"[{','.join(reply.body for reply in replies)}]"
            return Offers(offers=[self._offer(reply) for reply in replies], raw=raw)

        return await self._line.ask(say, timeout=timeout)

    async def aopen(self) -> None:
        _ = self._line.client()

    async def aclose(self) -> None:
        await self._line.close()

    async def _search(self, client: httpx2.AsyncClient, query: str, vehicles: str, limit: int) -> list[Reply]:
        words = _words(query)
        brands = [
            (name, brand)
            for brand in await self._brands(client, vehicles)
            for name in map(_words, _NAMES.split(brand.name))
            if name and name <= words
        ]
        if not brands:
            return []
        name, brand = max(brands, key=lambda each: len(each[0]))
        year = next((word for word in sorted(words) if _YEAR.fullmatch(word)), "")
        wanted = words - name - {year}
        top = f"{vehicles}/marcas/{brand.code}"
        alike = [(len(wanted & _words(model.name)), model) for model in await self._models(client, top)]
        best = max((score for score, _ in alike), default=0)
        replies = []
        for model in [model for score, model in alike if score == best and best > 0][:limit]:
            path = f"{top}/modelos/{model.code}"
            years = await self._years(client, path)
            chosen = next((each.code for each in years if each.code.startswith(year)), None)
            if chosen:
                replies.append(await self._get(client, f"{path}/anos/{chosen}"))
        return replies

    async def _brands(self, client: httpx2.AsyncClient, vehicles: str) -> list[Entry]:
        return self._read(_Entries, await self._get(client, f"{vehicles}/marcas")).entries()

    async def _models(self, client: httpx2.AsyncClient, path: str) -> list[Entry]:
        return self._read(_Models, await self._get(client, f"{path}/modelos")).modelos.entries()

    async def _years(self, client: httpx2.AsyncClient, path: str) -> list[Entry]:
        return self._read(_Entries, await self._get(client, f"{path}/anos")).entries()

    async def _get(self, client: httpx2.AsyncClient, path: str) -> Reply:
        reply = reply_of(await client.get(path))
        if reply.status != httpx2.codes.OK:
            raise self._line.failure(reply)
        return reply

    def _read(self, kind: type[W], reply: Reply) -> W:
        return read(kind, reply.body, provider=self.provider)

    def _offer(self, reply: Reply) -> Offer:
        told = self._read(_Price, reply)
        try:
            price = Decimal(re.sub(r"[^\d,]", "", told.valor).replace(",", "."))  # "R$ 21.345,00"
        except InvalidOperation:
            price = None
        if price is None:
            raise unreadable(self.provider, reply.body, f"Valor is not a price: {told.valor[:40]!r}")
        return Offer(
            title=f"{told.marca} {told.modelo} {told.ano_modelo} {told.combustivel}".strip(),
            price=price,
            currency="BRL",
            source=f"FIPE {told.codigo_fipe}, {told.mes_referencia.strip()}",
        )


def _words(text: str) -> frozenset[str]:
    """The words of *text* in a form that can be compared: lower case, no accents."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return frozenset(re.findall(r"[a-z0-9]+(?:\.[0-9]+)?", plain))


# — response bodies, as far as we read them —


class _Entry(BaseModel):
    codigo: str | int
    nome: str


class _Entries(RootModel[list[_Entry]]):
    def entries(self) -> list[Entry]:
        return [Entry(str(each.codigo), each.nome) for each in self.root]


class _Models(BaseModel):
    modelos: _Entries


class _Price(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal)

    valor: str
    marca: str
    modelo: str
    ano_modelo: int
    combustivel: str = ""
    codigo_fipe: str = ""
    mes_referencia: str = ""
