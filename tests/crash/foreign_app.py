"""Two kinds of request that the engine has never heard of: one is answered at once, one is submitted and answered
later. What their service was paid for stands in files of its own.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from crash_app import PATIENT, mark, record

from retoma import Retoma, Run, pipeline
from retoma.providers import Answer, Usage
from retoma.providers.deferred import Pending
from retoma.providers.request import DeferredRequest, Request

PROVIDER, MODEL = "babel", "words-1"
FOLDER = Path(os.environ.get("FOREIGN_FOLDER", "/nonexistent"))


class Studio:
    """Translates at once, and dubs in its own time, once the file *open* is there. Each order is a line of its bill."""

    provider = PROVIDER
    model = MODEL

    def bill(self, line: str) -> None:
        with (FOLDER / "bill").open("a") as bill:
            bill.write(f"{line}\n")

    def dubbed(self, operation: str) -> str | None:
        return operation.partition(":")[2][::-1] if (FOLDER / "open").exists() else None


@dataclass(frozen=True, kw_only=True)
class Translate(Request[str]):
    verb: ClassVar[str] = "translate"

    studio: Studio
    text: str

    @property
    def service(self) -> Studio:
        return self.studio

    @property
    def answer_type(self) -> type[str]:
        return str

    @property
    def body(self) -> Mapping[str, Any]:
        return {"text": self.text}

    async def send(self) -> Answer:
        self.studio.bill(f"translate {self.text}")
        return self._answer(self.text[::-1])

    def read(self, answer: Answer, *, step: str) -> str:  # noqa: ARG002
        return answer.text

    def _answer(self, text: str) -> Answer:
        return Answer(raw=text, text=text, model=self.model, usage=Usage(units=1))


@dataclass(frozen=True, kw_only=True)
class Dub(DeferredRequest[str], Translate):
    verb: ClassVar[str] = "dub"

    @property
    def kept_seconds(self) -> float:
        return 3600.0

    async def submit(self) -> str:
        self.studio.bill(f"dub {self.text}")
        return f"{uuid.uuid4().hex}:{self.text}"

    async def look(self, operation: str, *, timeout: float) -> Answer | Pending:  # noqa: ARG002
        (FOLDER / f"looked-{self.text}").touch()
        found = self.studio.dubbed(operation)
        return Pending(seconds=0.1) if found is None else self._answer(found)


async def wait_for_the_file(run: Run) -> None:
    mark(run, "wait")
    while not (FOLDER / "open").exists():
        await asyncio.sleep(0.05)


@pipeline("translate", queue="documents", retry=PATIENT)
async def translate(text: str, run: Run, *, studio: Studio) -> str:
    """Translate, wait, and say that it was done."""
    found = await run.call("translate", Translate(studio=studio, text=text))
    await run.step("wait", wait_for_the_file, run)
    await run.transact("record", record, run, "record")
    return found


@pipeline("dub", queue="documents", retry=PATIENT)
async def dub(text: str, run: Run, *, studio: Studio) -> str:
    """Have it dubbed, and say that it was done."""
    found = await run.call("dub", Dub(studio=studio, text=text, timeout=600))
    await run.transact("record", record, run, "record")
    return found


PIPELINES = [translate, dub]
PROVIDERS: dict[type, object] = {Studio: Studio()}

app = Retoma(pipelines=PIPELINES, providers=PROVIDERS)
