"""Pages of shops, read for their price: the bundled catalogue, in every shape and with every trap that it has."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from retoma.pipelines.quotes.pricing import screenshots
from retoma.pipelines.quotes.pricing.catalogue import data
from retoma.pipelines.quotes.pricing.catalogue.html import render
from retoma.pipelines.quotes.pricing.extract import read_apart, read_price
from retoma.pipelines.quotes.pricing.offers import Found

Figures = dict[str, Any]

_PICTURE_SECONDS = 300.0


def catalogue() -> list[tuple[str, str]]:
    """Every page of the catalogue, and its address."""
    return [(render(page), f"https://{place}") for place, page in data()["pages"].items()]


async def pages_parsed(rounds: int, *, pictures: int) -> Figures:
    """Pages read in this process, and in the child that shuts hostile pages in, as the pipeline does it; and pictures
    of pages, where there is a Chromium.
    """
    pages = catalogue()
    priced = sum(isinstance(read_price(html, url), Found) for html, url in pages)
    began = time.perf_counter()
    for _ in range(rounds):
        for html, url in pages:
            read_price(html, url)
    here = time.perf_counter() - began
    at_once = asyncio.Semaphore(2 * (os.cpu_count() or 1))

    async def apart(html: str, url: str) -> None:
        async with at_once:
            await read_apart.run(html, url)

    await asyncio.gather(*(apart(*page) for page in pages))  # children start with the first
    began = time.perf_counter()
    for _ in range(rounds):
        await asyncio.gather(*(apart(*page) for page in pages))
    shut_in = time.perf_counter() - began
    number = rounds * len(pages)
    return {
        "pages": number,
        "different_pages": len(pages),
        "with_a_price": priced,
        "bytes_each": round(sum(len(html.encode()) for html, _ in pages) / len(pages)),
        "per_second": round(number / here),
        "shut_in_per_second": round(number / shut_in),
        **await _pictures([html for html, _ in pages][:pictures]),
    }


async def _pictures(pages: list[str]) -> Figures:
    browser = screenshots.find_browser()
    if browser is None:
        return {"pictures": 0}
    await screenshots.take(pages[0].encode(), browser=browser, timeout=_PICTURE_SECONDS)
    began = time.perf_counter()
    await asyncio.gather(
        *(screenshots.take(each.encode(), browser=browser, timeout=_PICTURE_SECONDS) for each in pages)
    )
    seconds = time.perf_counter() - began
    return {"pictures": len(pages), "pictures_per_second": round(len(pages) / seconds, 2)}
