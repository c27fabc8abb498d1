"""Builds providers from settings. A wrong setting is reported at the start, by its name.

No request is sent here, and only the chosen providers are imported.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from retoma.errors import ConfigurationError
from retoma.providers import BlobStore, Chat, Classifier, Embedder, Extractor, PriceSearch


@dataclass(frozen=True, slots=True)
class Maker:
    """How a provider is built: its class, the extra with its SDK, and its arguments by setting."""

    place: str
    extra: str
    needs: Mapping[str, str] = field(default_factory=dict)
    takes: Mapping[str, str] = field(default_factory=dict)
    """As *needs*, but optional: the class has defaults for them."""

    def make(self, given: Mapping[str, str], *, chosen: str, **more: Any) -> Any:
        """The provider; *chosen* is the setting that selected it, as in "RETOMA_CHAT=openai"."""
        arguments = {**more, **{name: _read(given, each) for name, each in self.takes.items() if given.get(each)}}
        for name, setting in self.needs.items():
            if not given.get(setting):
                raise ConfigurationError(
                    f"{chosen} needs {setting}, which is not set.",
                    next=f"Set {setting}, or choose another {chosen.partition('=')[0]}.",
                )
            arguments[name] = _read(given, setting)
        return self._load()(**arguments)

    def _load(self) -> Callable[..., Any]:
        module, _, name = self.place.partition(":")
        try:
            found: Callable[..., Any] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith(__package__):
                raise
            raise ConfigurationError(
                f"{error.name} is not installed, and {name} needs it.", next=f"pip install 'retoma[{self.extra}]'"
            ) from error
        return found


CHATS = {
    "openrouter": Maker(
        "openrouter:OpenRouterChat",
        "openai",
        needs={"key": "OPENROUTER_API_KEY", "model": "RETOMA_CHAT_MODEL"},
        takes={"base_url": "OPENROUTER_BASE_URL", "routing": "OPENROUTER_ROUTING"},
    ),
    "openai": Maker(
        "openai:OpenAIChat",
        "openai",
        needs={"key": "OPENAI_API_KEY", "model": "RETOMA_CHAT_MODEL"},
        takes={"base_url": "OPENAI_BASE_URL"},
    ),
    "azure": Maker(
        "azure_openai:AzureOpenAIChat",
        "openai",
        needs={
            "key": "AZURE_OPENAI_API_KEY",
            "endpoint": "AZURE_OPENAI_ENDPOINT",
            "deployment": "AZURE_OPENAI_DEPLOYMENT",
        },
        takes={"api_version": "AZURE_OPENAI_API_VERSION"},
    ),
    "anthropic": Maker(
        "anthropic:AnthropicChat",
        "anthropic",
        needs={"key": "ANTHROPIC_API_KEY", "model": "RETOMA_CHAT_MODEL"},
        takes={"base_url": "ANTHROPIC_BASE_URL"},
    ),
    "none": None,
}
EMBEDDERS = {
    "local": Maker("local:LocalEmbedder", "local"),
    "openai": Maker(
        "openai:OpenAIEmbedder",
        "openai",
        needs={"key": "OPENAI_API_KEY"},
        takes={
            "model": "RETOMA_EMBEDDER_MODEL",
            "dimensions": "RETOMA_EMBEDDER_DIMENSIONS",
            "base_url": "OPENAI_BASE_URL",
        },
    ),
    "azure": Maker(
        "azure_openai:AzureOpenAIEmbedder",
        "openai",
        needs={"key": "AZURE_OPENAI_API_KEY", "endpoint": "AZURE_OPENAI_ENDPOINT"},
        takes={
            "model": "RETOMA_EMBEDDER_MODEL",
            "dimensions": "RETOMA_EMBEDDER_DIMENSIONS",
            "deployment": "AZURE_OPENAI_EMBEDDING_DEPLOYMENT",
            "api_version": "AZURE_OPENAI_API_VERSION",
        },
    ),
}
EXTRACTORS = {
    "local": Maker("local:LocalExtractor", "local"),
    "azure": Maker(
        "azure_documents:AzureExtractor",
        "azure",
        needs={"key": "AZURE_DOCUMENT_INTELLIGENCE_KEY", "endpoint": "AZURE_DOCUMENT_INTELLIGENCE_ENDPOINT"},
        takes={"model": "AZURE_DOCUMENT_INTELLIGENCE_MODEL", "features": "AZURE_DOCUMENT_INTELLIGENCE_FEATURES"},
    ),
}
PRICES = {
    "serpapi": Maker("serpapi:SerpApi", "prices", needs={"key": "SERPAPI_KEY"}, takes={"base_url": "SERPAPI_BASE_URL"}),
    "fipe": Maker("fipe:Fipe", "prices", takes={"base_url": "FIPE_BASE_URL", "token": "FIPE_TOKEN"}),
    "none": None,
}
CLASSIFIER = Maker("local:LocalClassifier", "local")
FOLDER = Maker("folder:FolderBlobs", "")
AZURE_BLOBS = Maker(
    "azure_blob:AzureBlobs",
    "azure",
    needs={"connection": "AZURE_STORAGE_CONNECTION_STRING"},
    takes={"container": "AZURE_STORAGE_CONTAINER"},
)
S3_BLOBS = Maker(
    "s3:S3Blobs",
    "s3",
    needs={"key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY"},
    takes={"token": "AWS_SESSION_TOKEN", "region": "AWS_REGION", "endpoint": "AWS_ENDPOINT_URL"},
)

_CLOSING = 2.0  # seconds that a provider may take to close its connections

# Settings that are not plain texts, and what they are.
_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "RETOMA_EMBEDDER_DIMENSIONS": (int, "a whole number"),
    "OPENROUTER_ROUTING": (TypeAdapter(dict[str, Any]).validate_json, "a JSON object"),
    "AZURE_DOCUMENT_INTELLIGENCE_FEATURES": (lambda text: [each.strip() for each in text.split(",")], "a list"),
}


def providers_from(settings: Mapping[str, str] | None = None) -> dict[type[Any], Any]:
    """The provider of each protocol, by *settings*: the environment, when none are given.

    Without any setting everything is local: reading, embedding and classifying, files in a folder, and no chat model.
    """
    given = os.environ if settings is None else settings
    chosen = {
        Chat: _chosen("RETOMA_CHAT", "none", CHATS, given),
        Embedder: _chosen("RETOMA_EMBEDDER", "local", EMBEDDERS, given),
        Extractor: _chosen("RETOMA_EXTRACTOR", "local", EXTRACTORS, given),
        PriceSearch: _chosen("RETOMA_PRICES", "none", PRICES, given),
        Classifier: CLASSIFIER.make(given, chosen="The local classifier"),
        BlobStore: _blobs(given),
    }
    return {protocol: provider for protocol, provider in chosen.items() if provider is not None}


async def make_ready(providers: Mapping[type[Any], Any]) -> None:
    """Create the clients before the first request: loading an SDK takes longer than many requests, and a grant of a
    limit is valid only briefly. An error here occurs again at the request, and is raised there.
    """
    for provider in _all_once(providers):
        if hasattr(provider, "aopen"):
            with suppress(Exception):
                await provider.aopen()


async def close(providers: Mapping[type[Any], Any]) -> None:
    """Close the connections of every provider that has any; one that fails does not stop the others."""
    for provider in _all_once(providers):
        if hasattr(provider, "aclose"):
            with suppress(Exception):
                async with asyncio.timeout(_CLOSING):
                    await provider.aclose()


def _all_once(providers: Mapping[type[Any], Any]) -> Iterable[Any]:
    """Every provider once, even if it serves several protocols."""
    return {id(each): each for each in providers.values()}.values()


def _chosen(setting: str, default: str, makers: Mapping[str, Maker | None], given: Mapping[str, str]) -> Any:
    name = given.get(setting) or default
    if name not in makers:
        raise ConfigurationError(f"{setting}={name} is not known.", next=f"Choose one of {', '.join(sorted(makers))}.")
    maker = makers[name]
    return maker.make(given, chosen=f"{setting}={name}") if maker else None


def _blobs(given: Mapping[str, str]) -> Any:
    # With a slash, even when the home is the current folder.
    home = Path(given.get("RETOMA_HOME") or ".retoma")
    where = given.get("RETOMA_BLOBS") or f"{home}/blobs"
    chosen = f"RETOMA_BLOBS={where}"
    if where == "azure":
        return AZURE_BLOBS.make(given, chosen=chosen)
    url = urlsplit(where)
    if url.scheme == "s3" and url.netloc:
        return S3_BLOBS.make(given, chosen=chosen, bucket=url.netloc, prefix=url.path.strip("/"))
    # A single word is more often the name of another store than a folder.
    if url.scheme or "/" not in where:
        raise ConfigurationError(
            f"{chosen} is not known.", next="Choose azure, s3://bucket/prefix, or a folder with a slash in it: ./blobs."
        )
    return FOLDER.make(given, chosen=chosen, root=Path(where), home=None if given.get("RETOMA_BLOBS") else home)


def _read(given: Mapping[str, str], setting: str) -> Any:
    reader, kind = _READERS.get(setting, (str, "a text"))
    try:
        return reader(given[setting])
    except ValueError:
        pass
    raise ConfigurationError(f"{setting} is not {kind}.", next="Correct it, or leave it out.")
