"""Vehicles, by the FIPE table."""

from __future__ import annotations

import json
from collections.abc import Sequence

from retoma.pipelines.quotes.ports import Analysis, Method, Offer, SourceKind
from retoma.pipelines.quotes.pricing import money
from retoma.pipelines.quotes.pricing.offers import cents, key_of
from retoma.providers import Offers, PriceSearch
from retoma.providers.fipe import FIPE, Fipe, Vehicles

_KINDS: dict[str, Vehicles] = {"cars": "carros", "motorcycles": "motos", "trucks": "caminhoes"}


class FipeTable:
    """What a vehicle is worth by the table; the answer itself is the evidence."""

    kind = SourceKind.TABLE
    method = Method.API_FIPE
    opens_pages = False
    bills = False
    details: PriceSearch | None = None

    def __init__(self, *, base_url: str = FIPE, token: str | None = None) -> None:
        self._fipe = Fipe(base_url=base_url, token=token)
        self.provider = self._fipe.provider

    def query_for(self, analysis: Analysis) -> str | None:
        """Kind, brand, model and year, as in "carros: Fiat Uno 2012"; None for what is no vehicle."""
        wanted = analysis.fipe_api
        if not analysis.is_vehicle or wanted is None or not (wanted.marca or wanted.modelo):
            return None
        words = (wanted.marca, wanted.modelo, str(wanted.ano) if wanted.ano else None)
        return f"{_KINDS.get(wanted.vehicle_type, 'carros')}: {' '.join(filter(None, words))}"

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """The answer as it came."""
        told, _, words = query.partition(": ")
        vehicles = next((each for each in _KINDS.values() if each == told), None)
        if vehicles is None:
            return await self._fipe.search(query, limit=limit, timeout=timeout)
        return await self._fipe.search(words, limit=limit, vehicles=vehicles, timeout=timeout)

    def read(self, found: Offers) -> Sequence[Offer]:
        """The prices in an answer, in its order: the model that fits best comes first."""
        offers = []
        for row in json.loads(found.raw):
            price = money.price(row.get("Valor"))
            if price is None:
                continue
            title = f"{row['Marca']} {row['Modelo']} {row['AnoModelo']} {row.get('Combustivel') or ''}".strip()
            code = str(row.get("CodigoFipe") or "")
            offers.append(
                Offer(
                    title=title,
                    price=cents(price),
                    domain="fipe.org.br",
                    source=self.provider,
                    key=key_of(f"{code}|{row['AnoModelo']}|{row.get('SiglaCombustivel') or ''}", price),
                    kind=SourceKind.TABLE,
                    seller="FIPE",
                    detail={
                        "codigo_fipe": code,
                        "marca": str(row["Marca"]),
                        "modelo": str(row["Modelo"]),
                        "ano": str(row["AnoModelo"]),
                        "combustivel": str(row.get("Combustivel") or ""),
                        "mes_referencia": str(row.get("MesReferencia") or "").strip(),
                    },
                )
            )
        return offers

    async def aclose(self) -> None:
        await self._fipe.aclose()
