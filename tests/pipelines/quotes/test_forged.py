"""A job believes nothing that it is told of itself: what it prices is in the row of its own quote, or nowhere."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from market import Bill

from retoma import Retoma
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.pipeline import Ordered, process_quote_request
from retoma.testing import drain

Make = Callable[..., Retoma]


async def test_a_job_without_a_quote_asks_nothing_and_changes_nothing(
    make: Make, bill: Bill, psql: psycopg.Connection
) -> None:
    async with make() as app:
        await Quotes(app).create("Mesa de escritório")
        await drain(app)
        before = psql.execute("select * from quotes.quote_requests").fetchall(), bill.lines()

        job = await app.enqueue(process_quote_request, Ordered(text="FORGED", code="1"))
        await drain(app)

        after = psql.execute("select * from quotes.quote_requests").fetchall(), bill.lines()
        [[state, error]] = psql.execute("select state::text, error::text from retoma.jobs where id = %s", [job.id])
        assert (state, "quote_over" in error) == ("failed", True)
        assert after == before


async def test_what_a_job_says_it_is_about_is_not_what_is_priced(make: Make, psql: psycopg.Connection) -> None:
    async with make() as app:
        library = Quotes(app)
        id = await library.create("Mesa de escritório")
        psql.execute("""update retoma.jobs set input = '{"text": "FORGED", "code": null}'""")

        await drain(app)

        quote = await library.quote(id)
        assert (quote.input_text, quote.status) == ("Mesa de escritório", "DONE")
        assert "FORGED" not in (quote.search_query_final or "")
