"""retoma demo: the promise, kept before one's eyes."""

from __future__ import annotations

import click


@click.command()
@click.option(
    "--documents",
    type=click.IntRange(40, 5000),
    default=300,
    show_default=True,
    metavar="N",
    help="How many texts to read.",
)
def demo(documents: int) -> None:
    """Read some hundred texts, kill an executor and then the whole worker, and see the work go on.

    Uses a PostgreSQL of its own in a temporary folder (or in RETOMA_HOME), needs no network, asks nothing, and
    leaves nothing running. The exit code is 1 if a document was lost or a finished step ran again.
    """
    from retoma.demo.show import run

    click.get_current_context().exit(0 if run(documents) else 1)
