"""Whether the path of a job works: written, claimed, ended, notified of; and nothing of that stays."""

from __future__ import annotations

import psycopg
import pytest

from retoma import Retoma, Settings


async def test_a_database_that_is_well_does_it_and_keeps_nothing(settings: Settings, psql: psycopg.Connection) -> None:
    async with Retoma(settings=settings) as app:
        found = await app.system.health()

    assert found.echo_seconds is not None
    assert found.write_seconds is not None
    assert found.claim_seconds is not None
    for table in ("jobs", "workers", "attempts", "events", "lanes"):
        (count,) = psql.execute(f"select count(*) from retoma.{table}").fetchone() or (None,)
        assert (table, count) == (table, 0)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("alter table retoma.jobs add constraint full_disk check (false) not valid", (False, False)),
        ("alter table retoma.attempts add constraint broken check (false) not valid", (True, False)),
    ],
    ids=["no row can be written", "an ending cannot be written"],
)
async def test_a_database_that_answers_and_cannot_work_is_not_well(
    settings: Settings, psql: psycopg.Connection, harm: str, told: tuple[bool, bool]
) -> None:
    psql.execute(harm)
    psql.commit()

    async with Retoma(settings=settings) as app:
        found = await app.system.health()

    assert (found.write_seconds is not None, found.claim_seconds is not None) == told
