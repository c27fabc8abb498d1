"""Chat and embeddings of OpenAI's models on Azure: by endpoint, deployment and version."""

from __future__ import annotations

from openai import AsyncAzureOpenAI, AsyncOpenAI

from retoma.providers.openai import Completions, Embeddings
from retoma.providers.web import WebLine, web

VERSION = "2024-10-21"


class AzureOpenAIChat(Completions):
    """The model that is deployed as *deployment*."""

    def __init__(self, *, key: str, endpoint: str, deployment: str, api_version: str = VERSION) -> None:
        line = _line(key, endpoint, deployment, api_version)
        super().__init__(line, model=deployment, most="max_completion_tokens")


class AzureOpenAIEmbedder(Embeddings):
    """The embedding model *model*, deployed as *deployment*: by default under its own name."""

    def __init__(
        self,
        *,
        key: str,
        endpoint: str,
        model: str = "text-embedding-3-small",
        deployment: str | None = None,
        dimensions: int | None = None,
        api_version: str = VERSION,
    ) -> None:
        line = _line(key, endpoint, deployment or model, api_version)
        super().__init__(line, model=model, dimensions=dimensions)


def _line(key: str, endpoint: str, deployment: str, api_version: str) -> WebLine[AsyncOpenAI]:
    def make() -> AsyncOpenAI:
        return AsyncAzureOpenAI(
            api_key=key,
            azure_endpoint=endpoint,
            azure_deployment=deployment,
            api_version=api_version,
            max_retries=0,
            http_client=web(),
        )

    return WebLine("azure-openai", make, secrets=(key,))
