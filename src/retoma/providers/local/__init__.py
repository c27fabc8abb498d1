"""Local providers, which need no key and no network: reading, embedding, classifying.

Names are imported on first use, so that one part does not load what only another needs.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from retoma.errors import ConfigurationError

if TYPE_CHECKING:
    from retoma.providers.local.classify import LocalClassifier
    from retoma.providers.local.embed import LocalEmbedder
    from retoma.providers.local.errors import DocumentUnreadable
    from retoma.providers.local.extract import LocalExtractor
    from retoma.providers.local.kinds import detect

# numpy reads this when it is loaded. On a busy machine, BLAS threads that wait for each other make one text take as
# long as five; and the other cores have workers of their own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__all__ = ["DocumentUnreadable", "LocalClassifier", "LocalEmbedder", "LocalExtractor", "detect"]

_PLACES = {
    "DocumentUnreadable": "errors",
    "LocalClassifier": "classify",
    "LocalEmbedder": "embed",
    "LocalExtractor": "extract",
    "detect": "kinds",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_PLACES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("retoma"):
            raise
        raise ConfigurationError(
            f"{error.name} is not installed, and {name} needs it.", next="pip install 'retoma[local]'"
        ) from error
    return getattr(module, name)
