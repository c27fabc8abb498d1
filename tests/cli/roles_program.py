"""A user's program beside the ready pipelines, for what the roles of the database must be able to do."""

import asyncio
import json
import os
from pathlib import Path

from retoma import Retoma, Retry, Run, Settings, pipeline
from retoma.pipelines import ALL
from retoma.providers import Answer, Chat, Message, Prompt
from retoma.providers.factory import providers_from


class Clerk:
    """A model in this process: it says back what it was told."""

    provider, model = "house", "clerk"

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        said = str(prompt.messages[-1].content)
        return Answer(raw=json.dumps({"said": said}), text=said, model=self.model)


@pipeline("double")
async def double(number: int, run: Run) -> int:
    return await run.step("double", lambda: number * 2)


@pipeline("stumble", retry=Retry(attempts=1))
async def stumble(name: str, run: Run) -> str:
    await run.step("look", name.upper)
    raise ValueError(f"cannot read {name}")


@pipeline("inquire")
async def inquire(text: str, run: Run, *, chat: Chat) -> str:
    return await run.ask("ask", chat, Prompt(messages=[Message(role="user", content=text)], max_tokens=10))


@pipeline("wait")
async def wait(_name: str, run: Run) -> str:
    return await run.wait_for("answer", str)


@pipeline("hang")
async def hang(_name: str, run: Run) -> None:
    await run.step("begin", lambda: True)
    if not Path(os.environ["GO_ON"]).exists():
        await asyncio.sleep(600)


settings = Settings.load()
providers = providers_from({**os.environ, "RETOMA_HOME": str(settings.home)})
app = Retoma(
    settings=settings,
    pipelines=[double, stumble, inquire, wait, hang],
    extensions=ALL,
    providers={**providers, Chat: Clerk()},
)
