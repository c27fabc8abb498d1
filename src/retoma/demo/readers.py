"""The demo's readers of PDFs: the usual ones, but for a document that kills whoever opens it.

They run in the isolated child process, as every reader does. What dies of such a document is that process, for real.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from retoma.demo.samples import DEADLY
from retoma.providers import Extraction
from retoma.providers.local.readers import pdf
from retoma.providers.local.trail import Trail


def read(file: Path, trail: Trail) -> Extraction:
    """What the usual reader gets from *file*."""
    _die_of(file, trail, "pypdfium2")
    return pdf.read(file, trail)


def repair(file: Path, trail: Trail) -> Extraction:
    """What it gets once the file was repaired."""
    _die_of(file, trail, "pikepdf")
    return pdf.repair(file, trail)


def _die_of(file: Path, trail: Trail, reader: str) -> None:
    if file.read_bytes().endswith(DEADLY):
        trail.at(reader, 1)
        os.kill(os.getpid(), signal.SIGSEGV)
