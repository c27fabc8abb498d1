"""The classifier, whose refinements write a diary and, while a file is there, hang inside a transaction; and whose
documents are classified one at a time, as far as a file says.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crash_app import FILE

from retoma import Retoma
from retoma.pipelines import CLASSIFICATION
from retoma.pipelines.classification import refinement
from retoma.providers import BlobStore, Classifier, Extractor, Label, Verdict
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical

FOLDER = Path(FILE).parent
DIARY = FOLDER / "refined.log"
HOLD = FOLDER / "hold"
HELD_AT = 3
"""The piece in whose transaction it hangs: the ones before it are committed."""
STOP = FOLDER / "stop"
"""How many documents are classified before the next ones hang, while it is there."""

refinement.PIECE = 1
_judged, _applied = refinement._judged, refinement._applied


def _note(line: str) -> list[str]:
    diary = os.open(DIARY, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(diary, f"{line}\n".encode())
    os.close(diary)
    return DIARY.read_text().splitlines()


async def judged(*given: Any) -> refinement.Judged:
    _note("judge")
    return await _judged(*given)


async def applied(connection: refinement.Connection, finding: int, after: int) -> tuple[int, int]:
    done = await _applied(connection, finding, after)
    own = [each for each in _note(f"apply {finding} {after}") if each.startswith(f"apply {finding} ")]
    if len(own) == HELD_AT and HOLD.exists():
        _note("held")
        await asyncio.Event().wait()
    return done


refinement._judged, refinement._applied = judged, applied


class Slow(LocalClassifier):
    """Hangs on the documents after the first so many."""

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        if STOP.exists() and DIARY.exists():
            done = [each for each in DIARY.read_text().splitlines() if each.startswith("classify ")]
            if len(done) >= int(STOP.read_text()):
                _note("stopped")
                await asyncio.Event().wait()
        _note(f"classify {texts[0].rpartition('. ')[2]}")
        return await super().classify(texts, labels, timeout=timeout)


app = Retoma(
    extensions=[CLASSIFICATION],
    providers={
        Extractor: LocalExtractor(),
        Classifier: Slow(Lexical()),
        BlobStore: FolderBlobs(FOLDER / "blobs"),
    },
)
