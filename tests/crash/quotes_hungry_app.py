"""Quotes whose pages take more and more memory to read, for as long as a file says so."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from crash_app import FILE

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, Pages, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.ports import Market, PageRead

FOLDER = Path(FILE).parent
BILL = Bill(FOLDER / "bill.log")
PIECE = 8 << 20
MOST = 60
"""Pieces: a machine with other tests on it has no more to spare."""


class Hungry(Pages):
    """Keeps what it takes until the page is read."""

    async def read(self, url: str, *, timeout: float) -> PageRead:
        taken: list[bytes] = []
        while (FOLDER / "hunger").exists():
            if len(taken) < MOST:
                taken.append(b"\1" * PIECE)
            await asyncio.sleep(0.02)
        return await super().read(url, timeout=timeout)


app = Retoma(extensions=[QUOTES], providers={Market: replace(a_market(BILL), pages=Hungry(BILL))})
