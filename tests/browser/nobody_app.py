"""The ready classification with a chat model over HTTP, as ``retoma serve`` and ``retoma worker`` find it.

What is slow in earnest is quick here: a request is given up after two seconds. A document that holds the word DERRUBA
brings its executor down, until ``mended`` is there in the folder NOBODY_FOLDER.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from retoma import Retoma
from retoma.pipelines import CLASSIFICATION
from retoma.providers import Answer, BlobStore, Chat, Classifier, Extraction, Extractor, Prompt
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.providers.openai import OpenAIChat

SECONDS = 2.0


class HastyChat(OpenAIChat):
    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:
        return await super().chat(prompt, timeout=min(timeout, SECONDS))


class FragileExtractor(LocalExtractor):
    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        mended = (Path(os.environ["NOBODY_FOLDER"]) / "mended").exists()
        if "DERRUBA" in file.read_text(encoding="utf-8", errors="replace") and not mended:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().extract(file, kind=kind, timeout=timeout)


def _providers() -> dict[type[Any], Any]:
    chat = HastyChat(
        key=os.environ["OPENAI_API_KEY"], model="gpt-4o-mini", base_url=os.environ["OPENAI_BASE_URL"], provider="openai"
    )
    return {
        BlobStore: FolderBlobs(Path(os.environ["NOBODY_FOLDER"]) / "blobs"),
        Chat: chat,
        Classifier: LocalClassifier(Lexical()),
        Extractor: FragileExtractor(),
    }


def __getattr__(name: str) -> Any:
    if name == "app":
        return Retoma(extensions=[CLASSIFICATION], providers=_providers())
    raise AttributeError(name)
