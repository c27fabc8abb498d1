"""retoma accuracy: how good the offline providers are, measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from retoma.cli import output
from retoma.cli.language import words


@click.command()
@click.argument("names", nargs=-1, metavar="[FIGURE]...")
@output.as_json
def accuracy(names: tuple[str, ...], *, as_json: bool) -> None:
    """Measure the offline providers on labelled texts: reading, OCR, embeddings, classification, summaries.

    Needs no key, no network and no database. Name FIGUREs to measure only these.
    """
    from retoma.bench.evaluation.accuracy import MEASURES, measure

    if unknown := [name for name in names if name not in MEASURES]:
        raise click.UsageError(
            words("There is no figure {unknown!r}; there are {names}.", unknown=unknown[0], names=", ".join(MEASURES))
        )
    figures = measure(names)
    if as_json:
        output.print_json(figures)
    else:
        output.fields(dict(_flat(figures)))


def _flat(figures: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
