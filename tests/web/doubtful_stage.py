"""A house whose classifier is sure of nothing: every document comes to the review desk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx2

from retoma import Retoma, Settings
from retoma.pipelines import CLASSIFICATION
from retoma.providers import BlobStore, Classifier, Extractor, Label, Verdict
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain

from .archive import apart
from .conftest import House

QUOTE = "julgo procedente o pedido"
RULING = (
    f"Sentença. Vistos. Ante o exposto, {QUOTE} e condeno o réu ao pagamento das custas e dos honorários. Publique-se, "
    "registre-se, intimem-se. Transitada em julgado, arquivem-se os autos com as cautelas de estilo."
)
PAGES = [
    "Processo de número 7. Capa dos autos, com os nomes das partes e dos seus advogados, e nada mais do que isso.",
    RULING,
    "Certidão. Certifico que a sentença foi publicada no diário, e que dela ninguém recorreu dentro do prazo.",
]


class Unsure(LocalClassifier):
    """A classifier that is never sure."""

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> list[Verdict]:
        found = await super().classify(texts, labels, timeout=timeout)
        return [replace(each, confidence="baixa", quote=QUOTE) for each in found]


def unsure(folder: Path) -> dict[type, object]:
    return {BlobStore: FolderBlobs(folder), Classifier: Unsure(Lexical()), Extractor: LocalExtractor()}


def judge(house: House, given: dict[type, object], *files: tuple[str, bytes]) -> tuple[int, list[int]]:
    """Send *files* and judge them; the execution and its results."""
    api = "/classificador/api"
    project = house.client.post(f"{api}/projetos", json={"nome": "Autos"}).json()["id"]
    sent = [("arquivos", file) for file in files]
    assert house.client.post(f"{api}/lotes/{project}/upload", files=sent).json()["erros"] == 0
    execution = house.client.post(f"{api}/projetos/{project}/executar").json()["execucao_id"]
    apart(lambda: asyncio.run(_drained(house.settings, given)))
    found: httpx2.Response = house.client.get(f"{api}/execucoes/{execution}/resultados")
    return int(execution), [int(each["id"]) for each in found.json()]


async def _drained(settings: Settings, given: dict[type, object]) -> None:
    await drain(Retoma(settings=settings, extensions=[CLASSIFICATION], providers=given))
