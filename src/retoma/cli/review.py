"""retoma review: decide what waits for a person, and see what was decided."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, context, output
from retoma.cli.language import words
from retoma.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from retoma.app.retoma import Retoma
    from retoma.app.reviews import By
    from retoma.model.review import Decision, Review

_REVIEW: output.Columns[Review] = {
    "id": lambda review: review.id,
    "pipeline": lambda review: review.pipeline,
    "batch": lambda review: review.batch_id,
    "job": lambda review: review.job_id,
    "label": lambda review: review.label,
    "margin": lambda review: None if review.margin is None else f"{review.margin:.3f}",
    "title": lambda review: review.title,
    "reason": lambda review: review.reason,
    "proposal": lambda review: review.proposal,
}
_id = click.argument("id", type=int)
_note = click.option("--note", metavar="TEXT", help="Why, for those who wonder later.")
_pipeline = click.option("--pipeline", metavar="NAME", help="Only what comes from this pipeline.")
_batch = click.option("--batch", "batch_id", type=int, metavar="ID", help="Only what belongs to this batch.")


@click.group()
def review() -> None:
    """Reviews: what waits for a person's decision, and what was decided."""


@review.command()
@context.app_option
@_pipeline
@_batch
@click.option("--label", metavar="NAME", help="Only proposals with this label.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N", help="At most.")
@output.as_json
def list(reference: str | None, *, as_json: bool, **wanted: Any) -> None:
    """List what waits for a person. The lowest margin first."""

    async def look(app: Retoma) -> Sequence[Review]:
        found = await app.reviews.find(**wanted)
        if found:
            await acting.look(app, "review")
        return found

    found = context.ask_server_or_program(reference, look)
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _REVIEW, nothing="Nothing waits for a person.")


@review.command()
@_id
@context.app_option
@_note
def accept(id: int, reference: str | None, note: str | None) -> None:
    """Accept a proposal. It becomes the result."""
    _decided(reference, id, lambda app, by: app.reviews.accept(id, acting.person(), **by), note)


@review.command()
@_id
@click.argument("value")
@context.app_option
@click.option("--label", metavar="NAME", help="The value in one word.")
@_note
def correct(id: int, value: str, reference: str | None, label: str | None, note: str | None) -> None:
    """Give another value, as JSON. It becomes the result, if it fits the pipeline's output."""
    try:
        read = json.loads(value)
    except ValueError as error:
        raise click.UsageError(words("VALUE is not JSON: {error}.", error=error)) from None
    _decided(reference, id, lambda app, by: app.reviews.correct(id, read, acting.person(), label=label, **by), note)


@review.command()
@_id
@context.app_option
@click.option("--retry", is_flag=True, help="Try the job again instead of failing it.")
@_note
def reject(id: int, reference: str | None, note: str | None, *, retry: bool) -> None:
    """Reject a proposal. The job fails, or is tried again."""
    _decided(reference, id, lambda app, by: app.reviews.reject(id, acting.person(), retry=retry, **by), note)


def _decided(
    reference: str | None, id: int, decide: Callable[[Retoma, By], Awaitable[Decision]], note: str | None
) -> None:
    async def act(app: Retoma) -> Decision:
        return await acting.change(app, "review", id, lambda conn: decide(app, {"note": note, "conn": conn}))

    decision = context.ask_server_or_program(reference, act)
    output.talk(
        "Decision {decision} on review {review} is written; 'retoma review undo' takes it back.",
        decision=decision.id,
        review=decision.review_id,
    )


@review.command()
@click.argument("decision", type=int, required=False)
@context.app_option
@_note
def undo(decision: int | None, reference: str | None, note: str | None) -> None:
    """Undo your last decision, or the one with this number. Its thing waits again."""

    async def act(app: Retoma) -> Decision:
        return await acting.change(
            app,
            "review",
            None,
            lambda conn: app.reviews.undo(acting.person(), decision, note=note, conn=conn),
            made=lambda undone: undone.review_id,
        )

    undone = context.ask_server_or_program(reference, act)
    output.talk(
        "Decision {decision} is undone: review {review} waits again.", decision=undone.undoes, review=undone.review_id
    )


@review.command()
@_pipeline
@_batch
@click.option("--output", "file", type=click.Path(path_type=Path), metavar="FILE", help="Where to; else it is printed.")
def export(file: Path | None, **wanted: Any) -> None:
    """Write every decision as a line of JSON. The oldest first."""

    async def read(app: Retoma) -> Sequence[Decision]:
        await acting.look(app, "review")
        return [each async for each in app.reviews.export(**wanted)]

    lines = [output.json_of(each) + "\n" for each in context.ask(read)]
    if file is None:
        sys.stdout.writelines(lines)
        return
    try:
        file.write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written: {error.strerror}.", next="Name a file in a folder of yours."
        ) from None
