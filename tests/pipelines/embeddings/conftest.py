"""An app that embeds on this machine, and counts what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from retoma import Retoma, Settings
from retoma.pipelines import EMBEDDINGS
from retoma.pipelines.embeddings.library import Embeddings, NewText
from retoma.providers import Embedder, Vectors
from retoma.providers.local import LocalEmbedder


class Counting:
    """The vectors of this machine under the name of a provider that is paid; every text that it was asked for."""

    dimensions = 512

    def __init__(self, inner: LocalEmbedder, *, model: str = "clerk") -> None:
        self.provider, self.model = "biller", model
        self.asked: list[str] = []
        self._inner = inner

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:
        self.asked += texts
        return await self._inner.embed(texts, timeout=timeout)


def said(source: str, content: str, **names: Any) -> NewText:
    """What a page of the site says."""
    given = {"organisation": "acme", "site": "main", "source_type": "page", **names}
    return NewText(source_id=source, content=content, **given)


@pytest.fixture(scope="session")
def local() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def embedder(local: LocalEmbedder) -> Counting:
    return Counting(local)


@pytest.fixture
async def app(settings: Settings, embedder: Counting) -> AsyncIterator[Retoma]:
    async with Retoma(settings=settings, extensions=[EMBEDDINGS], providers={Embedder: embedder}) as app:
        yield app


@pytest.fixture
def library(app: Retoma) -> Embeddings:
    return Embeddings(app)
