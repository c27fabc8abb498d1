"""The figures of the offline providers: reading, embedding and classifying on this machine, in one process."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from retoma.bench.evaluation import labelled, samples
from retoma.providers.local import LocalClassifier, LocalEmbedder, LocalExtractor

Figures = dict[str, Any]

_TIMEOUT = 600.0


async def extraction(documents: int) -> Figures:
    """PDFs with a text layer, each in a child process: as many at once as there are children, after the first."""
    extractor = LocalExtractor()
    content = samples.pdf(labelled.book("pt") + labelled.book("en"))
    with tempfile.TemporaryDirectory(prefix="retoma-bench-") as folder:
        files = [Path(folder, f"{number}.pdf") for number in range(documents)]
        for file in files:
            file.write_bytes(content)
        pages = len((await extractor.extract(files[0], kind="pdf", timeout=_TIMEOUT)).pages)
        began = time.perf_counter()
        await asyncio.gather(*(extractor.extract(file, kind="pdf", timeout=_TIMEOUT) for file in files))
        seconds = time.perf_counter() - began
    return {
        "documents": documents,
        "pages_each": pages,
        "documents_per_second": round(documents / seconds, 1),
        "pages_per_second": round(documents * pages / seconds, 1),
    }


async def embedding(rounds: int) -> Figures:
    """Labelled texts into vectors, one list at a time."""
    embedder = LocalEmbedder()
    texts = [each.text for each in labelled.documents()]
    await embedder.embed(texts[:1], timeout=_TIMEOUT)  # the model is loaded once per process
    began = time.perf_counter()
    for _ in range(rounds):
        await embedder.embed(texts, timeout=_TIMEOUT)
    seconds = time.perf_counter() - began
    return {
        "model": embedder.model,
        "texts": rounds * len(texts),
        "characters_each": round(sum(map(len, texts)) / len(texts)),
        "texts_per_second": round(rounds * len(texts) / seconds, 1),
    }


async def classification(rounds: int) -> Figures:
    """Labelled texts into kinds, each alone, as a pipeline does it."""
    classifier = LocalClassifier()
    texts, kinds = [each.text for each in labelled.documents()], labelled.labels()
    await classifier.classify(texts[:1], kinds, timeout=_TIMEOUT)
    began = time.perf_counter()
    for _ in range(rounds):
        for text in texts:
            await classifier.classify([text], kinds, timeout=_TIMEOUT)
    seconds = time.perf_counter() - began
    return {
        "model": classifier.model,
        "texts": rounds * len(texts),
        "kinds": len(kinds),
        "texts_per_second": round(rounds * len(texts) / seconds, 1),
    }
