"""The ready pipelines, and the app that serves them when nobody names another (``retoma.pipelines:app``)."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from retoma.app import Retoma
from retoma.pipeline import Pipeline
from retoma.pipelines import classification, documents, embeddings
from retoma.pipelines.sweeping import sweep_blobs
from retoma.providers.choose import providers_from
from retoma.settings import Settings

__all__ = ["ALL", "ready"]

ALL: tuple[Pipeline[Any, Any], ...] = (
    *documents.PIPELINES,
    *embeddings.PIPELINES,
    *classification.PIPELINES,
    sweep_blobs,
)
"""Every ready pipeline; an app of one's own may list them beside its own."""


@cache
def ready() -> Retoma:
    """The app of the ready pipelines, with the providers that the settings choose."""
    settings = Settings.load()
    return Retoma(
        settings=settings, pipelines=ALL, providers=providers_from({**os.environ, "RETOMA_HOME": str(settings.home)})
    )


def __getattr__(name: str) -> Any:
    # Made when somebody asks for it: who imports one pipeline need not have set up the providers of all.
    if name == "app":
        return ready()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
