"""The page with the schema is what the migrations make."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import psycopg
import pytest

TOOL = Path(__file__).parents[2] / "tools/schema.py"


def test_the_page_is_fresh(psql: psycopg.Connection) -> None:
    if psql.execute("select to_regtype('vector')").fetchone() == (None,):
        pytest.skip("pgvector is not installed, and the page has its indexes")
    spec = importlib.util.spec_from_file_location("schema_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    assert tool.described(psql) == tool.PAGE.read_text(encoding="utf-8"), "Try: make schema"
