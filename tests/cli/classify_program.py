"""The classifier of this machine, with the quick encoder; how long each document takes is in the environment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from retoma import Retoma
from retoma.pipelines import CLASSIFICATION
from retoma.providers import BlobStore, Classifier, Extractor, Label, Verdict
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical


class Slow:
    provider = "local"

    def __init__(self) -> None:
        self._inner = LocalClassifier(Lexical())
        self.model = self._inner.model

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        await asyncio.sleep(float(os.environ.get("CLASSIFY_SECONDS", "0")))
        return await self._inner.classify(texts, labels, timeout=timeout)


app = Retoma(
    extensions=[CLASSIFICATION],
    providers={
        Extractor: LocalExtractor(),
        Classifier: Slow(),
        BlobStore: FolderBlobs(Path(os.environ["CLASSIFY_BLOBS"])),
    },
)
