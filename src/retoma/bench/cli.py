"""retoma bench: our own figures."""

from __future__ import annotations

import click

from retoma.cli.language import words


@click.command()
@click.argument("names", nargs=-1, metavar="[FIGURE]...")
@click.option(
    "--quick", is_flag=True, help="A tenth of the work: minutes instead of half an hour, and rougher figures."
)
@click.option(
    "--waiting",
    type=click.IntRange(0, 100_000_000),
    metavar="JOBS",
    help="How many jobs there are in noop_jobs_deep and pages, instead of a million; ten million take 3 GB.",
)
@click.option(
    "--quotes",
    type=click.IntRange(1, 10_000),
    metavar="NUMBER",
    help="How many quotes quotes_through_kills makes, instead of ten thousand.",
)
def bench(names: tuple[str, ...], *, quick: bool, waiting: int | None, quotes: int | None) -> None:
    """Measure queue, calls and the ready pipelines on this machine, and print the figures as JSON.

    Name FIGUREs to measure only these; soak, half an hour of steady load,
    lists_of_ten_million and quotes_through_kills run only when they are
    named. Works in a database of its own on the server that is set.
    """
    from retoma.bench.plan import main, plan

    known = plan(quick=quick)
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(
            words("There is no figure {unknown!r}; there are {names}.", unknown=unknown[0], names=", ".join(known))
        )
    main(only=names, quick=quick, waiting=waiting, quotes=quotes)
