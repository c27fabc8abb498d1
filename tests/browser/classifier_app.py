"""The ready classification, with an AI that can be switched off, and that writes down every document it has judged.

In the folder SCREEN_FOLDER: while ``down`` is there nobody gets an answer; until ``mended`` is there, documents that
hold the word ILEGÍVEL are refused; ``diary`` has a line for every document that was judged, and none is ever removed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retoma import Retoma
from retoma.pipelines import CLASSIFICATION
from retoma.providers import BlobStore, Classifier, Extractor, Label, ProviderDown, RequestRejected, Verdict
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical

UNREADABLE = "ILEGÍVEL"


class Switched:
    """The local classifier, as far as it is switched on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._real = LocalClassifier(Lexical())
        self.provider = self._real.provider
        self.model = self._real.model

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        if (self._folder / "down").exists():
            await asyncio.sleep(0.5)
            raise ProviderDown("Nobody answers at the other end.", provider=self.provider)
        if UNREADABLE in texts[0] and not (self._folder / "mended").exists():
            raise RequestRejected("The scan cannot be read.", provider=self.provider)
        found = await self._real.classify(texts, labels, timeout=timeout)
        await asyncio.sleep(float(os.environ.get("SCREEN_SECONDS", "0.2")))
        with (self._folder / "diary").open("a", encoding="utf-8") as diary:
            diary.write(texts[0].strip().partition("\n")[0] + "\n")
        return found


def providers(folder: Path) -> dict[type[Any], Any]:
    return {BlobStore: FolderBlobs(folder / "blobs"), Classifier: Switched(folder), Extractor: LocalExtractor()}


def __getattr__(name: str) -> Any:
    if name == "app":  # in a worker, not where the test itself runs
        return Retoma(extensions=[CLASSIFICATION], providers=providers(Path(os.environ["SCREEN_FOLDER"])))
    raise AttributeError(name)
