"""A library of books that are read and summed up on this machine; what was asked of the editor is counted."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sample_books import CountingEditor, TextExtractor

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.ports import Editor
from retoma.providers import BlobStore, Extractor
from retoma.providers.folder import FolderBlobs


@pytest.fixture
def editor() -> CountingEditor:
    return CountingEditor()


@pytest.fixture
def extractor() -> TextExtractor:
    return TextExtractor()


@pytest.fixture
async def app(
    database_url: str, tmp_path: Path, editor: CountingEditor, extractor: TextExtractor
) -> AsyncIterator[Retoma]:
    providers = {BlobStore: FolderBlobs(tmp_path / "blobs"), Extractor: extractor, Editor: editor}
    async with Retoma(database_url, extensions=[BOOKS], providers=providers) as app:
        yield app


@pytest.fixture
def books(app: Retoma) -> Books:
    return Books(app)
