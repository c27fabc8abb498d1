"""Describes a pipeline for people and for forms."""

from __future__ import annotations

import inspect
from typing import Any

from retoma.model.described import Described
from retoma.providers import Chat, Classifier, Embedder, Extractor, PriceSearch
from retoma.run.pipeline import Pipeline

_MODELS = (Chat, Classifier, Embedder, Extractor, PriceSearch)
"""What a handler asks for that may bill a request."""


def described(pipeline: Pipeline[Any, Any], *, provided: dict[str, Any], page: str | None = None) -> Described:
    """What is told of *pipeline*; *provided* are the providers that its handler gets, by keyword."""
    kinds = {name: kind for name, kind in {**pipeline.needs, **pipeline.optional}.items() if name in provided}
    return Described(
        name=pipeline.name,
        queue=pipeline.queue,
        description=_first_paragraph(pipeline.handler),
        input_schema=pipeline.input.schema,
        asks_model=any(kind in _MODELS for kind in kinds.values()),
        providers=sorted({getattr(kind, "__name__", str(kind)) for kind in kinds.values()}),
        internal=pipeline.internal,
        page=page,
    )


def _first_paragraph(handler: Any) -> str:
    text = inspect.cleandoc(getattr(handler, "__doc__", None) or "")
    return " ".join(text.partition("\n\n")[0].split())
