"""Ask for offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from retoma.providers import Answer, Offers, PriceSearch
from retoma.providers.requests.by_unit import UnitRequest


@dataclass(frozen=True, kw_only=True)
class Search(UnitRequest[Offers]):
    """Offers for *query*. Prices change, so each search is sent again unless *reuse* says otherwise."""

    verb: ClassVar[str] = "search"
    keeps_raw: ClassVar[bool] = True

    prices: PriceSearch
    query: str
    most: int = 40
    reuse: bool = False

    @property
    def service(self) -> PriceSearch:
        """The price search."""
        return self.prices

    @property
    def answer_type(self) -> type[Offers]:
        """Offers, with the shop's own data."""
        return Offers

    @property
    def content(self) -> Mapping[str, Any]:
        """The query, and how many offers are wanted."""
        return {"query": self.query, "limit": self.most}

    async def send(self) -> Answer:
        """The offers that the service finds."""
        return self.answer(await self.prices.search(self.query, limit=self.most, timeout=self.timeout))
