"""Documents for batches: honest ones, and a provider that hangs until it is healed. What they do goes to the logs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crash_app import FILE, SOON, mark, pause, record

from retoma import Postpone, Retoma, Run, pipeline

FOLDER = Path(FILE).parent
HEALED = "healed"
"""A file of this name beside the log: the provider answers new questions at once."""
ANSWERED = "answered"
"""The same for the questions it had swallowed before."""


@dataclass(frozen=True)
class Document:
    number: int
    seconds: float = 0.0
    steps: int = 1
    how: str = ""

    @property
    def key(self) -> str:
        return f"doc-{self.number:04}"


def documents(count: int, *, seconds: float = 0.0, steps: int = 1, how: str = "", quick: int = 0) -> list[Document]:
    """*count* of a kind; the first *quick* of them are plain."""
    return [Document(number, seconds, steps, how if number >= quick else "") for number in range(count)]


def keys(numbers: Iterable[int]) -> set[str]:
    return {Document(number).key for number in numbers}


@pipeline("work", queue="documents", retry=SOON)
async def work(document: Document, run: Run) -> int:
    """So many steps, and a row at the end."""
    for number in range(1, document.steps + 1):
        name = f"step/{number}"
        await run.step(name, pause, run, name, document.seconds)
        mark(run, name, "done")
    return await run.transact("record", record, run, "record")


@pipeline("ask", queue="documents", retry=SOON, timeout=600.0, stall_seconds=2.0)
async def ask(document: Document, run: Run) -> int:
    """A question to the provider, and a row for its answer."""
    await run.step("ask", _ask, run, document)
    mark(run, "ask", "done")
    return await run.transact("record", record, run, "record")


async def _ask(run: Run, document: Document) -> int:
    mark(run, "ask")
    await asyncio.sleep(document.seconds)
    if not document.how or (FOLDER / HEALED).exists():
        return os.getpid()
    try:
        await _swallowed(deaf=document.how == "deaf")
    except asyncio.CancelledError:
        mark(run, "ask", "cancelled")
        raise
    mark(run, "ask", "answered")
    return os.getpid()


async def _swallowed(*, deaf: bool) -> None:
    """Until the provider answers after all; a deaf client does not even hear that nobody waits for it any more."""
    while not (FOLDER / ANSWERED).exists():
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            if not deaf:
                raise


class TooMany(Exception):
    """What a provider says that has had enough."""

    retry_after = 600


@pipeline("wait", queue="documents", retry=SOON, stall_seconds=1.0)
async def wait(document: Document, run: Run) -> int:
    """Comes back in ten minutes, in one of two ways."""
    mark(run, "wait")
    first = run.token.endswith(":1")
    if first and document.how == "postpone":
        raise Postpone("the archive opens later", minutes=10)
    if first and document.how == "retry_after":
        raise TooMany
    return await run.transact("record", record, run, "record")


@pipeline("bite", queue="documents", retry=SOON)
async def bite(document: Document, run: Run) -> int:
    """One that kills takes its executor along, and whoever is there."""
    await run.step("look", pause, run, "look", document.seconds)
    mark(run, "look", "done")
    if document.how == "kills":
        mark(run, "bite")
        os.kill(os.getpid(), signal.SIGKILL)
    return await run.transact("record", record, run, "record")


PIPELINES = [work, ask, wait, bite]

app = Retoma(pipelines=PIPELINES)
