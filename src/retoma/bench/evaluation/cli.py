"""retoma accuracy: how good the offline providers are, measured here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from retoma.cli import output
from retoma.cli.language import words


@click.command()
@click.argument("names", nargs=-1, metavar="[FIGURE]...")
@click.option(
    "--mine",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Measure your own documents instead: DIR has a subfolder for each label.",
)
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --mine: what the labels mean, as 'retoma classify --labels' reads it.",
)
@output.as_json
def accuracy(names: tuple[str, ...], mine: Path | None, labels: Path | None, *, as_json: bool) -> None:
    """Measure the offline providers on labelled texts: classification, search, reading, OCR, embeddings, summaries.

    Every figure is told from the test part of its set, with its size, its baseline and a 95 % interval. Needs no key
    and no network; only search needs a database, and makes one of its own. Name FIGUREs to measure only these.
    """
    from retoma.bench.evaluation.accuracy import MEASURES, measure

    if mine is not None and names:
        raise click.UsageError(words("--mine measures your documents alone; name no FIGURE beside it."))
    if labels is not None and mine is None:
        raise click.UsageError(words("--labels tells what the labels of --mine mean; give --mine, too."))
    if unknown := [name for name in names if name not in MEASURES]:
        raise click.UsageError(
            words("There is no figure {unknown!r}; there are {names}.", unknown=unknown[0], names=", ".join(MEASURES))
        )
    figures = measure(names) if mine is None else _mine(mine, labels)
    if as_json:
        output.print_json(figures)
    else:
        output.fields(dict(_flat(figures)))


def _mine(folder: Path, labels: Path | None) -> dict[str, Any]:
    from retoma.bench.evaluation.mine import mine

    figures = asyncio.run(mine(folder, described=labels))
    if figures["unreadable"]:
        output.talk("{number} files could not be read and are not counted.", number=figures["unreadable"])
    return {"mine": figures}


def _flat(figures: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
