"""Classification: batches of documents, each told its kind (seed S0)."""

from __future__ import annotations

from typing import Any

from retoma.pipeline import Pipeline
from retoma.pipelines.classification.handler import classify_document

PIPELINES: tuple[Pipeline[Any, Any], ...] = (classify_document,)
