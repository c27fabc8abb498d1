"""The services, as processes on this machine; the providers that talk to them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stores import azurite_url, s3_url

from retoma.testing.wire import Served

__all__ = ["azurite_url", "s3_url"]

SERVICES = Path(__file__).parents[1] / "servers" / "services.py"


@pytest.fixture(scope="session")
def running_services() -> Iterator[Served]:
    with Served(str(SERVICES)) as served:
        yield served


@pytest.fixture
def services(running_services: Served) -> Served:
    """Every service, in good order, having heard nothing yet."""
    running_services.tell()
    return running_services
