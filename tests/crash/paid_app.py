"""Documents that a model is asked about; what its provider was paid stands in the provider's own bill."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from decimal import Decimal

from crash_app import PATIENT, record

from retoma import Retoma, Run, SyncRun, pipeline
from retoma.providers import Chat, Message, Prompt
from retoma.providers.openai import OpenAIChat

PROVIDER, MODEL = "biller", "clerk"
LIMIT = f"{PROVIDER}/{MODEL}"
INPUT, OUTPUT = Decimal("0.15"), Decimal("0.60")
"""Dollars per million tokens: what the fake provider asks."""


@dataclass(frozen=True)
class Document:
    number: int
    letters: int = 80
    """Another length is another price."""
    questions: int = 1

    @property
    def key(self) -> str:
        return f"doc-{self.number:04}"

    def text(self, question: int) -> str:
        return f"{self.key} question {question} ".ljust(self.letters, "x")

    @property
    def tokens(self) -> int:
        """Of one answer; the provider echoes, so a question has as many."""
        return math.ceil(self.letters / 4)

    @property
    def cost(self) -> Decimal:
        return self.questions * self.tokens * (INPUT + OUTPUT) / 1_000_000


@pipeline("inquire", queue="documents", retry=PATIENT)
async def inquire(document: Document, run: Run, *, chat: Chat) -> list[str]:
    """Ask its questions one after the other; a row says that all were answered."""
    answers: list[str] = []
    for question in range(document.questions):
        said = [Message(role="user", content=document.text(question))]
        answers.append(await run.ask(f"ask/{question}", chat, Prompt(messages=said, max_tokens=document.tokens)))
    await run.transact("record", record, run, "record")
    return answers


@pipeline("inquire-plainly", queue="documents", retry=PATIENT)
def inquire_plainly(document: Document, run: SyncRun, *, chat: Chat) -> str:
    """The same without async, one question."""
    said = [Message(role="user", content=document.text(0))]
    return run.ask("ask/0", chat, Prompt(messages=said, max_tokens=document.tokens))


@pipeline("deaf", queue="documents", retry=PATIENT)
def deaf(seconds: float, run: SyncRun) -> None:
    """It sleeps where nobody can reach it."""
    run.step("sleep", time.sleep, seconds)


PIPELINES = [inquire, inquire_plainly, deaf]
PROVIDERS: dict[type, object] = {
    Chat: OpenAIChat(
        key="no-secret", model=MODEL, base_url=os.environ.get("PAID_URL", "http://127.0.0.1:9/v1"), provider=PROVIDER
    )
}

app = Retoma(pipelines=PIPELINES, providers=PROVIDERS)
