"""Prices of public contracts, by PNCP: publications of the last year, their items, and what was homologated.

The service has no search by words over items. So the publications of one kind and period are listed, those whose object
names the thing are looked into, and few of them: each costs two requests more.
"""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from retoma.pipelines.quotes.ports import Analysis, Method, Offer, Refusal, SourceKind
from retoma.pipelines.quotes.pricing import money
from retoma.pipelines.quotes.pricing.offers import cents
from retoma.pipelines.quotes.pricing.sources.official import OfficialService, day
from retoma.providers import Offer as Listed
from retoma.providers import Offers, PriceSearch, Usage
from retoma.providers.http import late

PNCP = "https://pncp.gov.br"
ELECTRONIC_AUCTION = 6
YEAR = timedelta(days=365)
_PUBLISHED = "/api/consulta/v1/contratacoes/publicacao"
_MOST_CONTRACTS = 5
_MOST_ITEMS = 10  # of one contract
_PAGE_SIZE = 50
_WORDS = re.compile(r"[a-z0-9]+")
_LEAST_WORD = 3


def _today() -> date:
    return datetime.now(UTC).date()


class PublicContracts:
    """Homologated unit prices of similar contracts of at most one year; the record itself is the evidence."""

    provider = "pncp"
    kind = SourceKind.CONTRACT
    method = Method.API_OFFICIAL
    opens_pages = False
    bills = False
    details: PriceSearch | None = None

    def __init__(
        self, *, base_url: str = PNCP, modality: int = ELECTRONIC_AUCTION, today: Callable[[], date] = _today
    ) -> None:
        self._service = OfficialService(self.provider, base_url)
        self._modality = modality
        self._today = today
        self.parameters = {"codigoModalidadeContratacao": modality}

    def query_for(self, analysis: Analysis) -> str | None:
        """The words of the thing; none for vehicles, which have their table."""
        return None if analysis.is_vehicle else analysis.query_principal or analysis.nome_canonico or None

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:
        """The records as they came: contracts, their items, the results of these."""
        try:
            async with asyncio.timeout(timeout):
                told = await self._search(query, timeout)
        except TimeoutError:
            error = late(self.provider, timeout)
            error.paid = False
            raise error from None
        found = Offers(offers=(), raw=json.dumps(told, ensure_ascii=False), usage=Usage(units=1))
        listed = [
            Listed(title=each.title, price=each.price, currency=each.currency, source=each.seller or "")
            for each in self.read(found)[:limit]
        ]
        return Offers(offers=listed, raw=found.raw, usage=found.usage)

    async def _search(self, query: str, timeout: float) -> dict[str, Any]:
        today = self._today()
        period = {"dataInicial": f"{today - YEAR:%Y%m%d}", "dataFinal": f"{today:%Y%m%d}"}
        params = {**period, **self.parameters, "pagina": 1, "tamanhoPagina": _PAGE_SIZE}
        told = await self._service.get(_PUBLISHED, params, timeout=timeout) or {"data": []}
        if not isinstance(told, dict) or not isinstance(told.get("data"), list):
            raise self._service.unreadable(told, "data is not a list")
        wanted = _words(query)
        contracts = [each for each in told["data"] if _alike(wanted, str(each.get("objetoCompra") or ""))]
        records = [await self._record(each, wanted, timeout) for each in contracts[:_MOST_CONTRACTS]]
        return {"periodo": period, "contratacoes": records}

    async def _record(self, contract: dict[str, Any], wanted: set[str], timeout: float) -> dict[str, Any]:
        cnpj = str((contract.get("orgaoEntidade") or {}).get("cnpj") or "")
        base = (
            f"/api/pncp/v1/orgaos/{cnpj}/compras/{contract.get('anoCompra')}/{contract.get('sequencialCompra')}/itens"
        )
        items = await self._service.get(base, {}, timeout=timeout)
        chosen = [
            each for each in items if each.get("temResultado") and _alike(wanted, str(each.get("descricao") or ""))
        ]
        return {
            "contratacao": contract,
            "itens": [
                {
                    **item,
                    "resultados": await self._service.get(
                        f"{base}/{item.get('numeroItem')}/resultados", {}, timeout=timeout
                    ),
                }
                for item in chosen[:_MOST_ITEMS]
            ],
        }

    def read(self, found: Offers) -> Sequence[Offer]:
        """The homologated prices in an answer."""
        return [
            offer
            for record in json.loads(found.raw)["contratacoes"]
            for item in record["itens"]
            for result in item["resultados"]
            for offer in self._offer(record["contratacao"], item, result)
        ]

    def _offer(self, contract: dict[str, Any], item: dict[str, Any], result: dict[str, Any]) -> Sequence[Offer]:
        price = money.price(result.get("valorUnitarioHomologado"))
        if price is None:
            return ()
        body = contract.get("orgaoEntidade") or {}
        number = str(contract.get("numeroControlePNCP") or "")
        told = {
            "orgao": body.get("razaoSocial"),
            "cnpj_orgao": body.get("cnpj"),
            "fornecedor": result.get("nomeRazaoSocialFornecedor"),
            "cnpj": result.get("niFornecedor"),
            "unidade": item.get("unidadeMedida"),
            "quantidade": result.get("quantidadeHomologada"),
            "compra": number,
        }
        return (
            Offer(
                title=str(item.get("descricao") or contract.get("objetoCompra") or "").strip(),
                price=cents(price),
                domain="pncp.gov.br",
                source=self.provider,
                key=f"{number}-{item.get('numeroItem')}-{result.get('sequencialResultado')}",
                kind=self.kind,
                seller=str(body.get("razaoSocial") or ""),
                dated=day(result.get("dataResultado") or contract.get("dataPublicacaoPncp")),
                refused=None if money.LEAST <= price <= money.MOST else Refusal.INVALID_PRICE,
                detail={name: str(value) for name, value in told.items() if value not in (None, "")},
            ),
        )

    async def aclose(self) -> None:
        await self._service.aclose()


def _alike(wanted: set[str], text: str) -> bool:
    """Whether *text* has most of the words."""
    return bool(wanted) and len(wanted & _words(text)) * 3 >= len(wanted) * 2


def _words(text: str) -> set[str]:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return {word for word in _WORDS.findall(plain) if len(word) >= _LEAST_WORD}
