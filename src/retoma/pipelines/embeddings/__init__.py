"""Embeddings: texts by their content, each embedded once (seed S3)."""

from __future__ import annotations

from typing import Any

from retoma.pipeline import Pipeline
from retoma.pipelines.embeddings.embed import embeddings

PIPELINES: tuple[Pipeline[Any, Any], ...] = (embeddings,)
