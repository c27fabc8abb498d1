"""retoma batch pilot: how the pilot of a batch went, and what the whole will cost, take and lose by it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import batch_view, context, output, working
from retoma.cli.language import Phrase
from retoma.model.ids import BatchId

if TYPE_CHECKING:
    from collections.abc import Callable

    from retoma.app.retoma import Retoma
    from retoma.model.pilot import Pilot, Range
    from retoma.run.pipeline import Pipeline

_LOOK_SECONDS = 0.5


@click.command()
@click.argument("id", type=int)
@output.as_json
def pilot(id: BatchId, *, as_json: bool) -> None:
    """Say what the pilot of a batch tells of the whole. Cost, time and failures, each with its interval.

    'retoma batch release' then lets the rest be taken, 'retoma batch cancel' stops it, 'retoma batch change' gives it
    another budget.
    """
    found = context.ask(lambda app: app.batches.pilot(id))
    if as_json:
        output.print_json(_plain(found))
        return
    _tell(found)


def _tell(found: Pilot) -> None:
    """What the pilot says, and what to do now."""
    output.fields(_facts(found))
    if output.in_terminal():
        for line in advice(found):
            output.talk(line)


async def pilot_told(app: Retoma, id: BatchId, pipeline: Pipeline[Any, Any], *, reference: str) -> None:
    """Wait until the pilot of a batch has ended, and say what it tells of the whole. Where no worker serves it, one
    works here meanwhile.
    """
    await working.ended(app, _pilot_over(app, id), pipeline, reference=reference)
    _tell(await app.batches.pilot(id))


async def _pilot_over(app: Retoma, id: BatchId) -> None:
    while not (found := await app.batches.pilot(id)).over and not found.batch.state.ended:
        await asyncio.sleep(_LOOK_SECONDS)


def _plain(found: Pilot) -> dict[str, object]:
    told: dict[str, object] = output.plain(found)
    batch = found.batch
    return {**told, "batch": {"id": batch.id, "name": batch.name, "state": batch.state, "total": batch.total}}


def _facts(found: Pilot) -> dict[str, object]:
    batch = found.batch
    known = {
        "id": batch.id,
        "name": batch.name,
        "state": batch.state,
        "pilot": Phrase("{ended} of {jobs} jobs ended, {failed} failed", **_numbers(found)),
        "held": found.held or None,
        "spent": batch_view.paid(found.spent, found.unpriced),
        "whole": batch.total,
        "cost": _ranged(found.cost, lambda value: batch_view.money(Decimal(f"{value:.6f}"))),
        "work": _ranged(found.work_seconds, batch_view.span),
        "time": _ranged(found.elapsed_seconds, batch_view.span),
        "failures": _ranged(found.failure_rate, lambda value: f"{100 * value:.1f}%"),
        "by": Phrase("{method}; {percent:.0f} % of cases", method=found.method, percent=100 * found.confidence),
    }
    return {name: value for name, value in known.items() if value is not None}


def _numbers(found: Pilot) -> dict[str, int]:
    return {"ended": found.ended, "jobs": found.jobs, "failed": found.failed}


def _ranged(range: Range | None, said: Callable[[float], str]) -> str | None:
    if range is None:
        return None
    return Phrase("{likely} ({low} to {high})", likely=said(range.likely), low=said(range.low), high=said(range.high))


def advice(found: Pilot) -> list[Phrase]:
    """What to do now."""
    id, budget = found.batch.id, found.batch.budget
    if not found.jobs:
        return [Phrase("Batch {id} has no pilot.", id=id)]
    if found.released:
        return [Phrase("It is released; to follow it: retoma batch watch {id}", id=id)]
    if not found.over:
        return [Phrase("The pilot still runs; to follow it: retoma batch watch {id}", id=id)]
    lines = [Phrase("To go on with the other {held} jobs: retoma batch release {id}", held=found.held, id=id)]
    if budget is not None and found.cost is not None and found.cost.high > float(budget):
        lines.insert(0, Phrase("The budget of {budget} may not be enough.", budget=batch_view.money(budget)))
    return lines
