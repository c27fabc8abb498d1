"""Invented shops and records, served on this machine in the shapes of the real services: quotes without a network."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def data() -> dict[str, Any]:
    """The catalogue as tools/catalogue.py wrote it."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
    return loaded
