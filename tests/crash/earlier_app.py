"""Work that one version of the program begins and another ends. Only the way to name a product differs between them."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import crash_app

import retoma
from retoma import Retoma
from retoma.pipelines.classification.library import Classification
from retoma.providers import BlobStore, Classifier, Extractor, Label, Verdict
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical

FOLDER = Path(crash_app.FILE).parent
DIARY = FOLDER / "classified.log"


class Noted:
    """The local classifier, slow enough to be killed; each text that it is asked about says its number."""

    provider = "local"

    def __init__(self) -> None:
        self._inner = LocalClassifier(Lexical())
        self.model = self._inner.model

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        found = await self._inner.classify(texts, labels, timeout=timeout)
        for text in texts:
            number = re.findall(r"documento de número (\d+)", text)[-1]
            diary = os.open(DIARY, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(diary, f"{number} {os.getpid()}\n".encode())
            os.close(diary)
        await asyncio.sleep(0.1)
        return found


def made() -> Retoma:
    products = importlib.import_module("retoma.pipelines")
    named: dict[str, Any] = {"pipelines": crash_app.PIPELINES}
    if extension := getattr(products, "CLASSIFICATION", None):
        named["extensions"] = [extension]
    else:
        named["pipelines"] = [
            *crash_app.PIPELINES,
            *importlib.import_module("retoma.pipelines.classification").PIPELINES,
        ]
    providers = {Extractor: LocalExtractor(), Classifier: Noted(), BlobStore: FolderBlobs(FOLDER / "blobs")}
    return Retoma(providers=providers, **named)


async def begin(documents: Path, steps: int) -> None:
    """A classification of *documents*, and a batch of jobs with steps; their numbers are printed."""
    async with made() as app:
        library = Classification(app)
        project = await library.create_project("De antes", at_once=10)
        await library.add_folder(project.id, documents)
        execution = await library.start(project.id)
        batch = await app.batch(crash_app.five, [0.2] * steps, name="from before")
        sys.stdout.write(json.dumps({"execution": execution.id, "batch": batch.id, "program": retoma.__file__}) + "\n")


if __name__ == "__main__":
    asyncio.run(begin(Path(sys.argv[1]), int(sys.argv[2])))
else:
    app = made()
