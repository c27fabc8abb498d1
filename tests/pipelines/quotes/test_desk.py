"""Quotes that await a review, at the review desk; and the blocks of desk.sql."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
import pytest

from retoma.errors import ConfigurationError, Conflict
from retoma.pipelines.quotes import desk
from retoma.pipelines.quotes.library import Quotes

WELL = "update quotes.quote_requests set status = 'AWAITING_REVIEW', completed_at = now() where id = %s"


@pytest.fixture
async def quote(library: Quotes, psql: psycopg.Connection) -> int:
    """A quote with one price, which is too few."""
    id = await library.create("Mesa de escritório")
    psql.execute(WELL, [id])
    await library.add_source(id, title="Mesa", price=Decimal(100), reason="por telefone", by="ana")
    return id


async def only(library: Quotes) -> Any:
    [found] = await library.app.reviews.next("ana")
    return found


class TestDoubts:
    async def test_a_quote_that_awaits_a_review_is_in_doubt_until_a_review_names_it(
        self, library: Quotes, quote: int
    ) -> None:
        [doubt] = await library.app.fetch(desk.doubts(5))

        assert (doubt.item, doubt.pipeline) == (str(quote), "process-quote")
        found = await only(library)
        assert await library.app.fetch(desk.doubts(5)) == []
        assert "R$ 100.00 · Mesa" in found.evidence.text
        assert found.evidence.link == f"/cotacoes/itens/{quote}"

    async def test_an_accepted_quote_is_done_with_its_values(self, library: Quotes, quote: int) -> None:
        found = await only(library)

        await library.app.reviews.accept(found.review.id, "ana", name="Ana")

        now = await library.quote(quote)
        assert (now.status, now.valor_medio) == ("DONE", Decimal(100))
        assert [(each.action, each.by) for each in await library.reviews(quote)][-1] == ("accept", "Ana")

    async def test_a_rejected_quote_has_failed_with_the_reason(self, library: Quotes, quote: int) -> None:
        found = await only(library)

        await library.app.reviews.reject(found.review.id, "ana", note="caro demais")

        now = await library.quote(quote)
        assert (now.status, now.error_message) == ("ERROR", "refused: caro demais")

    async def test_what_its_own_page_decided_waits_no_more(self, library: Quotes, quote: int) -> None:
        found = await only(library)
        await library.accept(quote, reason="basta", by="bia")

        with pytest.raises(Conflict, match=f"Quote {quote} awaits no review any more"):
            await library.app.reviews.accept(found.review.id, "ana")
        assert await library.app.reviews.next("ana") == []

    async def test_prices_are_not_corrected_here(self, library: Quotes, quote: int) -> None:
        found = await only(library)

        with pytest.raises(ConfigurationError, match=f"The prices of quote {quote} are changed on its own page"):
            await library.app.reviews.correct(found.review.id, {}, "ana")


class TestBack:
    @pytest.mark.parametrize("kind", ["accept", "reject"])
    async def test_an_undone_decision_lets_the_quote_await_its_review_again(
        self, library: Quotes, quote: int, kind: str
    ) -> None:
        found = await only(library)
        await getattr(library.app.reviews, kind)(found.review.id, "ana")

        await library.app.reviews.undo("ana")

        assert (await library.quote(quote)).status == "AWAITING_REVIEW"
        assert (await only(library)).review.id == found.review.id
