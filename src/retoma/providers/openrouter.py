"""Chat through OpenRouter: many models behind one key, with the cost in each answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openai import AsyncOpenAI

from retoma.providers import Prompt
from retoma.providers.openai import Completions
from retoma.providers.web import WebLine, web

OPENROUTER = "https://openrouter.ai/api/v1"


class OpenRouterChat(Completions):
    """A model of OpenRouter; *routing* says who may serve it: ``{"order": ["azure"], "allow_fallbacks": False}``."""

    def __init__(
        self, *, key: str, model: str, base_url: str = OPENROUTER, routing: Mapping[str, Any] | None = None
    ) -> None:
        def make() -> AsyncOpenAI:
            client = AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=web())
            # The SDK takes these from the environment, but they are for another service.
            client.organization = client.project = None
            return client

        super().__init__(WebLine("openrouter", make, secrets=(key,)), model=model)
        self._routing = dict(routing or {})

    def _options(self, prompt: Prompt) -> dict[str, Any]:
        routing = dict(self._routing)
        if prompt.schema is not None:
            routing.setdefault("require_parameters", True)  # otherwise it may go to a provider that ignores the schema
        options: dict[str, Any] = {"usage": {"include": True}}
        if routing:
            options["provider"] = routing
        return options | super()._options(prompt)
