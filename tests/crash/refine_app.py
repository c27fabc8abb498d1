"""The classifier, whose last step writes a diary and, while a file is there, hangs inside a transaction."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from crash_app import FILE

from retoma import Retoma
from retoma.pipelines import CLASSIFICATION
from retoma.pipelines.classification import finishing
from retoma.providers import BlobStore, Classifier, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical

FOLDER = Path(FILE).parent
DIARY = FOLDER / "refined.log"
HOLD = FOLDER / "hold"
HELD_AT = 3
"""The piece in whose transaction it hangs: the ones before it are committed."""

finishing.PIECE = 1
_judged, _applied = finishing._judged, finishing._applied


def _note(line: str) -> int:
    diary = os.open(DIARY, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(diary, f"{line}\n".encode())
    os.close(diary)
    return len([each for each in DIARY.read_text().splitlines() if each.startswith("apply")])


async def judged(*given: Any) -> finishing.Judged:
    _note("judge")
    return await _judged(*given)


async def applied(connection: finishing.Connection, finding: int, after: int) -> tuple[int, int]:
    done = await _applied(connection, finding, after)
    if _note(f"apply {after}") == HELD_AT and HOLD.exists():
        _note("held")
        await asyncio.Event().wait()
    return done


finishing._judged, finishing._applied = judged, applied

app = Retoma(
    extensions=[CLASSIFICATION],
    providers={
        Extractor: LocalExtractor(),
        Classifier: LocalClassifier(Lexical()),
        BlobStore: FolderBlobs(FOLDER / "blobs"),
    },
)
