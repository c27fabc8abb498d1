"""Apps for one test each, and a way to hear what happened."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from retoma import Pipeline, Retoma, Settings
from retoma.telemetry import Event, listen

AppWith = Callable[..., Awaitable[Retoma]]


@pytest.fixture
async def app_with(settings: Settings) -> AsyncIterator[AppWith]:
    """Opens an app with these pipelines; settings by keyword."""
    opened: list[Retoma] = []

    async def make(*pipelines: Pipeline[Any, Any], providers: dict[type, object] | None = None, **given: Any) -> Retoma:
        changed = settings.model_copy(update=given)
        app = Retoma(settings=changed, pipelines=pipelines, providers=providers)
        opened.append(await app.open())
        return app

    yield make
    for app in opened:
        await app.close()


@pytest.fixture
def heard() -> Iterator[list[Event]]:
    """Every event since the beginning of the test."""
    events: list[Event] = []
    end = listen(events.append)
    yield events
    end()


BLOCKED = """
select count(distinct waiting.pid)
  from pg_locks as waiting
 where not waiting.granted
   and exists (select
                 from pg_locks as held
                where held.pid = waiting.pid
                  and held.database = (select oid from pg_database where datname = current_database()))
"""
"""How many statements wait for a lock in this database; what waits in those of other tests is none of ours."""
