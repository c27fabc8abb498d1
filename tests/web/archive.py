"""A house that takes documents: read and embedded on this machine, kept in a folder."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import psycopg

from retoma import Retoma
from retoma.pipelines import DOCUMENTS
from retoma.providers import BlobStore, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalEmbedder, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain

from .conftest import House

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))

T = TypeVar("T")

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
NOBODY = "00000000-0000-4000-8000-000000000000"
LEASE = """CONTRATO DE LOCAÇÃO

Locador: Maria da Silva
Valor: R$ 1.200,00

CLÁUSULA PRIMEIRA – DO OBJETO
O objeto deste contrato é o imóvel da rua das Flores, 10.

CLÁUSULA SEGUNDA – DA RESCISÃO
Qualquer das partes pode encerrar o acordo com aviso de trinta dias.
"""


def providers(folder: Path) -> dict[type, object]:
    # The letters decide: as real as the encoder, and there at once.
    return {
        BlobStore: FolderBlobs(folder),
        Embedder: LocalEmbedder(Lexical()),
        Extractor: LocalExtractor(),
    }


def send(house: House, *files: tuple[str, str | bytes], **options: Any) -> httpx2.Response:
    """Files as a form sends them."""
    parts = [("files", (name, content.encode() if isinstance(content, str) else content)) for name, content in files]
    return house.client.post("/documents", files=parts, **options)


def sent(house: House, name: str = "contrato.txt", content: str | bytes = LEASE) -> str:
    """The id of a document that has just come in."""
    answer = send(house, (name, content))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["documents"][0]["id"])


def work(house: House, given: dict[type, object]) -> None:
    """Run what is ready, with the same providers as the house."""
    apart(lambda: asyncio.run(drain(Retoma(settings=house.settings, extensions=[DOCUMENTS], providers=given))))


def apart(call: Callable[[], T]) -> T:
    """What *call* returns, from a thread of its own: one that drives a browser has a loop already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def rows(psql: psycopg.Connection, *tables: str) -> list[int]:
    """How many rows each table has."""
    return [int(psql.execute(f"select count(*) from retoma.{each}").fetchone()[0]) for each in tables]  # type: ignore[index, arg-type]


def files_in(folder: Path) -> list[Path]:
    """What the blob store holds, parts of files included."""
    return [path for path in folder.rglob("*") if path.is_file()]


def names(documents: Iterable[dict[str, Any]]) -> list[str]:
    return [each["filename"] for each in documents]
