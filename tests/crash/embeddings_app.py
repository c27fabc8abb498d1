"""The ready pipelines, with an embedder that is paid and writes down each text it is asked for before it answers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from retoma import Retoma
from retoma.pipelines import ALL
from retoma.pipelines.embeddings.pipeline import hash_of
from retoma.providers import Embedder, Usage, Vectors
from retoma.providers.factory import providers_from
from retoma.system.settings import Settings


class Diarist:
    """Vectors out of hashes, and a diary that only grows: one line per text, a single write each."""

    provider, model, dimensions = "biller", "diarist", 512

    def __init__(self, diary: str) -> None:
        self._diary = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:
        assert timeout > 0
        for text in texts:
            os.write(self._diary, f"{hash_of(text)} {os.getpid()}\n".encode())
        rows = [[int(mark, 16) / 16 for mark in hash_of(text) * 8] for text in texts]
        return Vectors(vectors=rows, model=self.model, usage=Usage(input_tokens=sum(map(len, texts))))


settings = Settings.load()
app = Retoma(
    settings=settings,
    extensions=ALL,
    providers={
        **providers_from({**os.environ, "RETOMA_HOME": str(settings.home)}),
        Embedder: Diarist(os.environ.get("CRASH_FILE", os.devnull)),
    },
)
