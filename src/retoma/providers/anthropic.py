"""Chat with the models of Anthropic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import httpx2
from anthropic import AsyncAnthropic
from pydantic import BaseModel

from retoma.providers import Answer, Message, Prompt
from retoma.providers.http import Reply, read, rejected
from retoma.providers.pictures import Lettered, lettered
from retoma.providers.usage import of_message
from retoma.providers.web import WebLine, patience, reply_of, web

ANTHROPIC = "https://api.anthropic.com"

_MOST = 4096  # the service requires a number; an answer cut off here says so (Answer.truncated)


class AnthropicChat:
    """The Messages API at *base_url*."""

    provider = "anthropic"
    takes_pictures = True

    def __init__(self, *, key: str, model: str, base_url: str = ANTHROPIC) -> None:
        def make() -> AsyncAnthropic:
            return AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, http_client=web())

        self.model = model
        self._line = WebLine(self.provider, make, secrets=(key,))
        self.account = self._line.account

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:
        """The model's answer to *prompt*."""
        if prompt.parameters.get("stream"):
            raise rejected(self.provider, "A stream cannot be kept as one answer: leave out the parameter stream.")
        pictures = await lettered(prompt.messages)
        turns = [_turn(each, pictures) for each in prompt.messages if each.role != "system"]

        async def say(client: AsyncAnthropic) -> httpx2.Response:
            response = await client.messages.with_raw_response.create(
                messages=cast(Any, turns),
                model=prompt.model or self.model,
                max_tokens=prompt.max_tokens or _MOST,
                extra_body=_options(prompt),
                timeout=patience(timeout),
            )
            return response.http_response

        return self._read(reply_of(await self._line.ask(say, timeout=timeout)), prompt)

    async def aopen(self) -> None:
        _ = self._line.client().messages.with_raw_response

    async def aclose(self) -> None:
        await self._line.close()

    def _read(self, reply: Reply, prompt: Prompt) -> Answer:
        message = read(_Message, reply.body, provider=self.provider)
        return Answer(
            raw=reply.body,
            text="".join(block.text for block in message.content if block.type == "text"),
            model=message.model or prompt.model or self.model,
            usage=of_message(message.usage),
            request_id=reply.headers.get("request-id") or message.id,
            finish=message.stop_reason,
            allowance=reply.allowance,
        )


def _turn(message: Message, pictures: Mapping[str, Lettered]) -> dict[str, Any]:
    if not message.pictures:
        return {"role": message.role, "content": message.content}
    shown = [pictures[each.sha256] for each in message.pictures]
    parts: list[dict[str, Any]] = [
        {"type": "image", "source": {"type": "base64", "media_type": each.kind, "data": each.data}} for each in shown
    ]
    return {"role": message.role, "content": [*parts, {"type": "text", "text": message.content}]}


def _options(prompt: Prompt) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if system := "\n\n".join(each.content for each in prompt.messages if each.role == "system"):
        options["system"] = system
    if prompt.temperature is not None:
        options["temperature"] = prompt.temperature
    if prompt.schema is not None:
        options["output_config"] = {"format": {"type": "json_schema", "schema": prompt.schema}}
    return options | dict(prompt.parameters)


# — response bodies, as far as we read them —


class _Block(BaseModel):
    type: str
    text: str = ""


class _Message(BaseModel):
    id: str | None = None
    model: str = ""
    content: list[_Block]
    stop_reason: str | None = None
    usage: Any = None
