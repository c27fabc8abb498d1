"""The jobs that are measured: one that does nothing, one of ten steps, one that takes a while, one that asks."""

from __future__ import annotations

import asyncio
import time

from retoma import Retoma, Run, pipeline
from retoma.providers import Answer, Chat, Message, Prompt, Usage

STEPS = 10
ECHO = "bench/echo"


@pipeline("bench-noop")
async def noop(number: int, run: Run) -> None:  # noqa: ARG001 - it does nothing, on purpose
    return


@pipeline("bench-clock")
async def clock(number: int, run: Run) -> float:  # noqa: ARG001
    return time.monotonic()


async def _nothing() -> int:
    return 1


@pipeline("bench-steps")
async def steps(number: int, run: Run) -> int:
    for step in range(STEPS):
        await run.step(f"step/{step}", _nothing)
    return number


@pipeline("bench-nap", timeout=600)
async def nap(seconds: float, run: Run) -> None:  # noqa: ARG001
    await asyncio.sleep(seconds)


class Echo:
    """A provider that answers at once, for nothing, with what it was asked."""

    provider, model = ECHO.split("/")

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        text = prompt.messages[-1].content
        return Answer(raw=f'"{text}"', text=text, model=self.model, usage=Usage(input_tokens=10, output_tokens=10))


@pipeline("bench-ask")
async def ask(number: int, run: Run, *, chat: Chat) -> float:
    """How many milliseconds an ask takes beside the bare call."""
    prompt = Prompt(messages=[Message(role="user", content=f"question {number}")], max_tokens=20)
    began = time.perf_counter()
    await run.ask("ask", chat, prompt)
    asked = time.perf_counter()
    await chat.chat(prompt, timeout=60)
    return 1000 * ((asked - began) - (time.perf_counter() - asked))


app = Retoma(pipelines=[noop, clock, steps, nap, ask], providers={Chat: Echo()})
