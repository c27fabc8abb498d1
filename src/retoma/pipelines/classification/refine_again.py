"""An execution gone through again with what people taught: background work that is resumed like any other.

Each document has a vector, made once for its text. The vectors, the first results and the examples are judged together;
what changed is saved in a checkpoint, and then written in one transaction with the figures of what it was worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from retoma.app.fetch import fetch
from retoma.model.retry import Retry
from retoma.pipelines.classification import examples, refinements
from retoma.pipelines.classification.refinements import Change, Gain
from retoma.run.pipeline import pipeline
from retoma.run.run import Run

_PIECE = 50
"""Texts whose vectors are kept together: what a killed worker does again, at most."""

Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which execution, and the labels it was made with."""

    batch_id: int
    project_id: int
    labels: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the documents say together now."""

    examples: int
    total: int
    taught: list[int]
    """The examples whose documents are in this execution, and whose results nobody decided yet."""
    changes: list[Change]
    gain: Gain


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """What came of it."""

    examples: int
    total: int
    changed: int


@pipeline(
    "classification-refine",
    internal=True,
    queue="classification",
    retry=Retry(attempts=3, wait=5.0, factor=2.0),
    timeout=3600.0,
)
async def refine_execution(wish: Wish, run: Run) -> Refined:
    """Judge the documents of an execution again, with the examples of its project, and write what changed, once."""
    return await relearn(wish, run)


async def relearn(wish: Wish, run: Run) -> Refined:
    """The steps of a refinement, for the button and for the last step of an execution."""
    after = piece = 0
    while (after := await run.transact(f"vectors/{piece}", _embed, wish, after)) >= 0:
        piece += 1
    found = await run.transact("learn", _judged, wish)
    return await run.transact("teach", _applied, wish, found, run.job)


async def wish_of(connection: Connection, batch_id: int, labels: list[dict[str, Any]]) -> Wish | None:
    """What a refinement of an execution needs; None when nobody has taught its project anything."""
    rows = await fetch(connection, examples.taught_project(batch_id))
    return Wish(batch_id=batch_id, project_id=rows[0], labels=labels) if rows and labels else None


async def _embed(connection: Connection, wish: Wish, after: int) -> int:
    """Keep the vectors of the next texts that have none; where to go on, or -1 when that was all."""
    # numpy and the encoder are needed by whoever refines, and by nobody who only has this pipeline's name.
    from retoma.pipelines.classification.relearning import keep  # noqa: PLC0415

    found = await fetch(connection, refinements.material(wish.batch_id, after=after, limit=_PIECE))
    texts = [each.text for each in found]
    if after == 0:
        texts += [each.excerpt for each in await fetch(connection, examples.texts(wish.project_id)) if each.excerpt]
    await keep(connection, texts)
    return found[-1].id if len(found) == _PIECE else -1


async def _judged(connection: Connection, wish: Wish) -> Found:
    from retoma.pipelines.classification.relearning import judged  # noqa: PLC0415

    return await judged(connection, wish.batch_id, wish.project_id, wish.labels)


async def _applied(connection: Connection, wish: Wish, found: Found, job: int) -> Refined:
    """Everything or nothing: what people taught, what changed, what the desk shows, and the figures."""
    await fetch(connection, examples.apply(found.taught, batch_id=wish.batch_id))
    done = await fetch(connection, refinements.change(wish.batch_id, found.changes)) if found.changes else []
    moved = {each.id for each in found.changes if each.was != each.label} & set(done)
    await fetch(connection, refinements.tell_desk(wish.batch_id))
    await fetch(
        connection,
        refinements.finish(
            wish.batch_id,
            wish.project_id,
            job,
            examples=found.examples,
            total=found.total,
            changed=len(moved),
            gain=found.gain.as_json(),
        ),
    )
    return Refined(examples=found.examples, total=found.total, changed=len(moved))
