"""retoma bench: our own figures."""

from __future__ import annotations

import click


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def bench(args: tuple[str, ...]) -> None:
    """Measure queue, steps and recovery on this machine, and print the figures as JSON."""
    from retoma.bench import main

    main([*args])
