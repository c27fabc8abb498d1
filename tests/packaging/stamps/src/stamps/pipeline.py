"""A letter is stamped: its row and its checkpoint are one transaction."""

from __future__ import annotations

from typing import Any

import psycopg

from retoma import Pipeline, Run, pipeline
from retoma.app.fetch import fetch
from stamps import letters


@pipeline("stamps")
async def stamp(text: str, run: Run) -> int:
    """The number that the letter got."""

    async def stamped(connection: psycopg.AsyncConnection[Any]) -> int:
        (number,) = await fetch(connection, letters.put(run.job, text))
        return number

    return await run.transact("stamp", stamped)


PIPELINES: tuple[Pipeline[Any, Any], ...] = (stamp,)
