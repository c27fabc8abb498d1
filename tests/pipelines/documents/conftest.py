"""A library of documents that are read, embedded and kept on this machine; what its providers were asked is counted."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "corpus"))

from shelf import Embedding, Reading

from retoma import Retoma
from retoma.pipelines import DOCUMENTS
from retoma.pipelines.documents.library import Documents
from retoma.providers import BlobStore, Embedder, Extractor
from retoma.providers.folder import FolderBlobs


@pytest.fixture(scope="session")
def one_embedder() -> Embedding:
    return Embedding()


@pytest.fixture
def embedder(one_embedder: Embedding) -> Embedding:
    one_embedder.fails, one_embedder.asked = 0, []
    return one_embedder


@pytest.fixture
def extractor() -> Reading:
    return Reading()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
async def app(database_url: str, folder: Path, embedder: Embedding, extractor: Reading) -> AsyncIterator[Retoma]:
    providers = {BlobStore: FolderBlobs(folder), Embedder: embedder, Extractor: extractor}
    async with Retoma(database_url, extensions=[DOCUMENTS], providers=providers) as app:
        yield app


@pytest.fixture
def library(app: Retoma) -> Documents:
    return Documents(app)
