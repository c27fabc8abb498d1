"""The quotes that are measured are quotes as any other: they end well, and each request is paid once."""

from __future__ import annotations

from pathlib import Path

import pytest

from retoma import Retoma, Settings
from retoma.bench import quote_figures
from retoma.bench.quote_market import BILL, PATIENCE, Bill, market
from retoma.bench.quotes import items_of, reckoned
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.testing import drain

CALLS = 5
"""What a quote asks and pays: one analysis, one search, and where three products are sold."""


async def test_the_measured_market_bills_one_pass_and_every_quote_is_done(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bill = Bill(tmp_path / "bill")
    monkeypatch.setenv(BILL, str(bill.file))
    monkeypatch.setenv(PATIENCE, "0-0.001")
    async with Retoma(settings=settings, extensions=[QUOTES], providers=market()) as app:
        quotes = Quotes(app)
        id, _ = await quotes.create_batch(items_of(10), name="measured")
        await drain(app)

        told = await quotes.batch_status(id)
        found = reckoned(bill.lines(), await app.fetch(quote_figures.ledger(id)))
        left, failed = await app.fetch(quote_figures.unended(id)), await app.fetch(quote_figures.failed(id))

    assert told.status_distribution == {"DONE": 10}
    assert (left, failed) == ([0], [])
    assert (found.paid, found.one_pass, found.in_doubt, found.unexplained) == (10 * CALLS, 10 * CALLS, 0, 0)
