"""The readers, one file each. They run in a child process, and only there are their libraries loaded.

A reader is a function of a path and a trail that returns an Extraction or raises a DocumentUnreadable. It is named by
*module:function*, so that the parent need not import it.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

from retoma.errors import ConfigurationError
from retoma.providers import Extraction
from retoma.providers.local.trail import Trail

_HERE = __name__

READERS: dict[str, tuple[str, ...]] = {
    "pdf": (f"{_HERE}.pdf:read", f"{_HERE}.pdf:repair"),
    "docx": (f"{_HERE}.docx:read",),
    "xlsx": (f"{_HERE}.xlsx:read",),
    "pptx": (f"{_HERE}.pptx:read",),
    "odt": (f"{_HERE}.odt:read",),
    "rtf": (f"{_HERE}.rtf:read",),
    "epub": (f"{_HERE}.epub:read",),
    "eml": (f"{_HERE}.mail:read",),
    "html": (f"{_HERE}.html:read",),
    "csv": (f"{_HERE}.plain:read_csv",),
    "txt": (f"{_HERE}.plain:read_txt",),
    "png": (f"{_HERE}.ocr:read_picture",),
    "jpg": (f"{_HERE}.ocr:read_picture",),
    "tiff": (f"{_HERE}.ocr:read_picture",),
}
"""The readers of each kind, in the order in which they are tried."""

OCR_OF_PAGES = f"{_HERE}.ocr:read_pages"


def read(place: str, file: Path, *, seconds: float = math.inf, **more: Any) -> Extraction:
    """In the child: the result of the reader at *place* for *file*, which has so many *seconds*."""
    module, _, name = place.partition(":")
    try:
        reader = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and {place} needs it.", next="pip install 'retoma[local]'"
        ) from error
    reading: Extraction = reader(file, Trail(seconds), **more)
    return reading
