"""The ready pipeline of documents, whose every stage is written down, and which stops after the one it is told to.

A stage is marked when it begins and when its checkpoint is committed. RETOMA_CRASH_AFTER names a stage by how it begins
("embed" for "embed/…"): a process that has committed it waits there, with all its loops, until it is killed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from retoma import Retoma
from retoma.model.job import NewCheckpoint
from retoma.pipelines import DOCUMENTS, FILES
from retoma.providers import BlobStore, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalEmbedder, LocalExtractor
from retoma.run.steps import Steps

AFTER = os.environ.get("RETOMA_CRASH_AFTER")
FOLDER = Path(os.environ.get("CRASH_FILE", "/nowhere/effects.log")).with_name("blobs")
STAGES = ("extract", "cut", "fields", "embed", "store")

_file = os.open(os.environ.get("CRASH_FILE", "/dev/null"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
_begin, _kept = Steps.begin, Steps.kept


def mark(steps: Steps, what: str, step: str) -> None:
    claim = steps.claim
    os.write(_file, f"{claim.id} {claim.fence} {claim.attempt} {os.getpid()} {what} {step}\n".encode())


def begin(steps: Steps, name: str) -> float:
    mark(steps, "began", name)
    return _begin(steps, name)


def kept(steps: Steps, checkpoint: NewCheckpoint) -> None:
    _kept(steps, checkpoint)
    mark(steps, "done", checkpoint.step)
    if AFTER and checkpoint.step.startswith(AFTER):
        mark(steps, "waits", checkpoint.step)
        while True:
            time.sleep(3600)


if "CRASH_FILE" in os.environ:  # in a worker, not where the test itself runs
    Steps.begin, Steps.kept = begin, kept  # type: ignore[method-assign]


app = Retoma(
    extensions=[DOCUMENTS, FILES],
    providers={BlobStore: FolderBlobs(FOLDER), Embedder: LocalEmbedder(), Extractor: LocalExtractor()},
)
