"""Documents: uploaded, read, cut, embedded, found by what they mean (seed S4)."""

from __future__ import annotations

from typing import Any

from retoma.pipeline import Pipeline
from retoma.pipelines.documents.process import process

PIPELINES: tuple[Pipeline[Any, Any], ...] = (process,)
