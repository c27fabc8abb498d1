"""The figures of streams: many clients who follow a batch that a worker is at work on, against a server of its own."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from datetime import datetime
from typing import Any

import orjson

from retoma.bench.machine import worker
from retoma.bench.program import app, nap
from retoma.bench.uploads import Server

Figures = dict[str, Any]

_TIMED = 10  # every so manyth client looks at the times; the others count
_PACE_SECONDS = 0.01
_ENDED = b"event: end\n"


class _Client:
    """One who follows a batch to its end: how many events it heard, and how old each of them was."""

    def __init__(self, *, timed: bool) -> None:
        self.events = 0
        self.ages: list[float] = []
        self._timed = timed

    async def follow(self, host: str, port: int, id: int, joined: asyncio.Semaphore) -> None:
        reader, writer = await asyncio.open_connection(host, port, limit=2**22)
        asked = f"GET /api/v1/batches/{id}/events HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n"
        writer.write(asked.encode())
        try:
            await reader.readuntil(b"event: snapshot\n")
        except asyncio.IncompleteReadError as refused:
            raise RuntimeError(f"A client was not let in: {refused.partial[:100]!r}") from None
        finally:
            joined.release()
        last = b""
        while chunk := await reader.read(65_536):
            now = time.time()
            self.events += chunk.count(b"\nid: ")
            if self._timed:
                self.ages += [1000 * (now - at) for at in _times(chunk)]
            if _ENDED in last + chunk:
                break
            last = chunk[-len(_ENDED) :]
        writer.close()


def _times(chunk: bytes) -> list[float]:
    """When the events in it happened, by the database's clock; those that are cut in two are left out."""
    found = []
    for text in chunk.split(b"event: items\n")[1:]:
        line = text.partition(b"data: ")[2].partition(b"\n")
        if line[1]:
            found.append(datetime.fromisoformat(orjson.loads(line[0])["at"]).timestamp())
    return found


async def followed(clients: int, jobs: int) -> Figures:
    """Milliseconds from the beginning of the transaction that ends a job until a client has the event. The jobs end one
    after the other, somewhat below a hundred in a second.
    """
    url = app.database.url
    with tempfile.TemporaryDirectory() as home:
        server = Server(url, {"RETOMA_HOME": home}, 1, program="retoma.bench.program:app")
        try:
            batch = await app.batches.open(nap, name="followed")
            await app.batches.fill(batch.id, nap, [_PACE_SECONDS] * jobs)
            joined = asyncio.Semaphore(0)
            everybody = [_Client(timed=number % _TIMED == 0) for number in range(clients)]
            following = [
                asyncio.create_task(each.follow(server.host, server.port, batch.id, joined)) for each in everybody
            ]
            for _ in range(clients):
                await joined.acquire()
            if refused := [each for each in following if each.done()]:
                await asyncio.gather(*refused)
            with worker(url, at_once=1):
                began = time.perf_counter()
                await app.batches.seal(batch.id)
                await asyncio.gather(*following)
                seconds = time.perf_counter() - began
            last = (await app.batches.get(batch.id)).event_seq
        finally:
            server.stop()
    ages = sorted(age for each in everybody for age in each.ages)
    heard = {each.events for each in everybody}
    return {
        "clients": clients,
        "events": last,
        "heard_by_each": sorted(heard),
        "events_per_second": round(last / seconds),
        "p50_ms": round(statistics.median(ages), 1),
        "p95_ms": round(ages[int(len(ages) * 0.95)], 1),
        "server_cpu_seconds": round(server.cpu_seconds, 2),
    }
