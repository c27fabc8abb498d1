"""How many statements each page of the console sends: a bound, so that nobody adds one unseen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.web.console.batch import TABS

from .archive import HTML
from .conftest import PIPELINES, House, serving
from .machine_stage import furnish
from .test_audit_routes import Stage

MOST = 8
MOST_KNOWN = 2  # of a page whose facts are known: who asks
LISTS = (
    "", "batches", "errors", "dead-letters", "review", "new", "queues", "workers", "limits", "schedules", "operations",
    "alerts", "costs", "calls", "access", "webhooks", "audit", "search?q=arquivo",
)  # fmt: skip
STALLED = """
update retoma.batches set state = 'stalled', started_at = now() - interval '1 hour', stalled_at = now(),
       last_progress_at = now() - interval '1 hour', finished_at = null where id = %s
"""


@contextmanager
def counted() -> Iterator[list[str]]:
    """What is sent meanwhile by the server, which is a thread of ours."""
    told: list[str] = []
    execute = psycopg.AsyncRawCursor.execute

    async def counting(self: Any, query: Any, *given: Any, **options: Any) -> Any:
        told.append(" ".join(str(query).split())[:120])
        return await execute(self, query, *given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.AsyncRawCursor, "execute", counting)
        yield told


def statements(house: House, place: str) -> list[str]:
    """What is sent for a page that was shown before, as for everybody but the first. The fewest of three: whatever the
    server does by itself meanwhile is not sent each time.
    """
    found: list[list[str]] = []
    for _ in range(4):
        with counted() as told:
            answer = house.client.get(f"/console/{place}", headers=HTML)
        assert answer.status_code == 200, (place, answer.status_code)
        found.append(told)
    return min(found[1:], key=len)


@pytest.fixture
def house(settings: Settings) -> Iterator[House]:
    with (
        serving(Retoma(settings=settings, pipelines=PIPELINES), rounds=False) as url,
        httpx2.Client(base_url=url, timeout=60) as client,
    ):
        yield House(url, client, settings)


def test_no_page_sends_more_statements_than_a_list_may(house: House, psql: psycopg.Connection) -> None:
    ids, stage = furnish(house, psql), Stage(house)
    stage.failed()
    stage.review()
    batch = f"batches/{ids['batch']}?tab="
    found = {place: statements(house, place) for place in (*LISTS, *(f"{batch}{tab}" for tab in TABS), "system")}
    psql.execute(STALLED, [ids["batch"]])
    found |= {f"stalled {tab}": statements(house, f"{batch}{tab}") for tab in TABS}

    counts = {place: len(told) for place, told in found.items()}
    print(counts)  # noqa: T201 - the figures, when it fails
    assert {place: told for place, told in found.items() if len(told) > MOST} == {}
    assert min(counts.values()) > 0, "they are counted"


def test_a_batch_that_is_not_there_is_still_told_so(house: House) -> None:
    answers = [house.client.get(f"/console/batches/999999?tab={tab}", headers=HTML).status_code for tab in TABS]

    assert set(answers) == {404}


def test_the_first_look_at_the_system_sends_few_statements_and_the_next_hardly_any(house: House) -> None:
    house.client.get("/console/", headers=HTML)
    with counted() as first:
        assert house.client.get("/console/system", headers=HTML).status_code == 200
    with counted() as next_one:
        assert house.client.get("/console/system", headers=HTML).status_code == 200

    assert first, "they are counted"
    assert len(first) <= MOST, "\n".join(first)
    assert len(next_one) <= MOST_KNOWN, "\n".join(next_one)
