"""Chat and embeddings of OpenAI, and of every service with the same protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx2
from openai import AsyncOpenAI
from pydantic import BaseModel

from retoma.errors import ConfigurationError
from retoma.providers import Answer, Message, Prompt, Vectors
from retoma.providers.http import Reply, read, rejected, unreadable
from retoma.providers.pictures import Lettered, lettered
from retoma.providers.usage import of_completion
from retoma.providers.web import WebLine, patience, reply_of, web

OPENAI = "https://api.openai.com/v1"

# The default dimensions of a model; only those called text-embedding-3 accept fewer.
_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_SHORTENED = "text-embedding-3"


class Completions:
    """A language model behind the route chat/completions, of whichever service *line* leads to."""

    takes_pictures = True

    def __init__(self, line: WebLine[AsyncOpenAI], *, model: str, most: str = "max_tokens") -> None:
        self.provider = line.provider
        self.account = line.account
        self.model = model
        self._line = line
        self._most = most

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:
        """The model's answer to *prompt*."""
        if prompt.parameters.get("stream"):
            raise rejected(self.provider, "A stream cannot be kept as one answer: leave out the parameter stream.")

        pictures = await lettered(prompt.messages)
        turns = [_turn(each, pictures) for each in prompt.messages]

        async def say(client: AsyncOpenAI) -> httpx2.Response:
            response = await client.chat.completions.with_raw_response.create(
                messages=cast(Any, turns),
                model=prompt.model or self.model,
                extra_body=self._options(prompt),
                timeout=patience(timeout),
            )
            return response.http_response

        return self._read(reply_of(await self._line.ask(say, timeout=timeout)), prompt)

    async def aopen(self) -> None:
        _ = self._line.client().chat.completions.with_raw_response  # the SDK loads these modules on first access

    async def aclose(self) -> None:
        await self._line.close()

    def _options(self, prompt: Prompt) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if prompt.max_tokens is not None:
            options[self._most] = prompt.max_tokens
        if prompt.temperature is not None:
            options["temperature"] = prompt.temperature
        if prompt.schema is not None:
            shape = {"name": "answer", "schema": prompt.schema, "strict": can_be_strict(prompt.schema)}
            options["response_format"] = {"type": "json_schema", "json_schema": shape}
        return options | dict(prompt.parameters)

    def _read(self, reply: Reply, prompt: Prompt) -> Answer:
        completion = read(_Completion, reply.body, provider=self.provider)
        if completion.error:
            raise self._line.failure(_as_meant(completion.error, reply))
        if not completion.choices:
            raise unreadable(self.provider, reply.body, "it has no choices")
        first = completion.choices[0]
        if first.error:
            error = self._line.failure(_as_meant(first.error, reply))
            error.paid = None  # it broke off in the middle, and the part before may be billed
            raise error
        return Answer(
            raw=reply.body,
            text=first.message.content or first.message.refusal or "",
            model=completion.model or prompt.model or self.model,
            usage=of_completion(completion.usage, completion.service_tier),
            request_id=reply.headers.get("x-request-id") or completion.id,
            finish="refusal" if first.message.refusal else first.finish_reason,
            allowance=reply.allowance,
        )


class Embeddings:
    """An embedding model behind the route embeddings, of whichever service *line* leads to.

    *dimensions* may be fewer than the model's own, where it supports that.
    """

    def __init__(self, line: WebLine[AsyncOpenAI], *, model: str, dimensions: int | None) -> None:
        known = _DIMENSIONS.get(model)
        if dimensions is None and known is None:
            raise ConfigurationError(
                f"How many dimensions the vectors of {model} have is not known here.", next="Give its dimensions."
            )
        self.provider = line.provider
        self.account = line.account
        self.model = model
        self.dimensions = dimensions or known or 0
        self._line = line
        fewer = self.dimensions != known and model.startswith(_SHORTENED)
        self._options = {"dimensions": self.dimensions} if fewer else {}

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:
        """One vector per text."""
        if not texts:
            return Vectors(vectors=(), model=self.model)

        async def say(client: AsyncOpenAI) -> httpx2.Response:
            response = await client.embeddings.with_raw_response.create(
                input=list(texts),
                model=self.model,
                encoding_format="float",
                extra_body=self._options,
                timeout=patience(timeout),
            )
            return response.http_response

        return self._read(reply_of(await self._line.ask(say, timeout=timeout)), len(texts))

    async def aopen(self) -> None:
        _ = self._line.client().embeddings.with_raw_response

    async def aclose(self) -> None:
        await self._line.close()

    def _read(self, reply: Reply, asked: int) -> Vectors:
        embedded = read(_Embedded, reply.body, provider=self.provider)
        if embedded.error:
            raise self._line.failure(_as_meant(embedded.error, reply))
        found = {each.index: each.embedding for each in embedded.data}
        if sorted(found) != list(range(asked)):
            raise unreadable(self.provider, reply.body, f"{len(found)} vectors came for {asked} texts")
        for vector in found.values():
            if len(vector) != self.dimensions or not all(map(math.isfinite, vector)):
                why = f"a vector has {len(vector)} numbers, and {self.dimensions} finite ones were expected"
                raise unreadable(self.provider, reply.body, why)
        return Vectors(
            vectors=[found[index] for index in range(asked)],
            model=embedded.model or self.model,
            usage=of_completion(embedded.usage, answers=False),
            allowance=reply.allowance,
        )


class OpenAIChat(Completions):
    """Chat completions at *base_url*; limits and costs are kept under the name *provider*."""

    def __init__(self, *, key: str, model: str, base_url: str = OPENAI, provider: str = "openai") -> None:
        # OpenAI's newer models refuse the old name, and other services do not know the new one.
        most = "max_completion_tokens" if base_url.startswith(OPENAI) else "max_tokens"
        super().__init__(_line(provider, key, base_url), model=model, most=most)


class OpenAIEmbedder(Embeddings):
    """Embeddings at *base_url*; limits and costs are kept under the name *provider*."""

    def __init__(
        self,
        *,
        key: str,
        model: str = "text-embedding-3-small",
        dimensions: int | None = None,
        base_url: str = OPENAI,
        provider: str = "openai",
    ) -> None:
        super().__init__(_line(provider, key, base_url), model=model, dimensions=dimensions)


def _line(provider: str, key: str, base_url: str) -> WebLine[AsyncOpenAI]:
    def make() -> AsyncOpenAI:
        return AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=web())

    return WebLine(provider, make, secrets=(key,))


def _turn(message: Message, pictures: Mapping[str, Lettered]) -> dict[str, Any]:
    if not message.pictures:
        return {"role": message.role, "content": message.content}
    shown = [pictures[each.sha256] for each in message.pictures]
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": f"data:{each.kind};base64,{each.data}"}} for each in shown
    ]
    return {"role": message.role, "content": [{"type": "text", "text": message.content}, *parts]}


def can_be_strict(schema: Any) -> bool:
    """Whether every object in *schema* requires all its properties and allows no others, as the strict mode demands."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" or "properties" in schema:
            named = set(schema.get("properties", ()))
            if schema.get("additionalProperties") is not False or named != set(schema.get("required", ())):
                return False
        return all(can_be_strict(part) for part in schema.values())
    return all(can_be_strict(part) for part in schema) if isinstance(schema, list | tuple) else True


def _as_meant(error: _Error, reply: Reply) -> Reply:
    """The real reply: a gateway may answer 200 and put the true status and headers into the body."""
    status = error.code if isinstance(error.code, int) and error.code >= 300 else 502  # noqa: PLR2004
    hidden = error.metadata.get("headers")
    headers = {str(name): str(value) for name, value in hidden.items()} if isinstance(hidden, Mapping) else {}
    return Reply.of(status, {**reply.headers, **headers}, error.model_dump_json())


# — response bodies, as far as we read them —


class _Error(BaseModel):
    message: str = ""
    code: int | str | None = None
    metadata: dict[str, Any] = {}


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message = _Message()
    finish_reason: str | None = None
    error: _Error | None = None


class _Completion(BaseModel):
    id: str | None = None
    model: str = ""
    choices: list[_Choice] = []
    usage: Any = None
    service_tier: Any = None
    error: _Error | None = None


class _Vector(BaseModel):
    index: int
    embedding: list[float]


class _Embedded(BaseModel):
    model: str = ""
    data: list[_Vector] = []
    usage: Any = None
    error: _Error | None = None
