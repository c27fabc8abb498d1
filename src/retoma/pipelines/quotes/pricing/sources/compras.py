"""Prices that federal bodies paid, by the open data of Compras.gov.br: free, official, first by law."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from retoma.pipelines.quotes.ports import Analysis, Method, Offer, Refusal, SourceKind
from retoma.pipelines.quotes.pricing import money
from retoma.pipelines.quotes.pricing.offers import cents
from retoma.pipelines.quotes.pricing.sources.official import OfficialService, day
from retoma.providers import Offer as Listed
from retoma.providers import Offers, PriceSearch, Usage

COMPRAS = "https://dadosabertos.compras.gov.br"
_PATH = "/modulo-pesquisa-preco/1_consultarMaterial"


class ComprasGov:
    """Unit prices of purchases of one code of the federal catalogue; the record itself is the evidence."""

    provider = "compras.gov.br"
    kind = SourceKind.OFFICIAL
    method = Method.API_OFFICIAL
    opens_pages = False
    bills = False
    details: PriceSearch | None = None

    def __init__(self, *, base_url: str = COMPRAS, state: str | None = None) -> None:
        self._service = OfficialService(self.provider, base_url)
        self._state = state
        self.parameters = {"estado": state} if state else {}

    def query_for(self, analysis: Analysis) -> str | None:
        """The code in the catalogue, without which this source cannot be asked."""
        return analysis.catmat

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """The answer as it came."""
        params = {
            "codigoItemCatalogo": query,
            "pagina": 1,
            "tamanhoPagina": max(10, min(limit, 500)),
            **self.parameters,
        }
        told = await self._service.get(_PATH, params, timeout=timeout) or {"resultado": []}
        if not isinstance(told, dict) or not isinstance(told.get("resultado"), list):
            raise self._service.unreadable(told, "resultado is not a list")
        found = Offers(offers=(), raw=json.dumps(told, ensure_ascii=False), usage=Usage(units=1))
        listed = [
            Listed(title=each.title, price=each.price, currency=each.currency, source=each.seller or "")
            for each in self.read(found)[:limit]
        ]
        return Offers(offers=listed, raw=found.raw, usage=found.usage)

    def read(self, found: Offers) -> Sequence[Offer]:
        """The purchases in an answer, the newest first."""
        rows = [row for row in json.loads(found.raw)["resultado"] if isinstance(row, dict)]
        offers = [offer for row in rows for offer in self._offer(row)]
        return sorted(offers, key=lambda offer: offer.dated.isoformat() if offer.dated else "", reverse=True)

    def _offer(self, row: dict[str, Any]) -> Sequence[Offer]:
        price = money.price(row.get("precoUnitario"))
        title = str(row.get("descricaoItem") or "").strip()
        if price is None or not title:
            return ()
        named = {
            "orgao": "nomeOrgao", "uasg": "codigoUasg", "uf": "estado", "municipio": "municipio",
            "fornecedor": "nomeFornecedor", "cnpj": "niFornecedor", "marca": "marca",
            "unidade": "nomeUnidadeFornecimento", "quantidade": "quantidade", "compra": "idCompra",
        }  # fmt: skip
        return (
            Offer(
                title=title,
                price=cents(price),
                domain="compras.gov.br",
                source=self.provider,
                key=str(row.get("idItemCompra") or f"{row.get('idCompra')}-{title}"),
                kind=self.kind,
                seller=str(row.get("nomeOrgao") or row.get("nomeUasg") or ""),
                dated=day(row.get("dataResultado") or row.get("dataCompra")),
                refused=None if money.LEAST <= price <= money.MOST else Refusal.INVALID_PRICE,
                detail={name: str(row[key]) for name, key in named.items() if row.get(key) not in (None, "")},
            ),
        )

    async def aclose(self) -> None:
        await self._service.aclose()
