"""Every provider over HTTP, each with one question that it can be asked."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retoma.providers import Message, Prompt
from retoma.providers.anthropic import AnthropicChat
from retoma.providers.azure_documents import AzureExtractor
from retoma.providers.azure_openai import AzureOpenAIChat, AzureOpenAIEmbedder
from retoma.providers.fipe import Fipe
from retoma.providers.openai import OpenAIChat, OpenAIEmbedder
from retoma.providers.openrouter import OpenRouterChat
from retoma.providers.serpapi import SerpApi

KEY = "sk-a/secret+0123456789="  # changes when it is written into an address
SECRETS = (KEY, "sk-a%2Fsecret%2B0123456789%3D", "a/secret")
HELLO = Prompt(messages=[Message(role="system", content="Be brief."), Message(role="user", content="Olá")])


@dataclass(frozen=True)
class Case:
    """A provider, a question, and the route that the question takes."""

    name: str
    make: Callable[[str], Any]
    ask: Callable[[Any, float], Awaitable[Any]]
    route: str
    bills: bool = True

    def __str__(self) -> str:
        return self.name


def chat(provider: Any, timeout: float) -> Awaitable[Any]:
    return provider.chat(HELLO, timeout=timeout)


def embed(provider: Any, timeout: float) -> Awaitable[Any]:
    return provider.embed(["um", "dois"], timeout=timeout)


def extract(provider: Any, timeout: float) -> Awaitable[Any]:
    return provider.extract(Path(__file__), kind="pdf", timeout=timeout)


def search(provider: Any, timeout: float) -> Awaitable[Any]:
    return provider.search("Fiat Uno Mille 2012", timeout=timeout)


def extractor(url: str) -> AzureExtractor:
    return AzureExtractor(key=KEY, endpoint=url, pause=0.01)


CASES = [
    Case("openai", lambda url: OpenAIChat(key=KEY, model="m", base_url=f"{url}/v1"), chat, "/chat/completions"),
    Case(
        "openrouter",
        lambda url: OpenRouterChat(key=KEY, model="m", base_url=f"{url}/openrouter/v1"),
        chat,
        "/chat/completions",
    ),
    Case("azure-openai", lambda url: AzureOpenAIChat(key=KEY, endpoint=url, deployment="d"), chat, "/chat/completions"),
    Case("anthropic", lambda url: AnthropicChat(key=KEY, model="m", base_url=url), chat, "/v1/messages"),
    Case(
        "openai-embedder",
        lambda url: OpenAIEmbedder(key=KEY, model="e", dimensions=4, base_url=f"{url}/v1"),
        embed,
        "/embeddings",
    ),
    Case(
        "azure-embedder",
        lambda url: AzureOpenAIEmbedder(key=KEY, endpoint=url, dimensions=4),
        embed,
        "/embeddings",
    ),
    Case("documents-submit", extractor, extract, ":analyze"),
    Case("documents-result", extractor, extract, "/analyzeResults/"),
    Case("serpapi", lambda url: SerpApi(key=KEY, base_url=url), search, "/search.json"),
    Case("fipe", lambda url: Fipe(token=KEY, base_url=f"{url}/fipe"), search, "/fipe/", bills=False),
]


def everything_told(error: BaseException) -> str:
    """All that a log could make of *error*: its words, its attributes, its traceback with every local value.

    But not what the test itself knows, which is the first frame.
    """
    assert error.__traceback__ is not None
    told = traceback.TracebackException(type(error), error, error.__traceback__.tb_next, capture_locals=True)
    return "\n".join([str(error), repr(error), repr(vars(error)), repr(error.__cause__), *told.format()])
