"""The ready pipeline of books with an editor who pays for every chapter; it stops at the place it is told.

RETOMA_CRASH_AFTER is "during/2" (in chapter 2, before it asks), or how a step begins that was committed: "ask/2" is
between the answer and the save, "chapter/2" after the save. A process that comes there waits until it is killed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "books"))

from sample_books import CountingEditor, TextExtractor

from retoma import Retoma
from retoma.model.job import NewCheckpoint
from retoma.pipelines import BOOKS, FILES
from retoma.pipelines.books.ports import Ask, Chapter, Digest, Editor
from retoma.providers import BlobStore, Chat, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.openai import OpenAIChat
from retoma.run.steps import Steps

AFTER = os.environ.get("RETOMA_CRASH_AFTER")
FOLDER = Path(os.environ.get("CRASH_FILE", "/nowhere/effects.log")).with_name("blobs")

_file = os.open(os.environ.get("CRASH_FILE", "/dev/null"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
_kept = Steps.kept


def mark(what: str, step: str) -> None:
    os.write(_file, f"0 0 0 {os.getpid()} {what} {step}\n".encode())


def wait_here(step: str) -> NoReturn:
    mark("waits", step)
    while True:
        time.sleep(3600)


def kept(steps: Steps, checkpoint: NewCheckpoint) -> None:
    _kept(steps, checkpoint)
    mark("done", checkpoint.step)
    if AFTER and checkpoint.step.startswith(f"{AFTER}/"):
        wait_here(AFTER)


if "CRASH_FILE" in os.environ:  # in a worker, not where the test itself runs
    Steps.kept = kept  # type: ignore[method-assign]


class PayingEditor(CountingEditor):
    """One request for each chapter."""

    bills = True

    async def summarise(self, chapter: Chapter, *, ask: Ask | None, **more: object) -> Digest:
        if f"during/{chapter.number}" == AFTER:
            wait_here(AFTER)
        mark("asks", chapter.number)
        return await super().summarise(chapter, ask=ask, **more)


app = Retoma(
    extensions=[BOOKS, FILES],
    providers={
        BlobStore: FolderBlobs(FOLDER),
        Extractor: TextExtractor(),
        Editor: PayingEditor(),
        Chat: OpenAIChat(
            key="no-secret",
            model="clerk",
            base_url=os.environ.get("PAID_URL", "http://127.0.0.1:9/v1"),
            provider="biller",
        ),
    },
)
