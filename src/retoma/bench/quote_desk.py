"""The desk of quotes among very many of them: how long its figures and its list of stuck ones take."""

from __future__ import annotations

import asyncio
import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from retoma import Retoma
from retoma.bench import quote_figures
from retoma.bench.program import app
from retoma.bench.uploads import Server
from retoma.pipelines.quotes.extension import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.store.query import Query

Figures = dict[str, Any]
Act = Callable[[Query[Any]], Awaitable[None]]

PROGRAM = "retoma.bench.quote_market:app"
ADDRESSES = {"stats": "/api/system/processing-stats", "stuck": "/api/system/stuck-quotes"}
_WELL = 200
_P95 = 0.95
_PIECE = 50_000
"""Rows made by one statement: on a busy machine more take longer than a connection waits for."""


async def statistics_among(number: int, act: Act, *, asked: int) -> Figures:
    """Milliseconds of the desk's figures and of its list of stuck quotes among *number* quotes, asked of the library
    and over HTTP, one after the other.
    """
    for query in (quote_figures.project(), quote_figures.silent()):
        await act(query)
    for first in range(1, number + 1, _PIECE):
        await act(quote_figures.many(first, min(number, first + _PIECE - 1)))
    async with app.database.connection() as connection:
        await connection.execute("set statement_timeout = 0")
        await connection.execute("analyze quotes.quote_requests, retoma.jobs, retoma.workers")
    found: Figures = {"quotes": number, "asked": asked}
    async with Retoma(settings=app.settings, extensions=[QUOTES]) as ready:
        desk = Quotes(ready)
        told = await desk.stats()
        found |= {"in_processing": told.total_processing, "stuck": told.stuck_count}
        looks: dict[str, Callable[[], Awaitable[object]]] = {"stats": desk.stats, "stuck": desk.stuck}
        for name, look in looks.items():
            found |= _told(f"{name}_library", [await _timed(look) for _ in range(asked)])
    with tempfile.TemporaryDirectory(prefix="retoma-bench-") as folder:
        server = Server(app.database.url, {"RETOMA_HOME": folder}, 1, program=PROGRAM)
        try:
            for name, address in ADDRESSES.items():
                found |= _told(f"{name}_http", await asyncio.to_thread(_asked, server, address, asked))
        finally:
            server.stop()
    return found


async def _timed(look: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await look()
    return 1000 * (time.perf_counter() - began)


def _asked(server: Server, address: str, asked: int) -> list[float]:
    """How many milliseconds each answer took, over one connection; what it says is counted, too."""
    line = http.client.HTTPConnection(server.host, server.port, timeout=60)
    times = []
    for _ in range(asked):
        began = time.perf_counter()
        line.request("GET", address, headers={"Accept": "application/json"})
        answer = line.getresponse()
        body = answer.read()
        times.append(1000 * (time.perf_counter() - began))
        if answer.status != _WELL:
            raise RuntimeError(f"{address} was answered {answer.status}: {body.decode(errors='replace')[:500]}")
        json.loads(body)
    line.close()
    return times


def _told(name: str, times: list[float]) -> Figures:
    times = sorted(times)
    return {
        f"{name}_p50_ms": round(statistics.median(times), 1),
        f"{name}_p95_ms": round(times[int(len(times) * _P95)], 1),
    }
