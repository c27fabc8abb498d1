"""A library on a database of its own, with the readers and the classifier of this machine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from retoma import Retoma, Settings
from retoma.pipelines import CLASSIFICATION
from retoma.pipelines.classification.library import Classification
from retoma.providers import Answer, BlobStore, Chat, Classifier, Extractor, Prompt, Usage
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical

ACT = "Ata da reunião. Assembleia geral. Presentes os senhores diretores. Ordem do dia. Nada mais havendo a tratar."
DEED = "Pelo presente instrumento particular, contratante e contratada ajustam a cláusula primeira, do objeto e preço."
RULING = "Vistos. Relatório. Fundamento e decido. Ante o exposto, julgo procedente o pedido e condeno o réu às custas."


class Teller:
    """A provider that says what it was told to say, in turn, and remembers what it was asked."""

    provider = "openrouter"
    model = "google/gemini-2.5-flash-lite"

    def __init__(self, *says: Any) -> None:
        self.says = list(says)
        self.asked: list[Prompt] = []

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002 - as the protocol has it
        self.asked.append(prompt)
        said = self.says.pop(0)
        if isinstance(said, Exception):
            raise said
        text = said if isinstance(said, str) else json.dumps(said)
        return Answer(raw=text, text=text, model=self.model, usage=Usage(input_tokens=100, output_tokens=10))


Make = Callable[..., Retoma]


@pytest.fixture
def make(settings: Settings, tmp_path: Path) -> Make:
    """An app over the test's database; with *chat* when a model is to be asked."""

    def made(chat: Chat | None = None, **given: Any) -> Retoma:
        providers: dict[type, object] = {
            Extractor: LocalExtractor(),
            Classifier: LocalClassifier(Lexical()),
            BlobStore: FolderBlobs(tmp_path / "blobs"),
        }
        if chat is not None:
            providers[Chat] = chat
        return Retoma(settings=settings.model_copy(update=given), extensions=[CLASSIFICATION], providers=providers)

    return made


@pytest.fixture
async def library(make: Make) -> AsyncIterator[Classification]:
    async with make() as app:
        yield Classification(app)


@pytest.fixture
def project(library: Classification) -> Callable[..., Any]:
    """A project with these documents, by name."""

    async def made(files: dict[str, str] | None = None, **given: Any) -> int:
        new = await library.create_project("Lote", **given)
        for name, text in (files or {"ata.txt": ACT, "contrato.txt": DEED}).items():
            await library.add_document(new.id, name, text.encode())
        return new.id

    return made
