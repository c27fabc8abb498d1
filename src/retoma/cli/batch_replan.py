"""retoma batch replan, cohorts: another configuration for the rest of a batch, and how the cohorts compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, batch_act, batch_view, context, output
from retoma.model.ids import BatchId

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.batch import Resumed
    from retoma.model.cohort import Cohort


def _share(part: float | None) -> str | None:
    return None if part is None else f"{100 * part:.1f}%"


_COHORT: output.Columns[Cohort] = {
    "cohort": lambda cohort: cohort.number,
    "since": lambda cohort: cohort.since,
    "by": lambda cohort: cohort.planned_by,
    "jobs": lambda cohort: cohort.jobs,
    "ended": lambda cohort: cohort.ended,
    "failures": lambda cohort: _share(cohort.failure_rate),
    "cost each": lambda cohort: None if cohort.cost_each is None else batch_view.money(cohort.cost_each),
    "time": lambda cohort: None if cohort.median_seconds is None else f"{cohort.median_seconds:.3g} s",
    "review": lambda cohort: _share(cohort.review_share),
    "decided": lambda cohort: cohort.decided or None,
    "agreement": lambda cohort: _share(cohort.agreement),
    "note": lambda cohort: cohort.note,
}


@click.command()
@click.argument("id", type=int)
@click.option(
    "--configuration",
    required=True,
    type=lambda text: batch_act.configuration(Path(text)),
    metavar="FILE",
    help="The new configuration: a file with a JSON object.",
)
@click.option("--note", metavar="TEXT", help="What is different, for those who compare.")
def replan(id: BatchId, configuration: dict[str, Any], note: str | None) -> None:
    """Give the jobs of a batch that have not begun another configuration. Those that have begun go on under theirs;
    'retoma batch cohorts' compares them.
    """

    async def ask(app: Retoma) -> Resumed:
        by = acting.person()
        did = await acting.change(
            app,
            "batch",
            id,
            lambda conn: app.batches.replan(id, configuration=configuration, note=note, by=by, wait=False, conn=conn),
            noted={"note": note} if note else {},
        )
        return await batch_act.resumed_all(app, did)

    did = context.ask(ask)
    if did.word == "already_planned":
        output.talk("Batch {id} has this configuration already; nothing was changed.", id=id)
    else:
        output.talk("{jobs} jobs of batch {id} run under the new configuration.", jobs=did.jobs, id=id)
        output.talk("To compare: retoma batch cohorts {id}", id=id)
    output.say(f"{did.batch.id}\t{did.batch.state}")


@click.command()
@click.argument("id", type=int)
@output.as_json
def cohorts(id: BatchId, *, as_json: bool) -> None:
    """Compare the cohorts of a batch. How many jobs, failures, cost, time, reviews, and how often people agreed."""
    found = context.ask(lambda app: acting.shown(app, "batch", id, app.batches.cohorts(id)))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _COHORT, nothing="There is no cohort.")
