"""Never run, only type-checked: every line that ends in a mark must be refused, and no other."""

from dataclasses import dataclass
from typing import Any

import psycopg

from retoma import Retoma, Run, SyncRun, pipeline
from retoma import sync as blocking
from retoma.testing import rehearse


@dataclass(frozen=True)
class Document:
    code: str


def size(text: str) -> int:
    return len(text)


async def store(_connection: psycopg.AsyncConnection[Any], code: str) -> int:
    return len(code)


@pipeline("good")
async def good(document: Document, run: Run) -> int:
    wrong: str = await run.step("size", size, document.code)  # refused
    await run.step("size", size, 3)  # refused
    await run.step("size", size)  # refused
    await run.step("size", size, document.code, least=3)  # refused
    await run.step(size, document.code)  # refused
    await run.map("sizes", size, [1, 2])  # refused
    await run.transact("store", store, 3)  # refused
    await run.transact("store", size, "a")  # refused
    await run.wait_for("answer", "int")  # refused
    await run.sleep("nap")  # refused
    await run.call("count", document)  # refused
    run.step("forgotten", size, "a")  # refused
    return len(wrong)


@pipeline("plain")
def plain(document: Document, run: SyncRun) -> str:
    wrong: str = run.step("size", size, document.code)  # refused
    return wrong


@pipeline("no-run")  # refused
async def no_run(document: Document) -> int:
    return len(document.code)


@pipeline("async-with-sync-run")
async def async_with_sync_run(document: Document, run: SyncRun) -> int:
    return run.step("size", size, document.code)


@pipeline("plain-with-run")  # refused
def plain_with_run(document: Document, run: Run) -> int:
    return len(document.code) + run.job


app = Retoma(pipelines=[good, plain])
door = blocking.Retoma(pipelines=[plain])


async def use() -> None:
    await app.enqueue(good, "a text")  # refused
    await app.enqueue(good, Document("1"), dely=3.0)  # refused
    await app.enqueue(good, Document("1"), if_taken="ignore")  # refused
    await app.enqueue_many(good, ["a text"])  # refused
    await app.enqueue_many(good, [Document("1")], key=lambda document: document.name)  # refused
    app.enqueue(good, Document("1"))  # refused
    wrong: str = await app.jobs.output(good, 1)  # refused
    receipt = await app.enqueue(good, Document("1"))
    await app.batches.pause(receipt.id)  # refused
    await app.jobs.cancel((await app.batch(good, [Document("1")], name="one")).id)  # refused
    await app.jobs.cancel(7)  # refused
    await app.schedules.put(good, "a text", name="daily", cron="* * * * *")  # refused
    await rehearse(good, "a text")  # refused
    also_wrong: str = (await rehearse(good, Document(wrong))).output  # refused
    door.enqueue(plain, also_wrong)  # refused
    door.worker()  # refused
