"""Small documents, how they come in, and the providers of this machine with a count of what they were asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID

from retoma.pipelines.documents.library import Documents
from retoma.providers import Extraction, ProviderDown, Vectors
from retoma.providers.local import LocalEmbedder, LocalExtractor

LEASE = """CONTRATO DE LOCAÇÃO

Locador: Maria da Silva
Locatário: João Souza
Valor: R$ 1.200,00

CLÁUSULA PRIMEIRA – DO OBJETO
O objeto deste contrato é o imóvel da rua das Flores, 10.

CLÁUSULA SEGUNDA – DA RESCISÃO
Qualquer das partes pode encerrar o acordo com aviso de trinta dias.
"""

RECIPE = """Bolo de cenoura

Bata no liquidificador três cenouras, quatro ovos e uma xícara de óleo. Misture com farinha e açúcar e leve ao forno
por quarenta minutos. Cubra com chocolate derretido.
"""


async def pieces(content: bytes, size: int = 4096) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def sent(library: Documents, content: str | bytes, name: str = "contrato.txt") -> UUID:
    """A document that has just come in."""
    whole = content.encode() if isinstance(content, str) else content
    return (await library.receive(name, pieces(whole))).document.id


class Embedding:
    """The embedder of this machine; it fails as often as it is told to."""

    provider = "local"

    def __init__(self) -> None:
        self._inner = LocalEmbedder()
        self.model, self.dimensions = self._inner.model, self._inner.dimensions
        self.fails = 0
        self.asked: list[Sequence[str]] = []

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:
        self.asked.append(texts)
        if self.fails:
            self.fails -= 1
            raise ProviderDown("The embedder broke off.", provider="local", paid=False)
        return await self._inner.embed(texts, timeout=timeout)


class Reading:
    """The reader of this machine; it counts."""

    provider = "local"

    def __init__(self) -> None:
        self._inner = LocalExtractor()
        self.read: list[str] = []

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        self.read.append(file.name)
        return await self._inner.extract(file, kind=kind, timeout=timeout)
