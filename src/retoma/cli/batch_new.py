"""retoma batch new: a batch of any pipeline, from a file of inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, batch_act, context, output, params
from retoma.cli.language import words

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma


@click.command()
@click.argument("pipeline")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="What people call it; the name of the file unless it is said.")
@click.option("--pilot", type=click.IntRange(0, 1000), default=0, metavar="N", help="Let N jobs run first.")
@click.option("--label", "labels", type=batch_act.label, multiple=True, metavar="K=V", help="A label; may be repeated.")
@click.option("--budget", type=params.money, metavar="US$", help="What it may cost in all.")
@click.option("--priority", type=click.IntRange(-1000, 1000), metavar="P", help="The smaller goes first.")
@click.option(
    "--at-once", type=click.IntRange(1, 10_000), metavar="N", help="How many of its jobs run at the same time."
)
@context.app_option
def new(
    pipeline: str, file: Path, reference: str | None, name: str | None, labels: tuple[tuple[str, str], ...], **how: Any
) -> None:
    """Make a batch of PIPELINE with one job for each input in FILE. A JSON list, or one JSON value per line.

    Every input is looked at first: where one does not fit, all that do not are told, and nothing is made.
    """
    inputs = _read(file)
    given = {key: value for key, value in how.items() if value is not None}
    if labels:
        given["labels"] = dict(labels)
    id, total, held = _made(pipeline, inputs, name or file.name, given, reference)
    output.talk("Batch {id} has {total} jobs.", id=id, total=total)
    if held:
        output.talk("Its pilot runs first: retoma batch pilot {id}", id=id)
    output.say(id)


def _made(
    pipeline: str, inputs: list[Any], name: str, given: dict[str, Any], reference: str | None
) -> tuple[int, int, bool]:
    """The batch's number, how many jobs it has, and whether some of them are held."""
    if context.server() is not None:
        return context.ask(lambda app: _made_there(app, pipeline, inputs, name, given))
    return context.ask_program(reference, lambda app: _made_here(app, pipeline, inputs, name, given))


async def _made_there(
    app: Any, pipeline: str, inputs: list[Any], name: str, given: dict[str, Any]
) -> tuple[int, int, bool]:
    made = await app.batches.create(pipeline, inputs, name=name, **given)
    return made.id, made.total or 0, 0 < given["pilot"] < len(inputs)


async def _made_here(
    app: Retoma, pipeline: str, inputs: list[Any], name: str, given: dict[str, Any]
) -> tuple[int, int, bool]:
    found = app.registry.pipeline(pipeline)
    decoded = decoded_all(found, inputs)
    made = await acting.change(
        app,
        "batch",
        None,
        lambda conn: app.batch(found, decoded, name=name, conn=conn, **given),
        made=lambda batch: batch.id,
    )
    return made.id, made.total or 0, made.held_at is not None


def decoded_all(pipeline: Any, inputs: list[Any]) -> list[Any]:
    """The inputs as the pipeline takes them; every one that it does not take is told."""
    from retoma.values.codec import Misfit

    decoded, wrong = [], 0
    for place, each in enumerate(inputs, 1):
        try:
            decoded.append(pipeline.input.decode(json.dumps(each)))
        except Misfit as misfit:
            wrong += 1
            output.talk("Input {place}: {misfit}", place=place, misfit=misfit)
    if wrong:
        raise click.BadParameter(
            words("{wrong} of {all} inputs do not fit; nothing was made.", wrong=wrong, all=len(inputs))
        )
    return decoded


def _read(file: Path) -> list[Any]:
    """The inputs in *file*: a JSON list, or one JSON value on each line."""
    text = file.read_text(encoding="utf-8")
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, list):
        return whole
    found, wrong = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except ValueError as error:
            wrong += 1
            output.talk("Line {number}: {error}", number=number, error=error)
    if wrong or not found:
        raise click.BadParameter(words("{file} holds no inputs that can be read; nothing was made.", file=file))
    return found
