"""The figures of the console: what the server takes for each page, and how many statements, among many jobs."""

from __future__ import annotations

import asyncio
import gzip
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg import sql

from retoma.bench import page_figures
from retoma.bench.program import app, noop
from retoma.store.query import Query
from retoma.web import site

Figures = dict[str, Any]
Act = Callable[[Query[Any]], Awaitable[None]]

_ASKED = 40
_DOCUMENTS = 10_000
_LISTS = ("batches", "batches?state=stalled,paused", "errors", "dead-letters", "review", "queues", "workers", "limits",
          "schedules", "operations", "alerts", "costs", "calls", "system", "access", "webhooks", "audit",
          "search?q=7")  # fmt: skip
_TABS = ("documents", "errors", "steps", "charts", "timeline", "costs", "configuration", "history")
_ASSET = re.compile(rb'(?:src|href)="(/static/[^"?]+)')


async def pages(jobs: int, act: Act, quiet: Callable[[], Awaitable[None]]) -> Figures:
    """Milliseconds of each page as the site answers it, without a network, and its statements; *jobs* are in the
    database, ten thousand of them in the batch that is looked at.
    """
    batch = await app.batch(noop, range(_DOCUMENTS), name="looked at", key=lambda number: f"document-{number}.pdf")
    began = time.perf_counter()
    async with _bare("jobs", "calls"):
        await act(page_figures.fill_batches(jobs // 1_000, 600))
        await act(page_figures.fill_waiting(jobs // 5))
        await act(page_figures.fill_failed(jobs // 50))
        await act(page_figures.fill_review(jobs // 500))
        rest = jobs - jobs // 1_000 * 600 - jobs // 5 - jobs // 50 - jobs // 500 - _DOCUMENTS
        await act(page_figures.fill_history(max(0, rest)))
        await act(page_figures.fill_calls(jobs // 5, batch.id))
    await act(page_figures.half_way(batch.id))
    filled = time.perf_counter() - began
    await quiet()
    async with app.database.connection() as connection:
        await connection.execute("analyze")
    settings, app.registry.settings = app.settings, app.settings.model_copy(update={"token": "off", "api_key": None})
    try:
        found: Figures = {"jobs": jobs, "calls_of_today": jobs // 5, "documents_of_the_batch": _DOCUMENTS}
        found["filled_seconds"] = round(filled, 1)
        whole = site(app, rounds=False)
        async with whole.router.lifespan_context(whole) as state:
            visitor = Visitor(whole, state or {})
            found["overview"] = await _asked(visitor, "")
            found |= {place: await _asked(visitor, place) for place in _LISTS}
            found |= {f"batch: {tab}": await _asked(visitor, f"batches/{batch.id}?tab={tab}") for tab in _TABS}
            found["first_load_bytes_gzipped"] = await first_load(visitor, "/console/")
    finally:
        app.registry.settings = settings
    lists = [found[place] for place in _LISTS]
    found["lists_p95_ms"] = max(each["p95_ms"] for each in lists)
    found["lists_queries"] = max(each["queries"] for each in lists)
    return found


@asynccontextmanager
async def _bare(*tables: str) -> AsyncIterator[None]:
    """Tables without their indexes, which are built again afterwards, each by one sort."""
    found = [index for table in tables for index in await app.fetch(page_figures.indexes(table))]
    async with app.database.connection() as connection:
        await connection.execute("set statement_timeout = 0")
        await connection.execute("set maintenance_work_mem = '256MB'")
        for name, _ in found:
            await connection.execute(sql.SQL("drop index retoma.{}").format(sql.Identifier(name)))
        yield
        for _, definition in found:
            await connection.execute(sql.SQL(definition))  # what the server itself says of the index


class Visitor:
    """Asks an application for its pages as a server on this machine would."""

    def __init__(self, asked: Any, state: Mapping[str, Any]) -> None:
        self._asked = asked
        self._state = state

    async def get(self, path: str) -> bytes:
        """The body of the page at *path*."""
        bare, _, query = path.partition("?")
        heads = [(b"host", b"127.0.0.1"), (b"accept", b"text/html"), (b"accept-language", b"pt-BR")]
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
                 "path": bare, "raw_path": bare.encode(), "query_string": query.encode(), "root_path": "",
                 "headers": heads, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
                 "state": dict(self._state)}  # fmt: skip
        status, body, heard = 0, bytearray(), list[bool]()

        async def send(told: Any) -> None:
            nonlocal status
            status = told.get("status", status)
            body.extend(told.get("body", b""))

        async def receive() -> Any:
            if not heard:
                heard.append(True)
                return {"type": "http.request", "body": b"", "more_body": False}
            return await asyncio.Event().wait()  # the visitor stays

        await self._asked(scope, receive, send)
        if status != 200:  # noqa: PLR2004 - the status of a page
            raise RuntimeError(f"{path} answered {status}: {bytes(body[:300])!r}")
        return bytes(body)


async def _asked(visitor: Visitor, place: str) -> Figures:
    with _counted() as counted:
        began = time.perf_counter()
        body = await visitor.get(f"/console/{place}")
        first = 1000 * (time.perf_counter() - began)
    times = []
    for _ in range(_ASKED):
        began = time.perf_counter()
        await visitor.get(f"/console/{place}")
        times.append(1000 * (time.perf_counter() - began))
    times.sort()
    return {
        "p50_ms": round(times[_ASKED // 2], 1),
        "p95_ms": round(times[int(_ASKED * 0.95)], 1),
        "first_ms": round(first, 1),
        "queries": counted[0],
        "kilobytes_gzipped": round(len(gzip.compress(body)) / 1000, 1),
    }


@contextmanager
def _counted() -> Iterator[list[int]]:
    """How many statements are sent meanwhile."""
    told, execute = [0], psycopg.AsyncRawCursor.execute

    async def counting(self: Any, *given: Any, **options: Any) -> Any:
        told[0] += 1
        return await execute(self, *given, **options)

    psycopg.AsyncRawCursor.execute = counting  # type: ignore[method-assign]
    try:
        yield told
    finally:
        del psycopg.AsyncRawCursor.execute


async def first_load(visitor: Visitor, path: str) -> int:
    """Bytes of a page and of all that it loads, each compressed."""
    body = await visitor.get(path)
    own = [body]
    own += [await visitor.get(each.decode()) for each in dict.fromkeys(_ASSET.findall(body))]
    return sum(len(gzip.compress(each)) for each in own)
