"""A fleet, its oracle and an app to queue jobs with; nothing is left running afterwards."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from crash_app import PIPELINES
from fleet import Fleet
from oracle import Oracle

from retoma import Retoma


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(database_url, tmp_path)
    yield fleet
    fleet.clear_away()
    fleet.tell()


@pytest.fixture
def oracle(fleet: Fleet) -> Iterator[Oracle]:
    oracle = Oracle(fleet.url, fleet.file)
    yield oracle
    oracle.close()


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Retoma]:
    async with Retoma(fleet.url, pipelines=PIPELINES) as app:
        yield app
