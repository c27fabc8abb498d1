"""The classifier with a diary: who classified which document, appended before and after, whoever is killed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from crash_app import FILE

from retoma import Retoma
from retoma.pipelines import CLASSIFICATION
from retoma.providers import BlobStore, Classifier, Extractor, Label, Verdict
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical

FOLDER = Path(FILE).parent
DIARY = FOLDER / "classified.log"


class Noted:
    """The local classifier; each text that it is asked about says its number."""

    provider = "local"

    def __init__(self) -> None:
        self._inner = LocalClassifier(Lexical())
        self.model = self._inner.model

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        found = await self._inner.classify(texts, labels, timeout=timeout)
        for text in texts:
            number = re.findall(r"documento de número (\d+)", text)[-1]
            line = f"{number} {os.getpid()}\n".encode()
            diary = os.open(DIARY, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(diary, line)
            os.close(diary)
        return found


def made() -> Retoma:
    return Retoma(
        extensions=[CLASSIFICATION],
        providers={Extractor: LocalExtractor(), Classifier: Noted(), BlobStore: FolderBlobs(FOLDER / "blobs")},
    )


app = made()
