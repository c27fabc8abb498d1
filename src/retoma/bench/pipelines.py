"""The figures of the ready pipelines: documents read and classified from end to end, offline, with one executor."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from retoma import Retoma
from retoma.bench import figures
from retoma.bench.evaluation import labelled, samples
from retoma.bench.machine import WorkerProcess, server_cpu, worker
from retoma.bench.program import app
from retoma.demo.samples import invent
from retoma.pipelines import ALL
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.documents.library import Documents
from retoma.providers.factory import providers_from

Figures = dict[str, Any]

PROGRAM = "retoma.pipelines:app"
AT_ONCE = 10
"""Documents that one executor has in hand, as it is unless somebody sets it otherwise."""

_OFFLINE = {"RETOMA_CHAT": "none", "RETOMA_EMBEDDER": "local", "RETOMA_EXTRACTOR": "local", "RETOMA_PRICES": "none"}
_FORMS = ("pdf", "pdf", "pdf", "docx", "txt")
_PAPERS = 4  # in one document, so that most have more than one page


@dataclass(frozen=True, slots=True)
class House:
    """An app of the ready pipelines, with files of its own, and how its processes are told of both."""

    app: Retoma
    environment: dict[str, str]

    def worker(self) -> AbstractContextManager[WorkerProcess]:
        """One executor for the ready pipelines."""
        return worker(self.app.database.url, at_once=AT_ONCE, program=PROGRAM, environment=self.environment)

    async def now(self) -> datetime:
        """What the database's clock says."""
        return (await self.app.fetch(figures.clock()))[0]

    async def used(self) -> tuple[float, float]:
        """Bytes on the disk of the database, and of write-ahead log so far."""
        return (await self.app.fetch(figures.room()))[0], (await self.app.fetch(figures.written()))[0]

    async def receive(self, number: int) -> None:
        """Take in one sample document."""
        name, content = sample(number)
        await Documents(self.app).receive(name, pieces(content))

    async def ended(self, jobs: int, since: datetime, *, limit: float = 3600.0) -> figures.Ended:
        """What ended after *since*, once there are *jobs* of them, all of them well."""
        async with asyncio.timeout(limit):
            while True:
                found = (await self.app.fetch(figures.ended_since(since)))[0]
                if found.not_completed:
                    raise RuntimeError(f"{found.not_completed} of {found.jobs} jobs failed; the figure means nothing.")
                if found.jobs >= jobs:
                    return found
                await asyncio.sleep(0.1)


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    """A house in a folder of its own, on the database that is measured; nobody outside is asked anything."""
    folder = tempfile.mkdtemp(prefix="retoma-bench-")
    # Not before the last figure: where many files were just deleted, ext4 without a journal is slow to make new ones.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = {**_OFFLINE, "RETOMA_HOME": folder, "RETOMA_BLOBS": f"{folder}/blobs"}
    settings = app.settings.model_copy(update={"home": Path(folder)})
    async with Retoma(settings=settings, extensions=ALL, providers=providers_from(environment)) as ready:
        yield House(ready, environment)


def sample(number: int) -> tuple[str, bytes]:
    """The name and the content of an invented document; each number has another."""
    chance = Random(f"bench {number}")  # noqa: S311 - invented papers need no secrecy
    kinds = labelled.kinds()
    text = "\n\n".join(invent(chance, chance.choice(kinds), "pt") for _ in range(_PAPERS))
    form = _FORMS[number % len(_FORMS)]
    return f"{number:05}.{form}", samples.MAKERS[form](text)


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    """*content*, as it would come over the wire."""
    yield content


async def documents(number: int) -> Figures:
    """Documents from their queue until they can be found: read, cut, named, embedded, stored."""
    async with house() as here:

        async def warm(which: int) -> None:
            await here.receive(which)

        async def fill() -> None:
            # All of them are there before the first is taken: what it costs to receive them is another figure.
            await here.app.queues.pause("documents")
            for which in range(number):
                await here.receive(which)

        since, found = await _worked(here, number, warm=warm, fill=fill, go=lambda: here.app.queues.resume("documents"))
        pages = (await here.app.fetch(figures.pages_since(since)))[0]
        return {**found, "pages": pages, "pages_per_second": round(pages * found["per_second"] / number, 1)}


async def classified(number: int) -> Figures:
    """Documents of one execution, from its start until each has its result: read, cut, told their kind."""
    async with house() as here:
        desk = Classification(here.app)

        async def project(first: int, documents: int) -> int:
            made = await desk.create_project(f"bench {first}", at_once=AT_ONCE)
            for which in range(first, first + documents):
                await desk.add_document(made.id, *sample(which))
            return made.id

        async def warm(which: int) -> None:
            await desk.start(await project(which, 1))

        async def fill() -> None:
            ready.append(await project(0, number))

        ready: list[int] = []
        _, found = await _worked(here, number, warm=warm, fill=fill, go=lambda: desk.start(ready[0]))
        return {**found, "kinds": len(labelled.labels())}


async def _worked(
    here: House,
    number: int,
    *,
    warm: Callable[[int], Awaitable[object]],
    fill: Callable[[], Awaitable[object]],
    go: Callable[[], Awaitable[object]],
) -> tuple[datetime, Figures]:
    """When it began, and what one executor made of it; reader and models are loaded by then, as in one that lasts."""
    first = number
    with here.worker() as idle:
        await _warmed(here, warm, first)
    with here.worker() as running:
        await _warmed(here, warm, first + 1)
        room, wal = await here.used()
        await fill()
        async with await psycopg.AsyncConnection.connect(here.app.database.url) as connection:
            before, since = server_cpu(connection.info.backend_pid), await here.now()
            await go()
            ended = await here.ended(number, since)
            after = server_cpu(connection.info.backend_pid)
    room_after, wal_after = await here.used()
    found: Figures = {
        "documents": number,
        "at_once": AT_ONCE,
        "per_second": round(number / (ended.seconds or 1), 2),
        "worker_cpu_ms_each": round(1000 * (running.cpu_seconds - idle.cpu_seconds) / number, 1),
        "peak_megabytes_of_one_process": round(running.peak_megabytes),
        "disk_bytes_each": round((room_after - room) / number),
        "wal_bytes_each": round((wal_after - wal) / number),
    }
    if before is not None and after is not None:
        found["server_cpu_ms_each"] = round(1000 * (after - before) / number, 1)
    return since, found


async def _warmed(here: House, warm: Callable[[int], Awaitable[object]], which: int) -> None:
    since = await here.now()
    await warm(which)
    await here.ended(1, since)
