"""The ready products, and the app that serves them when nobody names another (``retoma.pipelines:app``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retoma.pipelines.books.extension import BOOKS
from retoma.pipelines.classification.extension import CLASSIFICATION
from retoma.pipelines.documents.extension import DOCUMENTS
from retoma.pipelines.embeddings.extension import EMBEDDINGS
from retoma.pipelines.files.extension import FILES
from retoma.pipelines.quotes.extension import QUOTES

if TYPE_CHECKING:
    from retoma.pipelines.ready_app import ready

__all__ = ["ALL", "BOOKS", "CLASSIFICATION", "DOCUMENTS", "EMBEDDINGS", "FILES", "QUOTES", "ready"]

ALL = (DOCUMENTS, EMBEDDINGS, CLASSIFICATION, QUOTES, BOOKS, FILES)
"""Every ready product; an app of one's own may list them beside its own."""


def __getattr__(name: str) -> Any:
    # Made at the first use: a program that imports one product has not set up the providers of all.
    if name not in {"app", "ready"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from retoma.pipelines.ready_app import ready  # noqa: PLC0415

    return ready() if name == "app" else ready
