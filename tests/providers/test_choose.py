"""Providers by settings: what is missing is refused at the start, by its name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from retoma.errors import ConfigurationError
from retoma.providers import BlobStore, Chat, Embedder, Extractor, PriceSearch, factory
from retoma.providers.anthropic import AnthropicChat
from retoma.providers.azure_blob import AzureBlobs
from retoma.providers.azure_documents import AzureExtractor
from retoma.providers.azure_openai import AzureOpenAIChat, AzureOpenAIEmbedder
from retoma.providers.factory import Maker, close, make_ready, providers_from
from retoma.providers.fipe import Fipe
from retoma.providers.folder import FolderBlobs
from retoma.providers.openai import OpenAIChat, OpenAIEmbedder
from retoma.providers.openrouter import OpenRouterChat
from retoma.providers.s3 import S3Blobs
from retoma.providers.serpapi import SerpApi

AZURE = {"AZURE_OPENAI_API_KEY": "k-secret", "AZURE_OPENAI_ENDPOINT": "https://x.example"}
STORAGE = "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net"
DOCUMENTS = {
    "AZURE_DOCUMENT_INTELLIGENCE_KEY": "k-secret",
    "AZURE_DOCUMENT_INTELLIGENCE_ENDPOINT": "https://x.example",
}
AWS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s-secret"}

CHOICES = [
    (Chat, OpenRouterChat, {"RETOMA_CHAT": "openrouter", "OPENROUTER_API_KEY": "k-secret", "RETOMA_CHAT_MODEL": "m"}),
    (Chat, OpenAIChat, {"RETOMA_CHAT": "openai", "OPENAI_API_KEY": "k-secret", "RETOMA_CHAT_MODEL": "m"}),
    (Chat, AzureOpenAIChat, {"RETOMA_CHAT": "azure", "AZURE_OPENAI_DEPLOYMENT": "d", **AZURE}),
    (Chat, AnthropicChat, {"RETOMA_CHAT": "anthropic", "ANTHROPIC_API_KEY": "k-secret", "RETOMA_CHAT_MODEL": "m"}),
    (Embedder, OpenAIEmbedder, {"RETOMA_EMBEDDER": "openai", "OPENAI_API_KEY": "k-secret"}),
    (Embedder, AzureOpenAIEmbedder, {"RETOMA_EMBEDDER": "azure", **AZURE}),
    (Extractor, AzureExtractor, {"RETOMA_EXTRACTOR": "azure", **DOCUMENTS}),
    (PriceSearch, SerpApi, {"RETOMA_PRICES": "serpapi", "SERPAPI_KEY": "k-secret"}),
    (PriceSearch, Fipe, {"RETOMA_PRICES": "fipe"}),
    (BlobStore, AzureBlobs, {"RETOMA_BLOBS": "azure", "AZURE_STORAGE_CONNECTION_STRING": STORAGE}),
    (BlobStore, S3Blobs, {"RETOMA_BLOBS": "s3://bucket/some/prefix", **AWS}),
    (BlobStore, FolderBlobs, {"RETOMA_BLOBS": "./somewhere"}),
]


def test_without_any_setting_the_work_is_done_here() -> None:
    chosen = providers_from({})

    assert {protocol.__name__: type(provider).__name__ for protocol, provider in chosen.items()} == {
        "Embedder": "LocalEmbedder",
        "Extractor": "LocalExtractor",
        "Classifier": "LocalClassifier",
        "BlobStore": "FolderBlobs",
    }


@pytest.mark.parametrize(("protocol", "kind", "settings"), CHOICES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_provider_is_chosen_by_name(protocol: type, kind: type, settings: dict[str, str]) -> None:
    chosen = providers_from(settings)[protocol]

    assert type(chosen) is kind
    assert isinstance(chosen, protocol)
    assert "secret" not in repr(chosen)


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (settings, missing)
        for _, _, settings in CHOICES
        for missing in settings
        if missing not in ("RETOMA_CHAT", "RETOMA_EMBEDDER", "RETOMA_EXTRACTOR", "RETOMA_PRICES", "RETOMA_BLOBS")
    ],
)
def test_what_is_missing_is_refused_by_its_name(settings: dict[str, str], missing: str) -> None:
    for absent in ({}, {missing: ""}):
        given = {name: value for name, value in settings.items() if name != missing} | absent

        with pytest.raises(ConfigurationError, match=rf"needs {missing}, which is not set\. Set {missing}"):
            providers_from(given)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"RETOMA_CHAT": "gpt"},
            "RETOMA_CHAT=gpt is not known. Choose one of anthropic, azure, none, openai, openrouter.",
        ),
        ({"RETOMA_EMBEDDER": "x"}, "RETOMA_EMBEDDER=x is not known. Choose one of azure, local, openai."),
        ({"RETOMA_EXTRACTOR": "x"}, "RETOMA_EXTRACTOR=x is not known. Choose one of azure, local."),
        ({"RETOMA_PRICES": "x"}, "RETOMA_PRICES=x is not known. Choose one of fipe, none, serpapi."),
        ({"RETOMA_BLOBS": "azur"}, "RETOMA_BLOBS=azur is not known. Choose azure, s3://bucket/prefix, or a folder"),
        ({"RETOMA_BLOBS": "gs://bucket"}, "RETOMA_BLOBS=gs://bucket is not known."),
        ({"RETOMA_BLOBS": "s3://"}, "RETOMA_BLOBS=s3:// is not known."),
    ],
)
def test_what_is_not_known_is_told_with_what_there_is(settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        providers_from(settings)

    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("name", "value"),
    [("RETOMA_EMBEDDER_DIMENSIONS", "many"), ("OPENROUTER_ROUTING", "[1]"), ("OPENROUTER_ROUTING", "{")],
)
def test_what_cannot_be_read_is_told_by_its_name(name: str, value: str) -> None:
    everything = {name: value for _, _, settings in CHOICES for name, value in settings.items()}
    chat, embedder = {"RETOMA_CHAT": "openrouter"}, {"RETOMA_EMBEDDER": "openai"}

    with pytest.raises(ConfigurationError, match=f"{name} is not a"):
        providers_from({**everything, "RETOMA_PRICES": "none", **chat, **embedder, name: value})


def test_what_may_be_set_is_set() -> None:
    chosen = providers_from(
        {
            "RETOMA_CHAT": "openrouter",
            "OPENROUTER_API_KEY": "k",
            "RETOMA_CHAT_MODEL": "openai/gpt-4o-mini",
            "OPENROUTER_ROUTING": '{"order": ["azure"]}',
            "RETOMA_EMBEDDER": "openai",
            "OPENAI_API_KEY": "k",
            "RETOMA_EMBEDDER_MODEL": "bge-m3",
            "RETOMA_EMBEDDER_DIMENSIONS": "1024",
        }
    )

    assert chosen[Chat].model == "openai/gpt-4o-mini"
    assert (chosen[Embedder].model, chosen[Embedder].dimensions) == ("bge-m3", 1024)


async def test_files_go_where_home_is(tmp_path: Path) -> None:
    async def content():
        yield b"1"

    chosen = providers_from({"RETOMA_HOME": str(tmp_path)})

    await chosen[BlobStore].put("a", content())

    assert (tmp_path / "blobs" / "a").read_bytes() == b"1"


async def test_all_of_them_can_be_closed() -> None:
    await close(providers_from({name: value for _, _, settings in CHOICES for name, value in settings.items()}))


@pytest.mark.parametrize("setting", ["RETOMA_CHAT", "RETOMA_EMBEDDER", "RETOMA_EXTRACTOR", "RETOMA_PRICES"])
async def test_a_client_is_there_before_the_first_request(setting: str) -> None:
    """Loading an SDK would come between the moment that a limit gave and the request."""
    for name, choice, settings in CHOICES:
        if name != setting:
            continue
        providers = providers_from(settings)
        await make_ready(providers)
        for provider in providers.values():
            if line := getattr(provider, "_line", None):
                assert list(line._clients), choice
        await close(providers)


async def test_a_provider_that_cannot_be_made_ready_does_not_hold_up_the_others() -> None:
    class Broken:
        async def aopen(self) -> None:
            raise OSError("its certificates cannot be read")

    class Sound:
        ready = False

        async def aopen(self) -> None:
            self.ready = True

    sound = Sound()

    await make_ready({Chat: Broken(), Embedder: sound})

    assert sound.ready


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOMA_CHAT", "nobody")

    with pytest.raises(ConfigurationError, match="RETOMA_CHAT=nobody"):
        providers_from()


LOADED = """
import json, sys
from retoma.providers.factory import providers_from
providers_from({"RETOMA_CHAT": "anthropic", "ANTHROPIC_API_KEY": "k", "RETOMA_CHAT_MODEL": "m"})
print(json.dumps([name for name in ("anthropic", "openai", "azure.core", "obstore") if name in sys.modules]))
"""
WITHOUT = """
import sys
sys.modules["openai"] = None  # as if it were not installed
from retoma.providers.factory import providers_from
providers_from({"RETOMA_EMBEDDER": "openai", "OPENAI_API_KEY": "k"})
"""


ALONE = """
import sys
from retoma.providers.factory import providers_from
sys.modules["httpx2"] = sys.modules["openai"] = None  # another extra brings these
settings = dict(each.split("|") for each in sys.argv[1:])
for where in ("azure", "s3://bucket"):
    providers_from({**settings, "RETOMA_EXTRACTOR": "azure", "RETOMA_BLOBS": where})
"""


def test_an_extra_brings_all_that_its_providers_need() -> None:
    settings = {**DOCUMENTS, **AWS, "AZURE_STORAGE_CONNECTION_STRING": STORAGE}

    subprocess.run([sys.executable, "-c", ALONE, *map("|".join, settings.items())], check=True)


def test_only_what_is_chosen_is_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)

    assert json.loads(ran.stdout) == ["anthropic"]


def test_an_sdk_that_is_not_installed_is_told_with_the_extra_that_brings_it() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)

    assert "openai is not installed, and OpenAIEmbedder needs it. pip install 'retoma[openai]'" in ran.stderr


def test_every_setting_that_is_read_is_in_the_reference() -> None:
    makers = [each for each in vars(factory).values() if isinstance(each, Maker)]
    for choices in (factory.CHATS, factory.EMBEDDERS, factory.EXTRACTORS, factory.PRICES):
        makers += [each for each in choices.values() if each]
    told = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text(encoding="utf-8")

    read = {setting for maker in makers for setting in (*maker.needs.values(), *maker.takes.values())}
    assert len(read) > 20
    assert {setting for setting in read if f"`{setting}`" not in told} == set()
