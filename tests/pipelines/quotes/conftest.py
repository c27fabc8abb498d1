"""A library on a database of its own, and a market that bills."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from market import Bill, a_market

from retoma import Retoma, Settings
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.ports import Market
from retoma.providers import Chat

Make = Callable[..., Retoma]


@pytest.fixture
def bill(tmp_path: Path) -> Bill:
    return Bill(tmp_path / "bill.log")


@pytest.fixture
def make(settings: Settings, bill: Bill) -> Make:
    """An app over the test's database with this market."""

    def made(market: Market | None = None, *, chat: Chat | None = None, **given: Any) -> Retoma:
        providers: dict[type, object] = {Market: market or a_market(bill, **given)}
        if chat is not None:
            providers[Chat] = chat
        return Retoma(settings=settings, extensions=[QUOTES], providers=providers)

    return made


@pytest.fixture
async def library(make: Make) -> AsyncIterator[Quotes]:
    async with make() as app:
        yield Quotes(app)
