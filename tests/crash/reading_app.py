"""Documents that a service reads for money, each handed in to it once; what it took in stands in the service's own
record.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from crash_app import PATIENT, record

from retoma import Retoma, Run, pipeline
from retoma.providers import Extractor
from retoma.providers.azure_documents import AzureExtractor

PROVIDER, MODEL = "azure-documents", "prebuilt-layout"


def sha256_of(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@pipeline("read-for-money", queue="documents", retry=PATIENT)
async def read(path: str, run: Run, *, extractor: Extractor) -> str:
    """Have it read; a row says that it was."""
    found = await run.extract("read", extractor, Path(path), kind="pdf", sha256=sha256_of(path))
    await run.transact("record", record, run, "record")
    return found.text


PIPELINES = [read]
PROVIDERS: dict[type, object] = {
    Extractor: AzureExtractor(
        key="no-secret", endpoint=os.environ.get("READING_URL", "http://127.0.0.1:9"), model=MODEL, pause=0.2
    )
}

app = Retoma(pipelines=PIPELINES, providers=PROVIDERS)
