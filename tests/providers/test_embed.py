"""Vectors: one per text, in their order, of the size that was promised."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asking import KEY

from retoma.errors import ConfigurationError
from retoma.providers import AnswerUnreadable, Embedder, RateLimited, Usage
from retoma.providers.azure_openai import AzureOpenAIEmbedder
from retoma.providers.openai import OpenAIEmbedder
from retoma.testing.wire import Fault, Served


@pytest.fixture
async def embedder(services: Served) -> AsyncIterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder(key=KEY, model="e", dimensions=4, base_url=f"{services.url}/v1")
    yield embedder
    await embedder.aclose()


def vectors(*rows: tuple[int, list[Any]]) -> str:
    return json.dumps({"data": [{"index": index, "embedding": vector} for index, vector in rows]})


async def test_there_is_one_vector_per_text_in_their_order(embedder: Embedder, services: Served) -> None:
    found = await embedder.embed(["um", "dois", "três"], timeout=10)

    assert isinstance(embedder, Embedder)
    assert found.vectors == [[0.5] * 4, [1.5] * 4, [2.5] * 4]
    assert found.usage == Usage(input_tokens=8)
    assert found.allowance is not None
    asked = json.loads(services.heard()[0]["body"].encode("latin-1"))
    assert asked == {"input": ["um", "dois", "três"], "model": "e", "encoding_format": "float"}


async def test_no_texts_cost_nothing(embedder: Embedder, services: Served) -> None:
    assert (await embedder.embed([], timeout=10)).vectors == ()
    assert services.heard() == []


@pytest.mark.parametrize(
    "body",
    [
        vectors((0, [1.0] * 4)),
        vectors((0, [1.0] * 4), (0, [1.0] * 4)),
        vectors((0, [1.0] * 4), (2, [1.0] * 4)),
        vectors((0, [1.0] * 4), (1, [1.0] * 3)),
        vectors((0, [1.0] * 4), (1, ["a"] * 4)),
        vectors((0, [1.0] * 4), (1, [float("nan")] * 4)),
    ],
    ids=["one is missing", "one twice", "a wrong number", "too short", "words", "not a number"],
)
async def test_vectors_that_do_not_fit_are_not_an_answer(embedder: Embedder, services: Served, body: str) -> None:
    services.tell(Fault(kind="answer", body=body))

    with pytest.raises(AnswerUnreadable) as caught:
        await embedder.embed(["um", "dois"], timeout=10)

    assert caught.value.paid is True
    assert caught.value.raw == body


async def test_an_error_that_came_with_status_200_is_that_error(embedder: Embedder, services: Served) -> None:
    services.tell(Fault(kind="answer", body='{"error": {"code": 429, "message": "slow down"}}'))

    with pytest.raises(RateLimited):
        await embedder.embed(["um"], timeout=10)


async def test_fewer_dimensions_are_asked_for_where_the_model_can_give_them(services: Served) -> None:
    embedder = AzureOpenAIEmbedder(key=KEY, endpoint=services.url, deployment="ours", dimensions=256)

    found = await embedder.embed(["um"], timeout=10)

    await embedder.aclose()
    assert len(found.vectors[0]) == embedder.dimensions == 256
    (asked,) = services.heard()
    assert asked["path"] == "/openai/deployments/ours/embeddings"
    assert json.loads(asked["body"])["dimensions"] == 256


def test_the_size_of_a_known_model_need_not_be_given() -> None:
    assert OpenAIEmbedder(key=KEY).dimensions == 1536
    assert OpenAIEmbedder(key=KEY, model="text-embedding-3-large").dimensions == 3072


def test_the_size_of_an_unknown_model_must_be_given() -> None:
    with pytest.raises(ConfigurationError, match="dimensions"):
        OpenAIEmbedder(key=KEY, model="bge-m3")
